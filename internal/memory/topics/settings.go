package topics

import (
	"math"
	"time"
)

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
	// Max is how many active topics a chat may have before those that have faded are archived.
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

// Rate returns the importance of a topic after a message of it was rated -1, 0 or 1: four fifths of what it was, and a
// fifth of 0, 0.5 or 1.
func Rate(importance float64, rating int) float64 {
	return .8*importance + .2*float64(rating+1)/2
}

// PinnedImportance returns the importance of a topic of which a message is pinned.
func PinnedImportance(importance float64) float64 {
	const least = .9
	return max(importance, least)
}
