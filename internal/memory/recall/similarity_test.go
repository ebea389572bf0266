package recall

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		got := Similarity(c.cosine, c.scale)
		assert.Truef(t, math.Abs(got-c.want) <= 1e-9, "cosine %v on %v: %v, want %v", c.cosine, c.scale, got, c.want)
	}
}

func TestUnrelatedSentences(t *testing.T) {
	t.Parallel()
	sentences := strings.Split(strings.TrimSpace(unrelated), "\n")
	assert.Truef(t, len(sentences) == 32, "%d sentences", len(sentences))
	more := sentencesOf(languageCodes)
	assert.Equalf(t, len(more), 32+28+7*12, "%d sentences with the further ones, want", len(more))
	for _, sentence := range sentences {
		assert.Truef(t, slices.Contains(more, sentence), "%q is not among them", sentence)
	}
	slices.Sort(more)
	assert.Equal(t, 32+28+7*12, len(slices.Compact(more)), "a sentence is there twice")
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
	assert.Truef(t, err == nil && math.Abs(scale.P50-.5) <= 1e-6 && math.Abs(scale.P99-(.5+.98*(math.Sqrt(3)/2-.5))) <= 1e-6, "%+v, %v", scale, err)
	for name, vectors := range map[string][][]float32{
		"all alike":      onCircle(0, 0, 0, 0),
		"nearly alike":   onCircle(0, 1, 2, 3),
		"without vector": append(onCircle(0, 60, 90), nil),
	} {
		_, err = scaleOf(vectors)
		assert.Truef(t, fault.CodeOf(err) == fault.UpstreamFailed && strings.Contains(err.Error(), "EMBEDDING_MODEL"), "%s: %v", name, err)
	}
}

// fakeModel answers with the vectors of a circle, one degree apart for each text but the last, and counts its calls.
type fakeModel struct {
	mu    sync.Mutex
	calls int
	alike bool
	err   error
	// unread are languages of which all sentences are the same to it, or have no vector.
	unread []string
	asked  []string // the last texts
}

func (m *fakeModel) Model() string { return "fake" }

func (m *fakeModel) Embed(_ context.Context, _ For, texts []string) ([][]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.asked = texts
	angles := make([]float64, len(texts))
	for n := range angles {
		if !m.alike {
			angles[n] = float64(5 * n)
		}
	}
	vectors := onCircle(angles...)
	for n, text := range texts {
		if code := codeOf(text); slices.Contains(m.unread, code) {
			vectors[n] = onCircle(200)[0]
			if code == "ar" {
				vectors[n] = nil
			}
		}
	}
	return vectors, m.err
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
	_, known, err := server.Known(t.Context())
	assert.Truef(t, !known && err == nil, "known %v, %v", known, err)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			_, err := worker.Measured(t.Context())
			assert.NoError(t, err)
		})
	}
	all.Wait()
	reads := store.reads
	for range 3 {
		scale, known, err := server.Known(t.Context())
		assert.Truef(t, known && err == nil && scale == *store.scale, "%+v, known %v, %v", scale, known, err)
	}
	assert.Truef(t, model.calls == 1 && store.reads == reads+1, "%d calls, %d reads for three questions", model.calls, store.reads-reads)
}

func TestTheFirstServersScaleHolds(t *testing.T) {
	t.Parallel()
	store := &fakeScales{before: &Scale{P50: .1, P99: .3, List: SentenceList}}
	scale, err := NewScales(store, &fakeModel{}).Measured(t.Context())
	assert.Truef(t, err == nil && scale == *store.before, "%+v, %v", scale, err)
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
		assert.Truef(t, err != nil && (c.want == nil || errors.Is(err, c.want)) && c.store.scale == nil, "%s: %v, saved %v", name, err, c.store.scale)
	}
}

