package api

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/graph"
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

// MarkStart and MarkStop are how Postgres marks matches. They are of Unicode's private use; the store removes them
// from messages that contain them.
const (
	MarkStart = '\uE000'
	MarkStop  = '\uE001'
	// setApart and a space stand beside characters of noSpaces (throughline.searchable in the migrations).
	setApart = '\x01'
)

// Snippet is the part of a message that shows why it was found, as plain text. In it " … " stands for the text
// that is left out between two parts.
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

// Postgres finds words between spaces, which several scripts do not have. So messages are indexed with each character of
// such a script as a word of its own (throughline.searchable in the migrations), and a query searches for these characters
// in a row: 東京 becomes "東 京", a phrase of two words.

// noSpaces are the scripts that put no spaces between words, as the migration has them: Thai, Lao, Burmese,
// Khmer, kana, Chinese characters, Hangul syllables.
var noSpaces = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x0E00, Hi: 0x0EFF, Stride: 1},
	{Lo: 0x1000, Hi: 0x109F, Stride: 1},
	{Lo: 0x1780, Hi: 0x17FF, Stride: 1},
	{Lo: 0x3040, Hi: 0x30FF, Stride: 1},
	{Lo: 0x3400, Hi: 0x4DBF, Stride: 1},
	{Lo: 0x4E00, Hi: 0x9FFF, Stride: 1},
	{Lo: 0xAC00, Hi: 0xD7AF, Stride: 1},
	{Lo: 0xF900, Hi: 0xFAFF, Stride: 1},
	{Lo: 0xFF66, Hi: 0xFF9F, Stride: 1},
}}

// straightQuotes replaces the quotes that keyboards of phones type.
var straightQuotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`)

// dashes are several in a row, with nothing but what Postgres skips between them. They are a line or an option's name, not
// an exclusion of an exclusion, of which Postgres accepts 32.
var dashes = regexp.MustCompile(`-(?:[\s!&|()]*-)+`)

// WebSearch rewrites a query for websearch_to_tsquery, so that it matches the index.
func WebSearch(query string) string {
	var out strings.Builder
	parts := strings.Split(straightQuotes.Replace(query), `"`)
	for i, part := range parts {
		switch isPhrase := i%2 == 1; {
		case isPhrase && i < len(parts)-1:
			out.WriteString(`"` + spaced(part) + `"`)
			continue
		case isPhrase: // Postgres would pair a lone quote with one of ours.
			out.WriteByte(' ')
		}
		writeWords(&out, dashes.ReplaceAllString(part, " "))
	}
	return out.String()
}

// IsQuestion reports whether a query is plain words, of which the common ones ("is there a …") need not be found. Of a
// query with phrases or exclusions every word counts.
func IsQuestion(query string) bool {
	return !strings.Contains(straightQuotes.Replace(query), `"`) && !strings.Contains(" "+query, " -")
}

// writeWords writes the text, with each word that has a character of noSpaces as a phrase.
func writeWords(out *strings.Builder, text string) {
	for text != "" {
		rest := strings.TrimLeftFunc(text, inWord)
		word := text[:len(text)-len(rest)]
		if strings.ContainsFunc(word, isSpaceless) {
			word = `"` + spaced(word) + `"`
		}
		text = strings.TrimLeftFunc(rest, func(r rune) bool { return !inWord(r) })
		out.WriteString(word + rest[:len(rest)-len(text)])
	}
}

