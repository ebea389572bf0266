package longterm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// RecentMessages is how many messages before the new ones an extraction is shown.
const RecentMessages = 10

// Input is what one extraction reads.
type Input struct {
	// Zone is the user's time zone; nil for UTC. The days of messages are days there.
	Zone *time.Location
	// Summary is the chat's brief, "" for none.
	Summary string
	// Recent are the messages before the new ones, oldest first; the last RecentMessages of them are shown.
	Recent []memory.Message
	// New are the messages to read, oldest first. Rows of tools and blank rows are left out.
	New []memory.Message
	// Shown are the memories that the prompts of the new turns held. A user message that repeats one is an echo.
	Shown []string
	// Outputs are what tools said, in any order. The model is not shown them: a quote that copies an earlier one is an echo.
	Outputs []memory.Message
	// Excluded are subjects that the user does not want remembered.
	Excluded []string
	// Language is the language of the user's settings as ISO 639-1 has it, "" for the language of what they write.
	Language string
}

// Finding is one fact as the model proposes it.
type Finding struct {
	Fact          string         `json:"fact"`
	Type          string         `json:"type"`
	Confidence    *float64       `json:"confidence"`
	Horizon       string         `json:"horizon"`
	Durable       bool           `json:"durable"`
	Evidence      []string       `json:"evidence"`
	Quote         string         `json:"quote"`
	ValidFrom     string         `json:"valid_from"`
	ValidTo       string         `json:"valid_to"`
	Replaces      string         `json:"replaces"`
	Entities      []Entity       `json:"entities"`
	Relationships []Relationship `json:"relationships"`

	// unreadable facts had a field of the wrong kind.
	unreadable bool
}

// Entity is a person or thing that a fact is about.
type Entity struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Relationship says what one entity of a fact has to do with another. The user is the entity "User".
type Relationship struct {
	Source       string `json:"source"`
	Relationship string `json:"relationship"` // snake_case, at most 40 characters
	Target       string `json:"target"`
}

// Reason is why the gate drops a fact.
type Reason string

// The reasons, in the order in which they are looked for. Each fact is counted once, under the first.
const (
	// BadForm: a field is missing, too long or unknown; so is an alias.
	BadForm Reason = "form"
	// Moment: it will not matter any more tomorrow.
	Moment Reason = "moment"
	// AssistantOnly: no message of the user is evidence of it.
	AssistantOnly Reason = "assistant_only"
	// Secret: a key, a password, the number of a card or an account.
	Secret Reason = "secret"
	// NoQuote: the quote is in none of the messages that are evidence.
	NoQuote Reason = "no_quote"
	// Echo: the quote is a paste of an assistant's, a tool's or an injected text.
	Echo Reason = "echo"
	// Invented: a name or number is in neither the evidence nor the messages before it.
	Invented Reason = "invented"
	// Order: it tells the assistant what to do, beyond the style of its answers.
	Order Reason = "order"
	// NoFact: a question, a refusal, or talk about the conversation.
	NoFact Reason = "no_fact"
	// RelativeDate: it says "yesterday".
	RelativeDate Reason = "relative_date"
	// OtherLanguage: it is not in the language of its evidence.
	OtherLanguage Reason = "language"
	// ExcludedSubject: the user does not want it remembered.
	ExcludedSubject Reason = "excluded"

	// Polarity: its evidence denies what it says, or says what it denies. Subject: it is about another person. Past: it was so. Mood: it is
	// imagined, wished or asked. Unclear: it is no plain statement. These, Order and Echo are doubts where the user speaks of themselves.
	Polarity Reason = "polarity"
	Subject  Reason = "subject"
	Past     Reason = "past"
	Mood     Reason = "mood"
	Unclear  Reason = "unclear"
)

