package offline

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// titleNew begins the last part of an extraction's input: the new messages.
const titleNew = "NEW MESSAGES"

// NewMessages returns the messages of an extraction that are to be read.
func NewMessages(text string) string { return sections(text, titleNew)[titleNew] }

// Fact is one proposed memory, in the form of the schema extracted_facts.
type Fact struct {
	Fact          string         `json:"fact"`
	Type          string         `json:"type"`
	Confidence    float64        `json:"confidence"`
	Horizon       string         `json:"horizon"`
	Durable       bool           `json:"durable"`
	Evidence      []string       `json:"evidence"`
	Quote         string         `json:"quote"`
	ValidFrom     *string        `json:"valid_from"`
	ValidTo       *string        `json:"valid_to"`
	Replaces      *string        `json:"replaces"`
	Entities      []Entity       `json:"entities"`
	Relationships []Relationship `json:"relationships"`

	of claim
}

// extract answers an extraction with what the user's new messages say in the ways of sayings.txt. Of two values of what
// has one value at a time the later one is proposed.
func extract(r *Request) object {
	facts := []Fact{}
	for _, m := range ReadLines(NewMessages(r.Text), "UA") {
		if m.Alias[0] != 'U' {
			continue
		}
		for _, found := range factsIn(m) {
			facts = slices.DeleteFunc(facts, func(earlier Fact) bool { return takesPlaceOf(found.of, earlier.of) })
			facts = append(facts, found)
		}
	}
	return object{"facts": facts}
}

// takesPlaceOf reports whether a later claim of the same messages leaves nothing of an earlier one.
func takesPlaceOf(later, earlier claim) bool {
	return later.subject() == earlier.subject() &&
		(slices.Equal(thingStems(later.thing), thingStems(earlier.thing)) || aspects[later.of].single && !later.ended)
}

// Line is a message, a candidate or a memory as an input names it, U1, C1 or M1, with its note, such as when it was said.
type Line struct{ Alias, Note, Text string }

var aliasStart = regexp.MustCompile(`^(?:[-*] )?([A-Z]\d+)(?: \[([^\]]*)\])?: ?(.*)$`)

// ReadLines reads the lines whose aliases have one of these letters. Other lines go on with the one before.
func ReadLines(text, letters string) []Line {
	var found []Line
	for line := range strings.SplitSeq(text, "\n") {
		if at := aliasStart.FindStringSubmatch(line); at != nil && strings.Contains(letters, at[1][:1]) {
			found = append(found, Line{at[1], at[2], at[3]})
		} else if len(found) > 0 {
			found[len(found)-1].Text += "\n" + line
		}
	}
	for n := range found {
		found[n].Text = strings.TrimRight(found[n].Text, "\n ")
	}
	return found
}

var (
	// openers are words before what a clause says.
	openers = regexp.MustCompile(`(?i)^(?:[\s,:;.!–-]+|(?:#\w+|actually|by the way|btw|also|oh|well|hi|hello|hey|so|and|but|no|yes|ok|okay|sorry` +
		`|und|aber|hallo|ja|nein|übrigens` +
		`|correction|please|(?:please )?(?:remember|note)(?: that)?|you (?:should|have to|must|need to) know(?: that)?` +
		`|fyi|just so you know|for the record|in fact|as of now|now)(?:[\s,:;.!–-]|$))+`)
	// clauseStart divides a sentence before a conjunction or a comma after which the speaker speaks of himself again.
	clauseStart = regexp.MustCompile(`(?i)(?:[,;:]\s+(?:(?:and|but|so|und|aber)\s+)?|\s(?:and|but|und|aber)\s+)` +
		`(?:i|i'm|i’m|i've|i’ve|my|ich|meine?|` + germanVerbs + `)\s`)
	// passing are words of what will not matter tomorrow.
	passing = regexp.MustCompile(`(?i)\b(?:today|tonight|right now|at the moment|this (?:morning|evening|afternoon))\b`)
	// born is what a date belongs to.
	born = regexp.MustCompile(`(?i)\b(?:birthday|born)\b`)
)

