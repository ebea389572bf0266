package longterm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// MostAlike is how many memories are looked at for one candidate.
const MostAlike = 10

// Known is a memory that may have to do with a candidate.
type Known struct {
	Memory

	// SameKey reports that the two are the same words, apart from case, marks and spaces.
	SameKey bool
	// Cosine is that of the two vectors, if HasCosine.
	Cosine    float64
	HasCosine bool
	// VectorPlace and WordsPlace are the memory's places among those that resemble the candidate by their meaning, and by
	// their words: 1 for the best, 0 for none.
	VectorPlace, WordsPlace int
}

// isTheUsers reports whether no model may change the memory.
func (k *Known) isTheUsers() bool { return k.Pinned || k.Edited }

// Decision is what becomes of one candidate.
type Decision struct {
	// Candidate is its place among the candidates that were decided on.
	Candidate int
	// Action is Add, Update, Delete, Noop or Unarchive.
	Action Action
	// Memory is the memory that Update changes, Delete supersedes, Noop gives a source to and Unarchive brings back;
	// uuid.Nil for Add. A memory whose beginning is unknown takes that of the candidate.
	Memory uuid.UUID
	// Also are further memories that a Delete supersedes.
	Also []uuid.UUID
	// Content is the memory's content afterwards: the candidate's fact for Add and Delete, the merged text for Update;
	// "" for Noop and Unarchive, which leave it.
	Content string
	// Status is the status afterwards, of the new memory for Add and Delete, else of Memory; "" where it stays.
	// Superseded is for an Add of what was said before a memory that contradicts it, which SupersededBy names: the new
	// one is history from the beginning, until ValidTo.
	Status       Status
	SupersededBy uuid.UUID
	// ConflictsWith is the memory whose place is taken once the user accepts what waits in the inbox.
	ConflictsWith uuid.UUID
	// Confidence is the confidence afterwards.
	Confidence float64
	// ValidTo is until when the superseded memory was true.
	ValidTo time.Time
	// Reason is why, for the history: one of a few sentences of ours, never words of the user.
	Reason string
}

// The reasons of decisions.
const (
	ReasonNew        = "nothing like it was known"
	ReasonNewBeside  = "something else than what was known"
	ReasonSame       = "it was known"
	ReasonAgain      = "the user said it again"
	ReasonMerged     = "the user said more about it"
	ReasonChanged    = "the user said otherwise"
	ReasonEarlier    = "the user said otherwise later"
	ReasonConflict   = "it contradicts what the user wrote or pinned"
	ReasonUnclear    = "the decision on it could not be used"
	ReasonOnlyHinted = "the user only hinted at it"
)

// saidAgain is the share of what confidence lacks by which it rises when the user says a thing again.
const saidAgain = .2

// add returns the decision to keep a candidate as a new memory.
func (o *open) add(reason string) *Decision {
	c := &o.candidate
	d := &Decision{Candidate: o.number, Action: Add, Content: c.Fact, Status: Active, Confidence: c.Confidence, Reason: reason}
	if c.Inbox {
		d.Status, d.Reason = Inbox, doubts[c.Doubt]
	}
	return d
}

// doubts are the reasons of what waits in the inbox, by what the gate doubts.
var doubts = map[Reason]string{
	"": ReasonOnlyHinted, Order: "the message may be an order to the assistant", Polarity: "the message may say the opposite",
	Subject: "the message may be about somebody else", Past: "the message may be about what was",
	Mood: "the message may ask or imagine it", Unclear: "the message may not say it plainly",
}

// noop returns the decision that a candidate is one more source of a memory. An archived one comes back, and one that
// was only hinted at leaves the inbox when the user says it plainly.
func (o *open) noop(k *Known) *Decision {
	reinforced := k.Confidence + saidAgain*(1-k.Confidence)
	d := &Decision{Candidate: o.number, Action: Noop, Memory: k.ID, Confidence: reinforced, Reason: ReasonSame}
	const plainly = .5
	switch {
	case k.Status == Archived:
		d.Action, d.Status, d.Reason = Unarchive, Active, ReasonAgain
	case k.Status == Inbox && k.Confidence < plainly && !o.candidate.Inbox:
		d.Status, d.Confidence, d.Reason = Active, max(o.candidate.Confidence, d.Confidence), ReasonAgain
	}
	return d
}

// WriteQuestion writes the input of a consolidation: the candidates, and the memories that they may have to do with, each on a
// line of its own. What they hold cannot begin a line.
func WriteQuestion(q Question) string {
	var b strings.Builder
	b.WriteString("NEW FACTS:\n")
	for n, o := range q.open {
		c, change := &o.candidate, ""
		if c.Replaces != "" {
			change = ", a change"
		}
		fmt.Fprintf(&b, "C%d [%s%s]: %s\n", n+1, notes(c.Type, c.ValidFrom, c.Precision), change, text.OneLine(c.Fact))
	}
	b.WriteString("\nMEMORIES:\n")
	for n, k := range q.known {
		fmt.Fprintf(&b, "M%d [%s]: %s\n", n+1, notes(k.Type, k.ValidFrom, k.Precision), text.OneLine(k.Content))
	}
	return strings.TrimRight(b.String(), "\n")
}

// notes is what stands in brackets: "fact, since 2025-03".
func notes(kind Type, from time.Time, precision memory.Precision) string {
	if from.IsZero() {
		return string(kind)
	}
	layout := cmp.Or(map[memory.Precision]string{memory.Year: "2006", memory.Month: "2006-01"}[precision], time.DateOnly)
	return string(kind) + ", since " + from.UTC().Format(layout)
}

// placeOfAlias reads an alias such as "M3": its place from 0, or -1 if it is none of so many.
func placeOfAlias(alias, letter string, count int) int {
	digits, ok := strings.CutPrefix(strings.ToUpper(strings.Trim(alias, " []")), letter)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > count {
		return -1
	}
	return n - 1
}
