package history

import (
	"strings"
	"unicode"
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
	Text       string      `json:"snippet" description:"The part of the message that shows why it was found, as plain text."`
	Highlights []Highlight `json:"highlights" nullable:"false" description:"The words that were found, in their order."`
}

// Highlight is a range in a snippet, in Unicode code points: from Start up to but without End.
type Highlight struct {
	Start int `json:"start" description:"Where the word begins in the snippet, in Unicode code points."`
	End   int `json:"end" description:"Where it ends: the first code point after it."`
}

// ReadSnippet makes a snippet of what ts_headline returns for throughline.searchable(content).
func ReadSnippet(marked string) Snippet {
	reader := snippetReader{highlights: []Highlight{}, from: -1}
	for _, r := range strings.ReplaceAll(marked, string(setApart)+" ", "") {
		reader.take(r)
	}
	return reader.snippet()
}

// snippetReader reads a marked text, character by character.
type snippetReader struct {
	text       []rune
	highlights []Highlight
	from       int // where the open highlight begins, -1 without one
}

func (s *snippetReader) take(r rune) {
	switch {
	case r == MarkStart:
		s.from = len(s.text)
	case r == MarkStop:
		s.close()
	case r == setApart:
		// Half of a pair that was cut in two.
	case len(s.text) == 0 && unicode.IsSpace(r):
	default:
		s.text = append(s.text, r)
	}
}

// close ends a highlight. Adjacent ones are one word of single characters, and become one highlight.
func (s *snippetReader) close() {
	from, to := s.from, len(s.text)
	s.from = -1
	if from < 0 {
		return
	}
	for to > from && unicode.IsSpace(s.text[to-1]) {
		to--
	}
	if to <= from {
		return
	}
	if last := len(s.highlights) - 1; last >= 0 && s.highlights[last].End == from {
		s.highlights[last].End = to
		return
	}
	s.highlights = append(s.highlights, Highlight{from, to})
}

func (s *snippetReader) snippet() Snippet {
	for len(s.text) > 0 && unicode.IsSpace(s.text[len(s.text)-1]) {
		s.text = s.text[:len(s.text)-1]
	}
	s.close() // of a mark whose other half is missing
	return Snippet{Text: string(s.text), Highlights: s.highlights}
}
