package recall

import (
	"context"
	_ "embed" // the sentences
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/arcoscribe/throughline/internal/fault"
)

// unrelated are 32 sentences of different subjects, four in each of eight languages.
//
//go:embed unrelated.txt
var unrelated string

// Scale is how alike unrelated sentences are to a model: the median and the 99th percentile of the cosines of all pairs
// of our 32. A cosine of 0.7 is far to one model and near to another.
type Scale struct{ P50, P99 float64 }

// leastSpread is the least difference between P99 and P50 of a model that tells texts apart. Stored numbers have 11 bits.
const leastSpread = 0.01

// Similarity puts a cosine on one scale for all models: unrelated texts are at 0.2, and all but one in a hundred of
// their pairs below 0.62. It is from 0 to 1.
func Similarity(cosine float64, s Scale) float64 {
	return min(max(0.2+0.42*(cosine-s.P50)/(s.P99-s.P50), 0), 1)
}

// scaleOf measures a scale on the vectors of unrelated sentences.
func scaleOf(vectors [][]float32) (Scale, error) {
	var cosines []float64
	for n, a := range vectors {
		if a == nil {
			return Scale{}, unusable("it has no vector for an ordinary sentence")
		}
		for _, b := range vectors[:n] {
			cosines = append(cosines, dot(a, b))
		}
	}
	slices.Sort(cosines)
	scale := Scale{P50: percentile(cosines, .5), P99: percentile(cosines, .99)}
	if scale.P99-scale.P50 < leastSpread {
		return Scale{}, unusable(fmt.Sprintf("all unrelated sentences are equally alike to it (median %.4f, 99th percentile %.4f)", scale.P50, scale.P99))
	}
	return scale, nil
}

func unusable(why string) error {
	return fault.Wrap(fault.UpstreamFailed, "The embedding model cannot be used.", fmt.Errorf("%s: see EMBEDDING_MODEL", why))
}

// dot is the cosine of two vectors of unit length.
func dot(a, b []float32) float64 {
	sum := 0.0
	for n := range a {
		sum += float64(a[n]) * float64(b[n])
	}
	return sum
}

// percentile interpolates between the two nearest of sorted numbers.
func percentile(sorted []float64, share float64) float64 {
	at := share * float64(len(sorted)-1)
	below, part := math.Modf(at)
	n := int(below)
	if n+1 >= len(sorted) {
		return sorted[n]
	}
	return sorted[n] + part*(sorted[n+1]-sorted[n])
}

// ScaleStore keeps the scales of models, for all servers.
type ScaleStore interface {
	// ReadScale returns a model's scale, and false if it was not measured yet.
	ReadScale(ctx context.Context, model string) (Scale, bool, error)
	// SaveScale keeps a scale. If another server was first, its scale remains.
	SaveScale(ctx context.Context, model string, scale Scale) error
}

// Scales returns the scale of one embedder's model. It is safe for concurrent use.
type Scales struct {
	store    ScaleStore
	embedder Embedder

	mu    sync.Mutex
	scale Scale // zero until it is known
}

// NewScales returns the scales of an embedder's model.
func NewScales(store ScaleStore, embedder Embedder) *Scales {
	return &Scales{store: store, embedder: embedder}
}

// Known returns the scale, and false if nobody has measured it yet: then no turn has a vector of the model either.
func (s *Scales) Known(ctx context.Context) (Scale, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known(ctx)
}

func (s *Scales) known(ctx context.Context) (Scale, bool, error) {
	if s.scale != (Scale{}) {
		return s.scale, true, nil
	}
	scale, found, err := s.store.ReadScale(ctx, s.embedder.Model())
	if err == nil && found {
		s.scale = scale
	}
	return scale, found && err == nil, err
}

// Measured returns the scale, and measures it if nobody has. A model that cannot be used is a *fault.Error with an
// upstream code.
func (s *Scales) Measured(ctx context.Context) (Scale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scale, found, err := s.known(ctx)
	if found || err != nil {
		return scale, err
	}
	vectors, err := s.embedder.Embed(ctx, strings.Split(strings.TrimSpace(unrelated), "\n"))
	if err != nil {
		return Scale{}, fmt.Errorf("measure the embedding model: %w", err)
	}
	if scale, err = scaleOf(vectors); err != nil {
		return Scale{}, err
	}
	if err := s.store.SaveScale(ctx, s.embedder.Model(), scale); err != nil {
		return Scale{}, err
	}
	scale, _, err = s.known(ctx) // what all servers go by
	return scale, err
}