// factsIn returns what a message says in the ways of sayings.txt, without questions and what it quotes.
func factsIn(m Line) []Fact {
	said, _ := time.Parse(time.DateOnly, m.Note[:min(len(m.Note), len(time.DateOnly))])
	var facts []Fact
	for line := range strings.Lines(withoutDirectives(m.Text)) {
		for _, sentence := range sentences(line) {
			if strings.HasPrefix(line, ">") || isQuestion(sentence) || passing.MatchString(sentence) {
				continue
			}
			for _, clause := range clausesOf(sentence) {
				if found, ok := factIn(clause, said); ok {
					found.Evidence = []string{m.Alias}
					facts = append(facts, found)
				}
			}
		}
	}
	return facts
}

func clausesOf(sentence string) []string {
	var clauses []string
	start := 0
	for _, at := range clauseStart.FindAllStringIndex(sentence, -1) {
		clauses = append(clauses, sentence[start:at[0]])
		start = at[0]
	}
	return append(clauses, sentence[start:])
}

func factIn(clause string, said time.Time) (Fact, bool) {
	const longestQuote = 200 // characters
	quote := strings.TrimSpace(openers.ReplaceAllString(clause, ""))
	bare, from := bareOf(quote, said)
	c, ok := claimOf(bare)
	if !ok || utf8.RuneCountInString(quote) > longestQuote {
		return Fact{}, false
	}
	f := Fact{
		Fact: c.memory(), Type: aspects[c.of].kind, Confidence: 0.9, Horizon: "lasting", Durable: aspects[c.of].durable, Quote: quote, of: c,
	}
	f.Entities, f.Relationships = c.graph()
	if from != "" {
		f.ValidFrom = &from
	}
	if c.ended {
		f.Replaces = &c.thing
	}
	return f, true
}

// bareOf returns a clause without what follows what it says, and the date since when it is so.
func bareOf(clause string, said time.Time) (bare, from string) {
	bare = thingTail.ReplaceAllString(clause, "")
	if born.MatchString(bare) {
		return bare, ""
	}
	return takeDate(bare, said)
}

// since is "since 3 March 2025", "in March", "since 2019", "since 2025-03", "last month".
var since = regexp.MustCompile(`(?i)[\s,]*\b(?:(?:since|as of|from|in|on)\s+(?:the\s+)?((?:19|20)\d\d(?:-\d\d){0,2}` +
	`|(?:\d{1,2} )?(?:january|february|march|april|may|june|july|august|september|october|november|december)(?: (?:19|20)\d\d)?)` +
	`|(?:since\s+)?(yesterday|(?:last|this) (?:week|month|year)))\b`)

// dateForms are the ways in which dates are said, and how precisely they are known.
var dateForms = [][2]string{
	{"2006", "2006"}, {"2006-01", "2006-01"}, {time.DateOnly, time.DateOnly}, {"2 January 2006", time.DateOnly}, {"January 2006", "2006-01"},
}

// takeDate takes the date since when something is true out of a clause. It returns the rest, and the date as
// precisely as it is known: a year, a month or a day; "" where there is none.
func takeDate(clause string, said time.Time) (rest, from string) {
	found := since.FindStringSubmatch(clause)
	if found == nil || said.IsZero() {
		return clause, ""
	}
	before, after, _ := strings.Cut(clause, found[0])
	rest = strings.TrimSpace(before + " " + strings.TrimLeft(after, " ,"))
	if found[2] != "" {
		return rest, dateBefore(strings.ToLower(found[2]), said)
	}
	for _, form := range dateForms {
		if at, err := time.Parse(form[0], found[1]); err == nil {
			return rest, at.Format(form[1])
		}
		// Without a year it is the last one before the message.
		if at, err := time.Parse(form[0], found[1]+said.Format(" 2006")); err == nil {
			if at.After(said) {
				at = at.AddDate(-1, 0, 0)
			}
			return rest, at.Format(form[1])
		}
	}
	return rest, ""
}

