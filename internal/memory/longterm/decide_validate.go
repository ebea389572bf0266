package longterm

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Validate returns what becomes of each candidate of the question, in their order: the model's decision, where it keeps to
// the rules, else Add.
//
//   - It can name the memories alone that the candidate was shown with.
//   - What the user pinned or edited stays as it is: the candidate goes to the inbox.
//   - An earlier statement does not supersede a later one: it becomes history.
//   - Noop says nothing new: no other name or number, no other date, no opposite.
//   - Update keeps every name and number of both, adds none, and is one for each memory. One that says the candidate, with another number
//     or month where the memory has one, is a Delete.
//   - What the user only hinted at changes nothing.
func Validate(q Question, answers []Answer) []Decision {
	v := validation{Question: q, changed: map[uuid.UUID]bool{}, done: make([]*Decision, len(q.open))}
	for _, s := range q.settled {
		v.kept = append(v.kept, s.Memory)
	}
	chosen := v.choose(answers)
	// A contradiction comes first: what it closes can be neither changed nor confirmed.
	for _, decide := range []func(*open, []choice) *Decision{v.supersede, v.update, v.confirm, v.keep} {
		for n := range v.open {
			if v.done[n] == nil {
				v.done[n] = decide(&v.open[n], chosen[n])
			}
		}
	}
	decisions := make([]Decision, 0, len(v.done))
	for _, d := range v.done {
		decisions = append(decisions, *d)
	}
	return decisions
}

type validation struct {
	Question

	changed map[uuid.UUID]bool // by Update or Delete
	kept    []uuid.UUID        // confirmed without a model
	done    []*Decision
}

type choice struct {
	action Action
	memory *Known
	merged string
}

// choose returns the usable choices for each candidate. Answers with an unknown alias, or with a memory that the candidate
// was not shown with, are none.
func (v *validation) choose(answers []Answer) [][]choice {
	chosen := make([][]choice, len(v.open))
	for _, a := range answers {
		candidate, known := placeOfAlias(a.Candidate, "C", len(v.open)), placeOfAlias(a.Memory, "M", len(v.known))
		if candidate < 0 || known < 0 {
			continue
		}
		o, k, c := &v.open[candidate], &v.known[known], choice{Action(a.Action), &v.known[known], text.OneLine(a.Merged)}
		if !slices.Contains(o.alike, k.ID) {
			continue
		}
		if c.action == Update && replacesNumber(c.merged, k.Content, o) {
			c.action = Delete
		}
		chosen[candidate] = append(chosen[candidate], c)
	}
	return chosen
}

func (v *validation) supersede(o *open, choices []choice) *Decision {
	var d *Decision
	for _, c := range choices {
		k := c.memory
		if c.action != Delete || v.changed[k.ID] || slices.Contains(v.kept, k.ID) {
			continue
		}
		switch {
		case o.candidate.Inbox:
			return o.conflict(k, doubts[o.candidate.Doubt])
		case k.isTheUsers():
			return o.conflict(k, ReasonConflict)
		case !o.candidate.SaidAt().IsZero() && k.SaidAt.After(o.candidate.SaidAt()):
			return o.history(k)
		case d == nil:
			d = o.add(ReasonChanged)
			d.Action, d.Memory, d.ValidTo = Delete, k.ID, endOfKnown(k, &o.candidate)
		default:
			d.Also = append(d.Also, k.ID)
		}
		v.changed[k.ID] = true
	}
	return d
}

func (o *open) ask(reason string) *Decision {
	d := o.add(reason)
	d.Status, d.Reason = Inbox, reason
	return d
}

// conflict puts a candidate before the user that takes the place of a memory if they accept it.
func (o *open) conflict(k *Known, reason string) *Decision {
	d := o.ask(reason)
	d.ConflictsWith = k.ID
	return d
}

// history adds a fact that was true until a known memory was said.
func (o *open) history(k *Known) *Decision {
	d := o.add(ReasonEarlier)
	d.Status, d.SupersededBy, d.Reason = Superseded, k.ID, ReasonEarlier
	d.ValidTo = k.ValidFrom
	if d.ValidTo.IsZero() || d.ValidTo.Before(o.candidate.ValidFrom) {
		d.ValidTo = k.SaidAt
	}
	return d
}