func TestAModelOfSomeLanguages(t *testing.T) {
	t.Parallel()
	model, store := &fakeModel{unread: []string{"ja", "ar"}}, &fakeScales{}
	scale, err := NewScales(store, model).Measured(t.Context())
	assert.Truef(t, err == nil && scale.Languages == "en de fr es it pt" && scale.P50 < scale.P99, "%+v, %v", scale, err)
	assert.Truef(t, model.calls == 2 && len(model.asked) == 24+28+5*12, "%d calls, the last for %d sentences", model.calls, len(model.asked))
	all := Scale{P50: .1, P99: .5}
	for text, want := range map[string]bool{
		"What is my dentist called?": true, "Wie heißt mein Zahnarzt?": true, "cello strings": true, "violonsel çalıyorum": false,
		"歯医者の名前は何ですか。": false, "ما اسم طبيب أسناني؟": false, "Как зовут моего врача?": false,
		"내 치과 의사": false, "42": false,
		"Jak nazywa się mój dentysta i gdzie jest": false,
	} {
		assert.Equalf(t, want, scale.Reads(text), "%q is read", text)
		assert.Truef(t, all.Reads(text), "%q is not read by a model for all languages", text)
	}
}

func TestKnownLanguages(t *testing.T) {
	t.Parallel()
	assert.Equal(t, len(languageCodes), len(knownLanguages(make([][]float32, 32))), "the scale refuses languages of a model without any vector")
	_, err := scaleOf(make([][]float32, 32))
	assert.Error(t, err, "a scale without vectors")
}

func TestAnOlderScaleIsMeasuredAnew(t *testing.T) {
	t.Parallel()
	model, store := &fakeModel{}, &fakeScales{scale: &Scale{P50: .1, P99: 1, List: SentenceList - 1}}
	scales := NewScales(store, model)
	_, known, err := scales.Known(t.Context())
	assert.Truef(t, !known && err == nil, "known %v, %v", known, err)
	outdated, err := scales.Outdated(t.Context())
	assert.Truef(t, outdated && err == nil, "outdated %v, %v", outdated, err)
	scale, err := scales.Measured(t.Context())
	assert.Truef(t, err == nil && scale.P99 != 1 && scale.List == SentenceList, "%+v, %v", scale, err)
	outdated, err = scales.Outdated(t.Context())
	assert.Truef(t, !outdated && err == nil, "outdated %v, %v", outdated, err)
	outdated, err = NewScales(&fakeScales{}, model).Outdated(t.Context())
	assert.Truef(t, !outdated && err == nil, "a model that was not measured: outdated %v, %v", outdated, err)
}

// scalesByName is a store of several scales.
type scalesByName map[string]Scale

func (s scalesByName) ReadScale(_ context.Context, name string) (Scale, bool, error) {
	scale, found := s[name]
	return scale, found, nil
}

func (s scalesByName) SaveScale(_ context.Context, name string, scale Scale) error {
	s[name] = scale
	return nil
}

func TestTurnsHaveAScaleOfTheirOwn(t *testing.T) {
	t.Parallel()
	model, store := &fakeModel{unread: []string{"ja", "ar"}}, scalesByName{}
	turns := NewTurnScales(store, model)
	if _, known, err := turns.Known(t.Context()); known || err != nil {
		t.Errorf("known before it is measured, %v", err)
	}
	scale, err := turns.Measured(t.Context())
	require.NoError(t, err)
	for _, text := range model.asked {
		user, reply, ok := strings.Cut(text, "\nAssistant: ")
		assert.Truef(t, ok && strings.HasPrefix(user, "User: ") && reply != "" && codeOf(text) != "ja", "a turn is %q", text)
	}
	sentences := store["fake"]
	if store["turns of fake"] != scale || len(store) != 2 || scale == sentences || scale.Languages != sentences.Languages || scale.List != SentenceList {
		t.Errorf("turns %+v, stored %+v", scale, store)
	}
	calls := model.calls
	again, known, err := NewTurnScales(store, model).Known(t.Context())
	assert.Truef(t, again == scale && known && err == nil && model.calls == calls, "%+v, %v, %v", again, known, err)
	_, err = NewTurnScales(scalesByName{}, &fakeModel{err: errors.New("away")}).Measured(t.Context())
	assert.True(t, err != nil, "a model that is away is measured")
}
