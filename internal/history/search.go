package history

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

const (
	// SearchCandidates are the newest matches that are ranked; older ones are not looked at.
	SearchCandidates = 500
	// ModeAny finds messages that have any of the words; by default they have all.
	ModeAny = "any"
)

// SearchQuery is what to search for. Only Text is required.
type SearchQuery struct {
	// Text is in the syntax of web search engines.
	Text string `query:"q" required:"true" minLength:"1" maxLength:"500" doc:"q"`
	// ChatID restricts the search to one chat; uuid.Nil searches all.
	ChatID uuid.UUID `query:"chat_id" description:"Look into this chat alone."`
	// Role is the role of the messages; "" for any.
	Role string `query:"role" enum:"user,assistant,system,tool" description:"Messages of this role alone."`
	// Before and After bound the time of the messages: from After on, up to but without Before.
	Before *time.Time `query:"before" nullable:"false" description:"Messages before this time alone."`
	After  *time.Time `query:"after" nullable:"false" description:"Messages from this time on alone."`
	Mode   string     `query:"mode" enum:"all,any" default:"all" doc:"mode"`
	Limit  int        `query:"limit" minimum:"1" maximum:"100" default:"20" description:"How many results are wanted."`
}

// SearchResult is a message that was found.
type SearchResult struct {
	_         struct{}  `description:"A message that was found."`
	MessageID uuid.UUID `json:"message_id"`
	ChatID    uuid.UUID `json:"chat_id"`
	ChatTitle string    `json:"chat_title"`
	Seq       int64     `json:"seq"`
	Role      string    `json:"role" enum:"user,assistant,system,tool"`
	CreatedAt time.Time `json:"created_at"`
	Rank      float32   `json:"rank" description:"Higher for a better match. It compares results of one search alone."`
	Snippet
}

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
