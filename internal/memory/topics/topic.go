package topics

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/google/uuid"
)

// State is the state of a topic.
type State string

// The states of a topic. An archived one has no active messages and no vectors of turns, but is found by its centroid.
const (
	Active   State = "active"
	Archived State = "archived"
	Merged   State = "merged"
)

// Topic is a row of topics, as far as the rules need it.
type Topic struct {
	ID     uuid.UUID
	Number int
	State  State
	// Renamed is whether a user has set the title.
	Renamed bool
	// Importance is from 0 to 1. Rated is whether a person or the app has said so.
	Importance float64
	Rated      bool
	// AccessCount is how many turns have joined the topic since it was made.
	AccessCount  int
	MessageCount int
	// Centroid is the mean of CentroidTurns vectors of Model; nil without any.
	Centroid      []float32
	Model         string
	CentroidTurns int
	// CreatedAt is when its first turn was said, LastActiveAt when the last one that joined it was.
	CreatedAt, LastActiveAt time.Time
	// FirstSeq and LastSeq are of its first and its last message.
	FirstSeq, LastSeq int64
	// Packed is whether messages of it are packed.
	Packed bool
}

// ByMeaning compares vectors of one model.
type ByMeaning struct {
	Model string
	// Scale is that of whole turns (recall.NewTurnScales) where turns are compared, and that of questions (recall.NewScales)
	// where a question is.
	Scale recall.Scale
}

// Similarity returns how alike a vector and the vectors behind a centroid are on average, from 0 to 1
// (recall.Similarity), and false without one of them.
func (b ByMeaning) Similarity(vector, centroid []float32) (float64, bool) {
	if len(vector) == 0 || len(vector) != len(centroid) {
		return 0, false
	}
	return recall.Similarity(recall.Dot(vector, centroid), b.Scale), true
}

// likeness returns how alike the directions of two centroids are, from 0 to 1, and false without one of them.
func (b ByMeaning) likeness(one, other []float32) (float64, bool) {
	if len(one) == 0 || len(one) != len(other) {
		return 0, false
	}
	lengths := math.Sqrt(recall.Dot(one, one) * recall.Dot(other, other))
	if lengths == 0 {
		return 0, false
	}
	return recall.Similarity(recall.Dot(one, other)/lengths, b.Scale), true
}

// Mean returns the mean of two means, of so many vectors each. It is not of unit length: the more the vectors differ, the
// shorter it is, so that its product with a vector is the mean of the cosines.
func Mean(one []float32, ones int, other []float32, others int) []float32 {
	switch {
	case ones == 0 || one == nil:
		return other
	case others == 0 || other == nil || len(one) != len(other):
		return one
	}
	mean := make([]float32, len(one))
	for n := range one {
		mean[n] = float32((float64(ones)*float64(one[n]) + float64(others)*float64(other[n])) / float64(ones+others))
	}
	return mean
}

// IsShort reports whether a message has too few words that say something to change the topic, such as "And what does it
// cost?". Function words, words of any chat ("thanks") and numbers do not count.
func IsShort(message string) bool {
	telling := 0
	for _, word := range recall.Words(message) {
		if !word.Weak {
			telling++
		}
	}
	return telling < ContentWords
}

const (
	// DecayBelow is the priority below which a topic is archived when a chat has too many.
	DecayBelow = .05
	// MergeAt is the similarity from which on two topics are one.
	MergeAt = .92
	// SectionTokens is the most that a prompt shows of a topic.
	SectionTokens = 150
	// SummaryTokens is the most that a topic's summary may have.
	SummaryTokens = 150
	// TitleLength is the most characters of a title.
	TitleLength = 80
	// ContentWords is how many words that say something a message needs, so that it can change the topic.
	ContentWords = 3
)

// Settings are the numbers that an operator may set. See Defaults.
type Settings struct {
	// Similarity is from which similarity on, on the scale of recall.Similarity, a turn belongs to a topic.
	Similarity float64
	// Continuity is added for the topic of the turn before.
	Continuity float64
	// Max is how many active topics a chat may have before faded ones are archived.
	Max int
	// HalfLife is the time in which the priority of a new topic halves, and HalfLifeMax the longest such time.
	HalfLife, HalfLifeMax time.Duration
	// LongTermAccesses is how many accesses double the half-life.
	LongTermAccesses int
	// MaxMessages is how many active messages a topic may have before it is compacted, and KeepMessages how many then
	// stay active.
	MaxMessages, KeepMessages int
}

// Defaults returns the settings of an installation that sets none.
func Defaults() Settings {
	const day = 24 * time.Hour
	return Settings{
		Similarity: .7, Continuity: .15, Max: 20, HalfLife: day, HalfLifeMax: 30 * day, LongTermAccesses: 5,
		MaxMessages: 12, KeepMessages: 4,
	}
}

// HalfLifeOf returns the time in which the priority of a topic with so many accesses halves: HalfLife for a new one, twice
// that for each LongTermAccesses, and at most HalfLifeMax.
func (s Settings) HalfLifeOf(accesses int) time.Duration {
	steps := max(accesses, 0) / max(s.LongTermAccesses, 1)
	life := float64(s.HalfLife) * math.Pow(2, float64(steps))
	return time.Duration(min(life, float64(max(s.HalfLifeMax, s.HalfLife))))
}

// Priority returns how present a topic is, from 0 to its importance: it halves with each half-life that has passed since
// the topic was last active.
func (s Settings) Priority(importance float64, accesses int, inactive time.Duration) float64 {
	return importance * math.Pow(.5, float64(max(inactive, 0))/float64(s.HalfLifeOf(accesses)))
}

// FadesAfter returns how long a topic must be inactive until its priority is DecayBelow; 0 for one that never exceeds it.
func (s Settings) FadesAfter(importance float64, accesses int) time.Duration {
	if importance <= DecayBelow {
		return 0
	}
	return time.Duration(float64(s.HalfLifeOf(accesses)) * math.Log2(importance/DecayBelow))
}

// MemoryType says how well a topic is consolidated.
type MemoryType string

// The memory types, by the number of accesses.
const (
	ShortTerm     MemoryType = "short-term"
	Transitioning MemoryType = "transitioning"
	LongTerm      MemoryType = "long-term"
)

// MemoryTypeOf returns the memory type of a topic with so many accesses: short-term below LongTermAccesses, long-term from
// twice as many on.
func (s Settings) MemoryTypeOf(accesses int) MemoryType {
	switch {
	case accesses < s.LongTermAccesses:
		return ShortTerm
	case accesses < 2*s.LongTermAccesses:
		return Transitioning
	default:
		return LongTerm
	}
}

// OverLimit reports whether a topic with so many active messages is to be compacted.
func (s Settings) OverLimit(activeMessages int) bool { return activeMessages > s.MaxMessages }

// Rate returns the importance of a topic after a message of it was rated -1, 0 or 1: four fifths of the old one, and a
// fifth of 0, 0.5 or 1.
func Rate(importance float64, rating int) float64 {
	return .8*importance + .2*float64(rating+1)/2
}

// PinnedImportance returns the importance of a topic of which a message is pinned.
func PinnedImportance(importance float64) float64 {
	const least = .9
	return max(importance, least)
}

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
// first, the later into the earlier. Topics that a user has named stay. It changes no topic.
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