// dateBefore is the date that a word like "yesterday" means in a message of that day. Of a week only the month is sure
// enough.
func dateBefore(word string, said time.Time) string {
	switch word {
	case "yesterday":
		return said.AddDate(0, 0, -1).Format(time.DateOnly)
	case "last month":
		return said.AddDate(0, 0, -said.Day()).Format("2006-01")
	case "last year":
		return said.AddDate(-1, 0, 0).Format("2006")
	case "this year":
		return said.Format("2006")
	}
	return said.Format("2006-01")
}

// Decision is what becomes of one candidate, in the form of the schema decisions.
type Decision struct {
	Candidate string  `json:"candidate"`
	Action    string  `json:"action"`
	Memory    *string `json:"memory"`
	Merged    *string `json:"merged"`
	Reason    string  `json:"reason"`
}

// Decide answers a consolidation: decide returns the decision on a candidate beside the memories; nil adds it.
func Decide(text string, decide func(candidate Line, memories []Line) *Decision) string {
	var candidates, memories []Line
	for _, line := range ReadLines(text, "CM") {
		line.Text, _, _ = strings.Cut(line.Text, "\n\n") // what comes after an empty line is another part
		if line.Text = strings.TrimSpace(line.Text); line.Alias[0] == 'C' {
			candidates = append(candidates, line)
		} else {
			memories = append(memories, line)
		}
	}
	decisions := []Decision{}
	for _, c := range candidates {
		d := cmp.Or(decide(c, memories), &Decision{Action: actionAdd, Reason: "Nothing known says this."})
		d.Candidate = c.Alias
		decisions = append(decisions, *d)
	}
	return string(mustJSON(object{"decisions": decisions}))
}

// The actions of a decision.
const (
	actionAdd    = "ADD"
	actionUpdate = "UPDATE"
	actionDelete = "DELETE"
	actionNoop   = "NOOP"
)

// consolidate compares each candidate with the memories that no other candidate has changed: a known fact is not kept again,
// a contradicted memory goes, one that says less than the candidate becomes it.
func consolidate(r *Request) string {
	changed := map[string]bool{}
	return Decide(r.Text, func(c Line, memories []Line) *Decision {
		for _, action := range []string{actionNoop, actionDelete, actionUpdate} {
			for _, m := range memories {
				if changed[m.Alias] || comparison(c.Text, m.Text) != action {
					continue
				}
				d := &Decision{Action: action, Memory: &m.Alias, Reason: "By what both say."}
				changed[m.Alias] = action != actionNoop
				if action == actionUpdate {
					d.Merged = &c.Text
				}
				return d
			}
		}
		return nil
	})
}

// comparison returns the action that a candidate means for one memory; ADD where it changes nothing about it.
func comparison(candidate, memory string) string {
	said, readSaid := claimIn(candidate)
	known, readKnown := claimIn(memory)
	if !readSaid || !readKnown {
		if negation.MatchString(candidate) != negation.MatchString(memory) {
			return actionAdd
		}
		return byWords(contentStems(candidate), contentStems(memory))
	}
	if said.subject() != known.subject() {
		return actionAdd
	}
	action := byWords(thingStems(said.thing), thingStems(known.thing))
	switch {
	case said.ended != known.ended && action != actionAdd:
		return actionDelete // "no longer plays the cello", and the other way round
	case !said.ended && !known.ended && action == actionAdd && aspects[said.of].single:
		return actionDelete // another home
	}
	return action
}

var negation = regexp.MustCompile(`(?i)\b(?:no|not|never|none)\b|n['’]t\b`)

// byWords compares what two texts say by their words alone.
func byWords(candidate, memory []string) string {
	has := func(all, some []string) bool {
		return len(some) > 0 && !slices.ContainsFunc(some, func(word string) bool { return !slices.Contains(all, word) })
	}
	switch {
	case has(memory, candidate):
		return actionNoop
	case has(candidate, memory):
		return actionUpdate
	}
	return actionAdd
}
