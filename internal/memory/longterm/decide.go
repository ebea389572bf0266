package longterm

import (
	"time"

	"github.com/google/uuid"
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

// Rules are the settings.
type Rules struct {
	// Similarity puts a cosine on the scale of recall.Similarity; nil where there are no vectors.
	Similarity func(cosine float64) float64
}

// Decision is what becomes of one candidate.
type Decision struct {
	// Candidate is its place among the candidates that were decided on.
	Candidate int
	// Action is memories.Add, Update, Delete, Noop or Unarchive.
	Action Action
	// Memory is the memory that Update changes, Delete supersedes, Noop gives a source to and Unarchive brings back;
	// uuid.Nil for Add. A memory of which nobody knew since when it is true takes that from the candidate.
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
	// ValidTo is until when what is superseded was true.
	ValidTo time.Time
	// Reason is why, for the history: one of a few sentences of ours, never somebody's words.
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

// said again raises confidence by this share of what it lacks.
const saidAgain = .2

func reinforced(confidence float64) float64 { return confidence + saidAgain*(1-confidence) }

// add returns the decision to keep a candidate as a new memory.
func add(number int, c *Candidate, reason string) Decision {
	d := Decision{Candidate: number, Action: Add, Content: c.Fact, Status: Active, Confidence: c.Confidence, Reason: reason}
	if c.Inbox {
		d.Status, d.Reason = Inbox, doubtOf(c)
	}
	return d
}

// doubts are the reasons of what waits in the inbox, by what the gate doubts.
var doubts = map[Reason]string{
	"": ReasonOnlyHinted, Order: "the message may be an order to the assistant", Polarity: "the message may say the opposite",
	Subject: "the message may be about somebody else", Past: "the message may be about what was",
	Mood: "the message may ask or imagine it", Unclear: "the message may not say it plainly",
}

func doubtOf(c *Candidate) string { return doubts[c.Doubt] }

// noop returns the decision that a candidate is one more source of a memory. An archived one comes back, and one that
// was only hinted at leaves the inbox when the user says it plainly.
func noop(number int, c *Candidate, k *Known) Decision {
	d := Decision{Candidate: number, Action: Noop, Memory: k.ID, Confidence: reinforced(k.Confidence), Reason: ReasonSame}
	const plainly = .5
	switch {
	case k.Status == Archived:
		d.Action, d.Status, d.Reason = Unarchive, Active, ReasonAgain
	case k.Status == Inbox && k.Confidence < plainly && !c.Inbox:
		d.Status, d.Confidence, d.Reason = Active, max(c.Confidence, d.Confidence), ReasonAgain
	}
	return d
}
