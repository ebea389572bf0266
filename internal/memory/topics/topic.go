package topics

import (
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/recall"
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

// Similarity returns how alike a vector and those that a centroid is the mean of are on average, from 0 to 1
// (recall.Similarity), and false without one of them.
func (b ByMeaning) Similarity(vector, centroid []float32) (float64, bool) {
	if len(vector) == 0 || len(vector) != len(centroid) {
		return 0, false
	}
	return recall.Similarity(dot(vector, centroid), b.Scale), true
}

// likeness returns how alike the directions of two centroids are, from 0 to 1, and false without one of them.
func (b ByMeaning) likeness(one, other []float32) (float64, bool) {
	if len(one) == 0 || len(one) != len(other) {
		return 0, false
	}
	lengths := math.Sqrt(dot(one, one) * dot(other, other))
	if lengths == 0 {
		return 0, false
	}
	return recall.Similarity(dot(one, other)/lengths, b.Scale), true
}

func dot(one, other []float32) float64 {
	sum := 0.
	for n := range one {
		sum += float64(one[n]) * float64(other[n])
	}
	return sum
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
