package memories

import (
	"math"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
)

// The weights of the ways in which a memory may be about a message, in standard deviations of all candidates, and that of
// how sure and how lately used it is beside them. Relevance comes first: by S4's formula alone, which has only the latter,
// 8.8 % of LoCoMo's questions find their evidence, instead of 56.
const (
	wordsWeight   = 1.
	vectorWeight  = .6
	entityWeight  = .3
	sureness      = .05
	perIdleDay    = .01
	mostIdleDays  = 100
	hoursOfTheDay = 24
)

// scored returns the candidates' scores, in their order.
func scored(found []Candidate, now time.Time) []float64 {
	words, vectors, names := make([]float64, len(found)), make([]float64, len(found)), make([]float64, len(found))
	for n, c := range found {
		words[n], names[n], vectors[n] = c.Words, float64(c.Named), math.NaN()
		if c.HasCosine {
			vectors[n] = c.Cosine
		}
	}
	deviations(words)
	deviations(vectors)
	deviations(names)
	scores := make([]float64, len(found))
	for n := range found {
		scores[n] = wordsWeight*words[n] + vectorWeight*vectors[n] + entityWeight*names[n]
	}
	toUnit(scores)
	for n := range found {
		scores[n] += sureness * (found[n].Confidence - perIdleDay*idleDays(&found[n].Remembered, now))
	}
	return scores
}

// deviations replaces numbers by their distance from the mean in standard deviations; NaN, which is unknown, by 0.
func deviations(numbers []float64) {
	known := slices.DeleteFunc(slices.Clone(numbers), math.IsNaN)
	mean, variance := 0., 0.
	for _, x := range known {
		mean += x / float64(len(known))
	}
	for _, x := range known {
		variance += (x - mean) * (x - mean) / float64(len(known))
	}
	for n, x := range numbers {
		numbers[n] = 0
		if !math.IsNaN(x) && variance > 0 {
			numbers[n] = (x - mean) / math.Sqrt(variance)
		}
	}
}

// toUnit moves numbers to 0 for the least and 1 for the greatest; to 1 if all are the same.
func toUnit(numbers []float64) {
	if len(numbers) == 0 {
		return
	}
	least, most := slices.Min(numbers), slices.Max(numbers)
	for n, x := range numbers {
		numbers[n] = 1
		if most > least {
			numbers[n] = (x - least) / (most - least)
		}
	}
}

// idleDays returns for how many days no reply has used a memory, at most mostIdleDays.
func idleDays(m *memory.Remembered, now time.Time) float64 {
	return min(max(math.Floor(now.Sub(m.LastUsed).Hours()/hoursOfTheDay), 0), mostIdleDays)
}
