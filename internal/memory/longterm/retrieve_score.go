package longterm

import (
	"math"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
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

// views are the ways in which a memory may be about a message.
type views struct{ words, meaning, names float64 }

// scored returns the candidates' scores, in their order.
func scored(found []Found, now time.Time) []float64 {
	all := make([]*views, len(found))
	for n, c := range found {
		all[n] = &views{c.Words, math.NaN(), float64(c.Named)}
		if c.HasCosine {
			all[n].meaning = c.Cosine
		}
	}
	recall.Standardize(all, func(v *views) *float64 { return &v.words })
	recall.Standardize(all, func(v *views) *float64 { return &v.meaning })
	recall.Standardize(all, func(v *views) *float64 { return &v.names })
	scores := make([]float64, len(found))
	for n, v := range all {
		scores[n] = wordsWeight*v.words + vectorWeight*v.meaning + entityWeight*v.names
	}
	toUnit(scores)
	for n := range found {
		scores[n] += sureness * (found[n].Confidence - perIdleDay*idleDays(&found[n].Remembered, now))
	}
	return scores
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