func inWord(r rune) bool {
	return isSpaceless(r) || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

func isSpaceless(r rune) bool { return unicode.Is(noSpaces, r) }

// spaced puts spaces around each character of noSpaces.
func spaced(text string) string {
	var out strings.Builder
	apart := true // whether a space, or nothing, was written last
	for _, r := range text {
		if !isSpaceless(r) {
			out.WriteRune(r)
			apart = unicode.IsSpace(r)
			continue
		}
		if !apart {
			out.WriteByte(' ')
		}
		out.WriteString(string(r) + " ")
		apart = true
	}
	return strings.TrimRight(out.String(), " ")
}

// maxAnyTerms is how many words and phrases of a query are searched for in the mode any.
const maxAnyTerms = 32

// queryPart is a phrase in quotes, or a word; each of them may be excluded.
var queryPart = regexp.MustCompile(`(-?)"([^"]*)"|[^\s"]+`)

// AnyTerms splits a query for a search in the mode any: the words and phrases of which a message needs one, and the ones
// that it must not have. All are written for websearch_to_tsquery.
func AnyTerms(query string) (terms []string, without string) {
	query = dashes.ReplaceAllString(straightQuotes.Replace(query), " ")
	var excluded []string
	for _, part := range queryPart.FindAllStringSubmatch(query, -1) {
		word := part[0]
		switch {
		case strings.HasPrefix(word, `-"`):
			excluded = append(excluded, `-"`+spaced(part[2])+`"`)
		case strings.HasPrefix(word, `"`):
			terms = append(terms, `"`+spaced(part[2])+`"`)
		case strings.HasPrefix(word, "-"):
			excluded = append(excluded, WebSearch(word))
		case !strings.EqualFold(word, "or"):
			terms = append(terms, wordTerms(word)...)
		}
	}
	slices.Sort(terms)
	terms = slices.Compact(terms)
	return terms[:min(len(terms), maxAnyTerms)], strings.Join(excluded, " ")
}

// wordTerms returns the parts of a word without spaces around it: where its script has no spaces, each pair of
// neighbouring characters is a phrase.
func wordTerms(word string) []string {
	if !strings.ContainsFunc(word, isSpaceless) {
		return []string{word}
	}
	var terms []string
	for run := range strings.FieldsFuncSeq(word, func(r rune) bool { return !isSpaceless(r) }) {
		characters := []rune(run)
		for i := range max(1, len(characters)-1) {
			terms = append(terms, `"`+spaced(string(characters[i:min(i+2, len(characters))]))+`"`)
		}
	}
	return slices.AppendSeq(terms, strings.FieldsFuncSeq(word, func(r rune) bool { return isSpaceless(r) || !inWord(r) }))
}

// Recall finds the earlier turns that a question may be about, the best messages first. Where no turns are
// indexed that is NoRecall.
type Recall interface {
	Recall(ctx context.Context, user auth.Principal, query RecallQuery) ([]RecallResult, error)
}

// RecallQuery is a question for which earlier turns are looked for. Only Text is required.
type RecallQuery struct {
	Text string `query:"q" required:"true" minLength:"1" maxLength:"500" description:"What to look for, in the user's own words. It need not be what was said."`
	// ChatID and TopicID restrict the search to one chat or topic; "" means all.
	ChatID  string `query:"chat_id" format:"uuid" description:"Look into this chat alone."`
	TopicID string `query:"topic_id" format:"uuid" description:"Look into this topic alone."`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20" description:"How many results are wanted."`

	// Chat and Topic are those ids, set by Check; uuid.Nil for none.
	Chat, Topic uuid.UUID
}

func (q *RecallQuery) readIDs() (err error) {
	if q.Chat, err = idOf("chat", q.ChatID); err != nil {
		return err
	}
	q.Topic, err = idOf("topic", q.TopicID)
	return err
}

// idOf reads an id; it returns uuid.Nil for "". No row has that id, and to recall it would mean all of them.
func idOf(of, id string) (uuid.UUID, error) {
	if id == "" {
		return uuid.Nil, nil
	}
	read, err := ParseID(id)
	if err != nil || read == uuid.Nil {
		return uuid.Nil, fault.New(fault.BadUUID, "The "+of+" id is not a uuid of one.")
	}
	return read, nil
}

// ParseID reads a uuid in its usual form alone; uuid.Parse accepts others, too.
func ParseID(text string) (uuid.UUID, error) {
	if len(text) != 36 {
		return uuid.Nil, errors.New("not 36 characters long")
	}
	return uuid.Parse(text)
}

// RecallResult is a message of a turn that was recalled.
type RecallResult struct {
	_         struct{}  `description:"A message of an earlier turn that the question may be about."`
	ChatID    uuid.UUID `json:"chat_id"`
	Seq       int64     `json:"seq"`
	MessageID uuid.UUID `json:"message_id"`
	Role      string    `json:"role" enum:"user,assistant,system,tool"`
	CreatedAt time.Time `json:"created_at"`
	Score     float64   `json:"score" description:"Higher for a better match. It compares results of one question alone."`
	Text      string    `json:"text" description:"What of the message the question may be about."`
	Why       string    `json:"why" description:"What the turn was found by, for people."`
}

// NoRecall is the error for a server that indexes no turns.
func NoRecall() error {
	return fault.New(fault.RecallOff, "This server does not recall earlier turns: RECALL is off.")
}

// Graph reads the graph of the entities in a user's memories, with the user's rights.
type Graph interface {
	// ReadGraph returns the part of the graph that is asked for; an entity that is unknown has none.
	ReadGraph(ctx context.Context, user auth.Principal, query GraphQuery) (graph.Answer, error)
}

// GraphQuery asks for a part of the graph. The zero value asks for all of it.
type GraphQuery struct {
	Entity       string `query:"entity,omitempty" trim:"" maxLength:"100" description:"The name of an entity, in any case: what is said of it. User is the user."`
	Relationship string `query:"relationship,omitempty" maxLength:"100" description:"Only relationships of this name: lives_in."`
	Type         string `query:"type,omitempty" enum:"person,organization,place,project,product,tool,concept,condition,event,other" doc:"type"`
	Depth        int    `query:"depth" minimum:"1" maximum:"3" default:"1" description:"How many relationships away from the entity what is shown may be."`
	AsOf         string `query:"as_of,omitempty" doc:"as_of"`
	// Text is a question; its names add to the other fields.
	Text   string `query:"q,omitempty" trim:"" maxLength:"500" doc:"graphQuery.q"`
	Format string `query:"format,omitempty" enum:"json,mermaid,dot" default:"json" doc:"format"`

	// Moment is AsOf, set by Check; zero for none.
	Moment time.Time
}

func (q *GraphQuery) check(wrong problems) {
	if q.AsOf != "" {
		q.Moment = wrong.moment("as_of", q.AsOf)
	}
}
