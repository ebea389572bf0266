package topics

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// DecayChoice returns the topics of a chat that are to be archived, the one with the lowest priority first: where more
// than Max are active, those whose priority is below DecayBelow, but never the current one.
func (s Settings) DecayChoice(topics []Topic, current uuid.UUID, now time.Time) []uuid.UUID {
	type faded struct {
		id       uuid.UUID
		number   int
		priority float64
	}
	var chosen []faded
	active := 0
	for i := range topics {
		t := &topics[i]
		if t.State != Active {
			continue
		}
		active++
		priority := s.Priority(t.Importance, t.AccessCount, now.Sub(t.LastActiveAt))
		if priority < DecayBelow && t.ID != current {
			chosen = append(chosen, faded{t.ID, t.Number, priority})
		}
	}
	if active <= s.Max {
		return nil
	}
	slices.SortFunc(chosen, func(a, b faded) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.number, b.number))
	})
	ids := make([]uuid.UUID, len(chosen))
	for n, c := range chosen {
		ids[n] = c.id
	}
	return ids
}

// NextDecay returns when the next topic of a chat fades, once those are archived; nil for a chat that has no more than Max
// then.
func (s Settings) NextDecay(topics []Topic, archived []uuid.UUID, now time.Time) (next *time.Time) {
	active := 0
	for i := range topics {
		t := &topics[i]
		if t.State != Active || slices.Contains(archived, t.ID) {
			continue
		}
		active++
		fades := t.LastActiveAt.Add(s.FadesAfter(t.Importance, t.AccessCount) + time.Second)
		if fades.After(now) && (next == nil || fades.Before(*next)) {
			next = &fades
		}
	}
	if active <= s.Max {
		return nil
	}
	return next
}

// Merge is a topic that becomes part of another.
type Merge struct {
	Into, From uuid.UUID
	Similarity float64
}

// MergeChoice returns which active topics of a chat are one, in the order in which they are to be merged: the nearest
// first, the later into the earlier. Those that a user has named stay. It changes no topic.
func MergeChoice(topics []Topic, by ByMeaning) []Merge {
	var left []*Topic
	for i := range topics {
		if t := topics[i]; t.State == Active && !t.Renamed && t.Model == by.Model && t.Centroid != nil {
			left = append(left, &t)
		}
	}
	var merges []Merge
	for {
		into, from, near := nearestPair(left, by)
		if into == nil || near < MergeAt {
			return merges
		}
		merges = append(merges, Merge{Into: into.ID, From: from.ID, Similarity: near})
		into.Absorb(from)
		left = slices.DeleteFunc(left, func(t *Topic) bool { return t == from })
	}
}

func nearestPair(topics []*Topic, by ByMeaning) (into, from *Topic, near float64) {
	for n, a := range topics {
		for _, b := range topics[:n] {
			if similarity, ok := by.likeness(a.Centroid, b.Centroid); ok && (into == nil || similarity > near) {
				into, from, near = b, a, similarity
			}
		}
	}
	if into != nil && into.Number > from.Number {
		into, from = from, into
	}
	return into, from, near
}

// Absorb counts another topic into this one. The other becomes Merged; where their vectors are of different models, the
// centroid is that of this one's.
func (t *Topic) Absorb(from *Topic) {
	t.AccessCount += from.AccessCount
	t.MessageCount += from.MessageCount
	if from.Rated && !t.Rated {
		t.Importance, t.Rated = from.Importance, true
	} else if from.Rated == t.Rated {
		t.Importance = max(t.Importance, from.Importance)
	}
	switch {
	case t.Centroid == nil:
		t.Centroid, t.Model, t.CentroidTurns = from.Centroid, from.Model, from.CentroidTurns
	case from.Model == t.Model && from.Centroid != nil:
		t.Centroid = Mean(t.Centroid, t.CentroidTurns, from.Centroid, from.CentroidTurns)
		t.CentroidTurns += from.CentroidTurns
	}
	if from.CreatedAt.Before(t.CreatedAt) {
		t.CreatedAt = from.CreatedAt
	}
	if from.LastActiveAt.After(t.LastActiveAt) {
		t.LastActiveAt = from.LastActiveAt
	}
	t.FirstSeq, t.LastSeq = min(t.FirstSeq, from.FirstSeq), max(t.LastSeq, from.LastSeq)
	from.State, from.Centroid, from.CentroidTurns = Merged, nil, 0
}