// Verdict is what the gate made of an answer.
type Verdict struct {
	// Candidates passed, in the order of the answer.
	Candidates []Candidate
	// Dropped counts the others.
	Dropped map[Reason]int
	// Retry is a sentence for a second call, when that may save facts that were dropped for their form, a relative date or
	// their language; "" otherwise. It holds no words of the conversation. The second answer takes the place of the first, if it can be
	// read at all.
	Retry string
}

// Candidate is a fact that passed the gate.
type Candidate struct {
	Fact       string // 1 to memories.MaxContent characters, on one line
	Type       Type
	Confidence float64
	// Durable is what the model said, and always true for health, names, family, birth dates and languages.
	Durable bool
	// Inbox: too uncertain to be shown to a model before the user has seen it. Doubt is why, "" where the model is unsure.
	Inbox bool
	Doubt Reason
	// Lang is the language of the fact, "" where it cannot be told.
	Lang string
	// ValidFrom and ValidTo are zero where it was not said since or until when. They are the beginning of a day, month or
	// year in UTC, in every time zone of users, so that they print as they were said.
	ValidFrom, ValidTo time.Time
	Precision          memory.Precision
	// Replaces is what the user said that this is instead of, "" for nothing.
	Replaces      string
	Entities      []Entity
	Relationships []Relationship
	// Evidence are the messages that it was made of, in the order said.
	Evidence []Evidence
}

// SaidAt returns when the newest evidence was said.
func (c *Candidate) SaidAt() time.Time {
	var at time.Time
	for _, e := range c.Evidence {
		if e.SaidAt.After(at) {
			at = e.SaidAt
		}
	}
	return at
}

// Keep returns the candidate with the evidence that is still held, and false if the rest does not say it any more.
func (c Candidate) Keep(held func(messageID uuid.UUID) bool) (Candidate, bool) {
	var kept []Evidence
	alone := false
	for _, e := range c.Evidence {
		if held(e.MessageID) {
			kept = append(kept, e)
			alone = alone || e.Alone
		}
	}
	whole := len(kept) == len(c.Evidence)
	c.Evidence = kept
	return c, alone || whole && len(kept) > 0
}

// Evidence is a message that a fact was made of: one of the user's that it names, or one before it that a name or number
// of the fact comes from.
type Evidence struct {
	MessageID uuid.UUID
	Seq       int64
	SaidAt    time.Time
	// Digest is the MD5 of the content, in hexadecimal as Postgres writes it. A message whose digest is another when the
	// fact is stored was changed meanwhile.
	Digest string
	// Quote is what the message says of it, at most 200 characters; "" where only another message was quoted.
	Quote string
	// Alone: the message says all of the fact. What only some messages say together goes with the first of them that is
	// deleted, so their source has no fact of its own.
	Alone bool
}

// The titles of the input, each at the beginning of a line. They must not change: the instructions, the offline model
// and tools outside rely on them.
const (
	summaryTitle = "CONVERSATION SUMMARY"
	recentTitle  = "RECENT MESSAGES"
	newTitle     = "NEW MESSAGES"
)

// How much is shown, in tokens. An extraction is made for about six turns, and all of it together has to cost less than
// 700 tokens a turn: so assistants, who say little of a user, are cut short, and long pastes as well.
const (
	summaryTokens      = 250
	recentTokens       = 40
	userTokens         = 400
	assistantTokens    = 70
	newTokens          = 2_400
	leastMessageTokens = 40
	excludedTokens     = 100
)

