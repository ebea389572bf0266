package longterm

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// MergeAlike folds candidates into one that say the same in the same words. The result has the evidence of all, and the
// highest confidence.
func MergeAlike(candidates []Candidate) []Candidate {
	var merged []Candidate
	var gists []Gist
	for _, c := range candidates {
		gist := GistOf(c.Fact)
		twin := slices.IndexFunc(gists, func(g Gist) bool { return g.SameAs(gist, false) })
		if twin < 0 {
			merged, gists = append(merged, c), append(gists, gist)
			continue
		}
		merged[twin] = both(merged[twin], c)
	}
	return merged
}

func both(a, b Candidate) Candidate {
	a.Evidence = slices.Clone(a.Evidence)
	for _, e := range b.Evidence {
		n := slices.IndexFunc(a.Evidence, func(o Evidence) bool { return o.MessageID == e.MessageID })
		switch {
		case n < 0:
			a.Evidence = append(a.Evidence, e)
		case e.Alone && !a.Evidence[n].Alone:
			a.Evidence[n] = e
		}
	}
	slices.SortStableFunc(a.Evidence, func(x, y Evidence) int { return cmp.Compare(x.Seq, y.Seq) })
	a.Confidence = max(a.Confidence, b.Confidence)
	a.Inbox, a.Durable = a.Inbox && b.Inbox, a.Durable || b.Durable
	if a.ValidFrom.IsZero() && a.ValidTo.IsZero() {
		a.ValidFrom, a.ValidTo, a.Precision = b.ValidFrom, b.ValidTo, b.Precision
	}
	a.Replaces = cmp.Or(a.Replaces, b.Replaces)
	if len(a.Entities) == 0 {
		a.Entities, a.Relationships = b.Entities, b.Relationships
	}
	return a
}

// Question is what the rules could not settle: candidates with the memories that are like them.
type Question struct {
	open    []open
	known   []Known // each once, in the order in which they are numbered
	settled []Decision
}

// open is a candidate to ask about.
type open struct {
	number    int // among all candidates
	candidate Candidate
	gist      Gist
	alike     []uuid.UUID
}

// Open returns how many candidates the question is about; 0 if there is nothing to ask.
func (q Question) Open() int { return len(q.open) }

// Settle decides on the candidates that need no model, by the memories that resemble each. The others are the question.
// A decision's Candidate is a place in candidates.
//
// None alike is added. The same words, or words that differ in nothing but their order and are as near in meaning as can
// be, are one source more. All else is asked.
func Settle(candidates []Candidate, known [][]Known, rules Rules) (Question, []Decision) {
	var q Question
	for n := range candidates {
		c := &candidates[n]
		var near []Known
		if n < len(known) {
			near = known[n]
		}
		gist := GistOf(c.Fact)
		if twin := twinOf(gist, near); twin != nil {
			q.settled = append(q.settled, noop(n, c, twin))
			continue
		}
		alike := alikeOf(gist, near, rules)
		if len(alike) == 0 {
			q.settled = append(q.settled, add(n, c, ReasonNew))
			continue
		}
		o := open{number: n, candidate: *c, gist: gist}
		for _, k := range alike {
			o.alike = append(o.alike, k.ID)
			if q.find(k.ID) == nil {
				q.known = append(q.known, k)
			}
		}
		q.open = append(q.open, o)
	}
	return q, q.settled
}

func (q *Question) find(id uuid.UUID) *Known {
	n := slices.IndexFunc(q.known, func(k Known) bool { return k.ID == id })
	if n < 0 {
		return nil
	}
	return &q.known[n]
}

// nearlyEqual is the cosine from which on texts of the same words say the same in another order. It is no similarity:
// that is at its highest for texts that are far less alike.
const nearlyEqual = .95

// twinOf returns the memory that says the same, an active one first; nil if there is none.
func twinOf(gist Gist, near []Known) *Known {
	var twin *Known
	for n := range near {
		k := &near[n]
		same := k.SameKey || gist.SameAs(GistOf(k.Content), k.HasCosine && k.Cosine >= nearlyEqual)
		if same && k.Status != Superseded && (twin == nil || rank(k) < rank(twin)) {
			twin = k
		}
	}
	return twin
}

// rank puts what the user sees before what is put away, and the same words before others.
func rank(k *Known) int {
	rank := slices.Index([]Status{Active, Inbox, Archived}, k.Status) * 2
	if !k.SameKey {
		rank++
	}
	return rank
}

// alikeOf returns the memories that may have to do with a candidate: those nearest by meaning and by words in turn, so
// that a near twin that only one of the two finds is not crowded out.
func alikeOf(gist Gist, near []Known, rules Rules) []Known {
	sorted := slices.Clone(near)
	slices.SortStableFunc(sorted, func(a, b Known) int { return cmp.Compare(turn(&a), turn(&b)) })
	var alike []Known
	for n := range sorted {
		k := &sorted[n]
		if len(alike) < MostAlike && (k.Status == Active || k.Status == Inbox) && isAlike(gist, k, rules) {
			alike = append(alike, *k)
		}
	}
	return alike
}

// turn is when a memory is taken: the best by meaning, the best by words, the second by meaning …
func turn(k *Known) int {
	const never = 1 << 20
	at := never
	if k.VectorPlace > 0 {
		at = 2 * k.VectorPlace
	}
	if k.WordsPlace > 0 {
		at = min(at, 2*k.WordsPlace+1)
	}
	return at
}

const (
	// similar is from which similarity on a memory may have to do with a candidate: S4's threshold.
	similar = .6
	// fewWords is the share of the words of the shorter text that the other must have where meaning says "not alike".
	fewWords = .5
)

func isAlike(gist Gist, k *Known, rules Rules) bool {
	other := GistOf(k.Content)
	if rules.Similarity == nil || !k.HasCosine {
		return gist.SharesWord(other)
	}
	if rules.Similarity(k.Cosine) >= similar {
		return true
	}
	share, _ := gist.Overlap(other)
	return share >= fewWords
}