// endOfKnown returns until when a memory was true that a candidate contradicts: since when that is, else when it was said.
func endOfKnown(k *Known, c *Candidate) time.Time {
	if !c.ValidFrom.IsZero() && !c.ValidFrom.Before(k.ValidFrom) {
		return c.ValidFrom
	}
	return c.SaidAt()
}

// update decides for candidates that say more than a memory.
func (v *validation) update(o *open, choices []choice) *Decision {
	for _, c := range choices {
		k := c.memory
		if c.action != Update || v.changed[k.ID] {
			continue
		}
		known := gistOf(k.Content)
		merged := gistOf(c.merged)
		switch {
		case merged.sameAs(known, false) && saysNoMore(o, k, known):
			return o.noop(k)
		case !keepsBoth(c.merged, merged, k.Content, known, o):
		case o.candidate.Inbox:
			return o.ask(doubts[o.candidate.Doubt])
		case k.isTheUsers():
			return o.ask(ReasonConflict)
		default:
			v.changed[k.ID] = true
			return &Decision{
				Candidate: o.number, Action: Update, Memory: k.ID, Content: c.merged, Reason: ReasonMerged,
				Confidence: max(k.Confidence, o.candidate.Confidence),
			}
		}
	}
	return nil
}

// keepsBoth reports whether a merged text says what both did, and nothing else.
func keepsBoth(content string, merged gist, memory string, known gist, o *open) bool {
	length := utf8.RuneCountInString(content)
	if length == 0 || length > MaxContent || !acceptable(content, memory) {
		return false
	}
	together := gistOf(memory + " " + o.candidate.Fact)
	for _, part := range []gist{known, o.gist} {
		if !merged.hasNamesOf(part) || !merged.hasNumbersOf(part) || !merged.restates(part) {
			return false
		}
	}
	return together.hasNamesOf(merged) && together.hasNumbersOf(merged) && merged.negated == (known.negated || o.gist.negated)
}

// replacesNumber reports whether a merged text says what the candidate says, and what a memory said but for a number that is another
// one now: "three bows" in the place of "two bows".
func replacesNumber(content, memory string, o *open) bool {
	known, merged := gistOf(memory), gistOf(content)
	isCandidate := merged.sameNumbers(o.gist) && merged.hasNamesOf(o.gist)
	isAnother := !merged.hasNumbersOf(known) && !known.hasNumbersOf(merged)
	sameSense := known.negated == o.gist.negated && merged.negated == known.negated
	return acceptable(content, memory) && isCandidate && isAnother && sameSense && merged.hasNamesOf(known) && o.gist.restates(known)
}

// confirm decides for candidates that a memory says already.
func (v *validation) confirm(o *open, choices []choice) *Decision {
	for _, c := range choices {
		if c.action == Noop && !v.isClosed(c.memory.ID) && saysNoMore(o, c.memory, gistOf(c.memory.Content)) {
			return o.noop(c.memory)
		}
	}
	return nil
}

// isClosed reports whether another candidate supersedes a memory.
func (v *validation) isClosed(id uuid.UUID) bool {
	return slices.ContainsFunc(v.done, func(d *Decision) bool {
		return d != nil && d.Action == Delete && (d.Memory == id || slices.Contains(d.Also, id))
	})
}

// saysNoMore reports whether a candidate has no name, number or date that a memory does not have, and is not its opposite.
func saysNoMore(o *open, k *Known, known gist) bool {
	from := o.candidate.ValidFrom
	sameTime := from.IsZero() || k.ValidFrom.IsZero() || from.Equal(k.ValidFrom)
	return sameTime && known.hasNamesOf(o.gist) && known.hasNumbersOf(o.gist) && known.negated == o.gist.negated
}

// keep adds what nothing else was decided on.
func (v *validation) keep(o *open, choices []choice) *Decision {
	reason := ReasonNewBeside
	if len(choices) > 0 {
		reason = ReasonUnclear
	}
	return o.add(reason)
}