// WriteInput writes the input of an extraction. A line of a message that looks like a title, an alias or a speaker label is
// quoted, so that no text of a person passes for another speaker's words. Long messages are shortened in the middle.
func WriteInput(in Input) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Time zone: %s\n", zoneOf(in))
	if in.Language != "" {
		fmt.Fprintf(&b, "Language of the user's settings: %s\n", text.OneLine(in.Language))
	}
	if len(in.Excluded) > 0 {
		fmt.Fprintf(&b, "Not to be remembered: %s\n", text.FitCap(text.OneLine(strings.Join(in.Excluded, "; ")), excludedTokens))
	}
	if summary := strings.TrimSpace(in.Summary); summary != "" {
		fmt.Fprintf(&b, "\n%s:\n%s\n", summaryTitle, quoted(text.FitCap(summary, summaryTokens)))
	}
	writeRecent(&b, in)
	fmt.Fprintf(&b, "\n%s:\n", newTitle)
	limits := limitsOf(numbered(in.New))
	for n, m := range numbered(in.New) {
		content, _ := text.Clip(strings.TrimSpace(m.Content), limits[n])
		if m.Role == memory.RoleUser {
			fmt.Fprintf(&b, "%s [%s]: %s\n", m.alias, m.CreatedAt.In(zoneOf(in)).Format("2006-01-02 Mon"), quoted(content))
		} else {
			fmt.Fprintf(&b, "%s: %s\n", m.alias, quoted(content))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func writeRecent(b *strings.Builder, in Input) {
	recent := saidIn(in.Recent)
	if len(recent) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", recentTitle)
	for _, m := range recent[max(0, len(recent)-RecentMessages):] {
		content, _ := text.Clip(strings.TrimSpace(m.Content), recentTokens)
		fmt.Fprintf(b, "%s: %s\n", m.Role.Label(), quoted(content))
	}
}

// aliased is a new message with the alias by which the model names it.
type aliased struct {
	memory.Message

	alias string
}

// numbered returns the messages of users and assistants that have text, with their aliases: U1, A1, U2 …
func numbered(messages []memory.Message) []aliased {
	var out []aliased
	count := map[string]int{}
	for _, m := range saidIn(messages) {
		letter := "A"
		if m.Role == memory.RoleUser {
			letter = "U"
		}
		count[letter]++
		out = append(out, aliased{m, letter + strconv.Itoa(count[letter])})
	}
	return out
}

// limitsOf returns how many tokens of each message are shown: as many as of any, and fewer when all together are too
// many.
func limitsOf(messages []aliased) []int {
	limits, sum := make([]int, len(messages)), 0
	for n, m := range messages {
		limits[n] = assistantTokens
		if m.Role == memory.RoleUser {
			limits[n] = userTokens
		}
		limits[n] = min(limits[n], text.Tokens(m.Content))
		sum += limits[n]
	}
	for level := userTokens; sum > newTokens && level > leastMessageTokens; level = level * 3 / 4 {
		sum = 0
		for n := range limits {
			limits[n] = min(limits[n], level)
			sum += limits[n]
		}
	}
	return limits
}

func zoneOf(in Input) *time.Location { return cmp.Or(in.Zone, time.UTC) }

// dayIn returns the day on which a message was said where the user is, as a date in UTC.
func dayIn(in Input, m memory.Message) time.Time {
	year, month, day := m.CreatedAt.In(zoneOf(in)).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func quoted(content string) string { return text.QuoteLines(content, looksLikeInput) }

var (
	aliasAtStart = express(`^[^\pL\pN]{0,8}[UACMuacm]\s?(?:[lIO|]*\pN[\pNlIO|]*\s*[\[:(\].-]|[lI|]\s*[\[:])`)
	titleWords   = []string{"conversationsummary", "recentmessages", "newmessages", "nottoberemembered", "timezone", "languageoftheuserssettings"}
)

// looksLikeInput reports whether a line looks like a title, an alias or a speaker label of an extraction's input.
func looksLikeInput(line string) bool {
	if strings.HasPrefix(line, text.QuotePrefix) {
		return false
	}
	skeleton := text.Skeleton(line, text.PrefixRunes)
	words := text.Folded(skeleton, "")
	isTitle := func(title string) bool { return strings.HasPrefix(words, text.Folded(title, "")) }
	return slices.ContainsFunc(titleWords, isTitle) || aliasAtStart().MatchString(skeleton) || text.LooksLikeLabel(line, true)
}
