package history

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MarkStart and MarkStop are how Postgres marks what it found. They are of Unicode's private use; the store removes them
// from messages that contain them.
const (
	MarkStart = '\uE000'
	MarkStop  = '\uE001'
	// setApart and a space stand beside characters of noSpaces (throughline.searchable in the migrations).
	setApart = '\x01'
)

// Snippet is the part of a message that shows why it was found, as plain text. In it " … " stands for what is left
// out between two parts.
type Snippet struct {
	Text       string      `json:"snippet" db:"-" description:"The part of the message that shows why it was found, as plain text."`
	Highlights []Highlight `json:"highlights" db:"-" nullable:"false" description:"The words that were found, in their order."`
}

// Highlight is a range in a snippet, in Unicode code points: from Start up to but without End.
type Highlight struct {
	Start int `json:"start" description:"Where the word begins in the snippet, in Unicode code points."`
	End   int `json:"end" description:"Where it ends: the first code point after it."`
}

// ReadSnippet makes a snippet of what ts_headline returns for throughline.searchable(content).
func ReadSnippet(marked string) Snippet {
	snippet := Snippet{Highlights: []Highlight{}}
	var text []rune
	from := -1 // where the open highlight begins, -1 without one
	stop := func() {
		if from < 0 {
			return
		}
		to := from + utf8.RuneCountInString(strings.TrimRightFunc(string(text[from:]), unicode.IsSpace))
		last := len(snippet.Highlights) - 1
		switch {
		case to == from:
		case last >= 0 && snippet.Highlights[last].End == from: // adjacent ones are one word of single characters
			snippet.Highlights[last].End = to
		default:
			snippet.Highlights = append(snippet.Highlights, Highlight{from, to})
		}
		from = -1
	}
	for _, r := range strings.ReplaceAll(marked, string(setApart)+" ", "") {
		switch {
		case r == MarkStart:
			from = len(text)
		case r == MarkStop:
			stop()
		case r == setApart: // half of a pair that was cut in two
		case len(text) == 0 && unicode.IsSpace(r):
		default:
			text = append(text, r)
		}
	}
	stop() // of a mark whose other half is missing
	snippet.Text = strings.TrimRightFunc(string(text), unicode.IsSpace)
	return snippet
}
