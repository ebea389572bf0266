package recall

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/arcoscribe/throughline/internal/fault"
)

func TestSimilarityPutsModelsOnOneScale(t *testing.T) {
	t.Parallel()
	wide, narrow := Scale{P50: .21, P99: .62}, Scale{P50: .78, P99: .86}
	for _, c := range []struct {
		cosine float64
		scale  Scale
		want   float64
	}{
		{.21, wide, .2}, {.62, wide, .62}, {1, wide, 1}, {-1, wide, 0}, {.415, wide, .41},
		{.78, narrow, .2}, {.86, narrow, .62}, {.9, narrow, .83}, {.5, narrow, 0},
	} {
		if got := Similarity(c.cosine, c.scale); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("cosine %v on %v: %v, want %v", c.cosine, c.scale, got, c.want)
		}
	}
}

func TestUnrelatedSentences(t *testing.T) {
	t.Parallel()
	sentences := strings.Split(strings.TrimSpace(unrelated), "\n")
	if len(sentences) != 32 {
		t.Errorf("%d sentences", len(sentences))
	}
	slices.Sort(sentences)
	if len(slices.Compact(sentences)) != 32 {
		t.Error("a sentence is there twice")
	}
}

// onCircle are vectors at these angles in degrees, so that the cosines are known.
func onCircle(angles ...float64) [][]float32 {
	vectors := make([][]float32, len(angles))
	for n, angle := range angles {
		sin, cos := math.Sincos(angle * math.Pi / 180)
		vectors[n] = []float32{float32(cos), float32(sin)}
	}
	return vectors
}

func TestScaleIsMeasuredOverAllPairs(t *testing.T) {
	t.Parallel()
	// The pairs lie 60, 90, 30, 90, 60 and 150 degrees apart.
	scale, err := scaleOf(onCircle(0, 60, 90, -60)[:3])
	if err != nil || math.Abs(scale.P50-.5) > 1e-6 || math.Abs(scale.P99-(.5+.98*(math.Sqrt(3)/2-.5))) > 1e-6 {
		t.Errorf("%+v, %v", scale, err)
	}
	for name, vectors := range map[string][][]float32{
		"all alike":      onCircle(0, 0, 0, 0),
		"nearly alike":   onCircle(0, 1, 2, 3),
		"without vector": append(onCircle(0, 60, 90), nil),
	} {
		if _, err := scaleOf(vectors); fault.CodeOf(err) != fault.UpstreamFailed || !strings.Contains(err.Error(), "EMBEDDING_MODEL") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fakeModel answers with the vectors of a circle, one degree apart for each text but the last, and counts its calls.
type fakeModel struct {
	mu    sync.Mutex
	calls int
	alike bool
	err   error
}

func (m *fakeModel) Model() string { return "fake" }

func (m *fakeModel) Embed(_ context.Context, texts []string) ([][]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	angles := make([]float64, len(texts))
	for n := range angles {
		if !m.alike {
			angles[n] = float64(5 * n)
		}
	}
	return onCircle(angles...), m.err
}

// fakeScales is a store of one model's scale.
type fakeScales struct {
	mu     sync.Mutex
	scale  *Scale
	before *Scale // what another server saves first
	err    error
	reads  int
}

func (s *fakeScales) ReadScale(context.Context, string) (Scale, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil || s.scale == nil {
		return Scale{}, false, s.err
	}
	return *s.scale, true, nil
}

func (s *fakeScales) SaveScale(_ context.Context, _ string, scale Scale) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil {
		scale = *s.before
	}
	s.scale = &scale
	return s.err
}

func TestAScaleIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	model, store := &fakeModel{}, &fakeScales{}
	worker, server := NewScales(store, model), NewScales(store, model)
	if _, known, err := server.Known(t.Context()); known || err != nil {
		t.Errorf("known %v, %v", known, err)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := worker.Measured(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	reads := store.reads
	for range 3 {
		if scale, known, err := server.Known(t.Context()); !known || err != nil || scale != *store.scale {
			t.Errorf("%+v, known %v, %v", scale, known, err)
		}
	}
	if model.calls != 1 || store.reads != reads+1 {
		t.Errorf("%d calls, %d reads for three questions", model.calls, store.reads-reads)
	}
}

func TestTheFirstServersScaleHolds(t *testing.T) {
	t.Parallel()
	store := &fakeScales{before: &Scale{P50: .1, P99: .3}}
	if scale, err := NewScales(store, &fakeModel{}).Measured(t.Context()); err != nil || scale != *store.before {
		t.Errorf("%+v, %v", scale, err)
	}
}

func TestAScaleThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	failure := errors.New("away")
	for name, c := range map[string]struct {
		model *fakeModel
		store *fakeScales
		want  error
	}{
		"embedder": {&fakeModel{err: failure}, &fakeScales{}, failure},
		"store":    {&fakeModel{}, &fakeScales{err: failure}, failure},
		"alike":    {&fakeModel{alike: true}, &fakeScales{}, nil},
	} {
		_, err := NewScales(c.store, c.model).Measured(t.Context())
		if err == nil || c.want != nil && !errors.Is(err, c.want) || c.store.scale != nil {
			t.Errorf("%s: %v, saved %v", name, err, c.store.scale)
		}
	}
}
