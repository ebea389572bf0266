package recall

import (
	"context"
	_ "embed" // the sentences
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// unrelated are 32 sentences of different subjects, four in each of eight languages.
//
//go:embed unrelated.txt
var unrelated string

// unrelatedMore are further ones, language by language with a blank line between, for models that do not know all eight.
//
//go:embed unrelated_more.txt
var unrelatedMore string

// languageCodes are the languages of the sentences, in their order.
var languageCodes = []string{"en", "de", "fr", "es", "it", "pt", "ja", "ar"}

// perLanguage is how many of the 32 sentences each language has.
const perLanguage = 4

// SentenceList counts the lists of sentences that there have been. Scales of another list are measured again.
const SentenceList = 2

// Scale is how alike unrelated sentences are to a model: the median and the 99th percentile of the cosines of all pairs
// of ours. A cosine of 0.7 is far to one model and near to another.
type Scale struct {
	P50, P99 float64
	// Languages are the languages that the scale holds for, with spaces between; "" if the model tells texts of all of ours apart.
	// To a model for English two sentences in Japanese may be the same.
	Languages string
	// List is the SentenceList that it was measured on.
	List int
}

// Reads reports whether cosines of a text mean something by the scale: whether the text is in one of its languages.
func (s *Scale) Reads(text string) bool {
	return s.Languages == "" || slices.Contains(strings.Fields(s.Languages), codeOf(text))
}

// leastSpread is the least difference between P99 and P50 of a model that tells texts apart. Stored numbers have 11 bits.
const leastSpread = 0.01

// Similarity puts a cosine on one scale for all models: unrelated texts are at 0.2, and all but one in a hundred of
// their pairs below 0.62. It is from 0 to 1.
func Similarity(cosine float64, s Scale) float64 {
	return min(max(0.2+0.42*(cosine-s.P50)/(s.P99-s.P50), 0), 1)
}

// Cosine is the reverse of Similarity: the cosine that has a similarity between 0 and 1.
func Cosine(similarity float64, s Scale) float64 {
	return s.P50 + (similarity-0.2)/0.42*(s.P99-s.P50)
}

// knownLanguages returns the codes of the languages whose sentences a model tells apart, by the vectors of the 32. It does
// not if they are nearer to being the same than those of the language that it knows best.
func knownLanguages(vectors [][]float32) []string {
	medians := make([]float64, len(languageCodes))
	for n := range languageCodes {
		medians[n] = 1
		if cosines := cosinesOf(vectors[n*perLanguage : (n+1)*perLanguage]); cosines != nil {
			medians[n] = percentile(cosines, .5)
		}
	}
	var known []string
	for n, code := range languageCodes {
		if medians[n] <= (1+slices.Min(medians))/2 {
			known = append(known, code)
		}
	}
	return known
}

// sentencesOf returns the sentences of some languages, the further ones as well.
func sentencesOf(codes []string) []string {
	first, more := lines(unrelated), strings.Split(strings.TrimSpace(unrelatedMore), "\n\n")
	var all []string
	for n, code := range languageCodes {
		if slices.Contains(codes, code) {
			all = append(all, first[n*perLanguage:(n+1)*perLanguage]...)
			all = append(all, lines(more[n])...)
		}
	}
	return all
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// cosinesOf returns the cosines of all pairs, sorted; nil if one has no vector.
func cosinesOf(vectors [][]float32) []float64 {
	var cosines []float64
	for n, a := range vectors {
		if a == nil {
			return nil
		}
		for _, b := range vectors[:n] {
			cosines = append(cosines, Dot(a, b))
		}
	}
	slices.Sort(cosines)
	return cosines
}

// scaleOf measures a scale on the vectors of unrelated sentences.
func scaleOf(vectors [][]float32) (Scale, error) {
	cosines := cosinesOf(vectors)
	if cosines == nil {
		return Scale{}, unusable("it has no vector for an ordinary sentence")
	}
	scale := Scale{P50: percentile(cosines, .5), P99: percentile(cosines, .99), List: SentenceList}
	if scale.P99-scale.P50 < leastSpread {
		return Scale{}, unusable(fmt.Sprintf("all unrelated sentences are equally alike to it (median %.4f, 99th percentile %.4f)", scale.P50, scale.P99))
	}
	return scale, nil
}

func unusable(why string) error {
	return fault.Wrap(fault.UpstreamFailed, "The embedding model cannot be used.", fmt.Errorf("%s: see EMBEDDING_MODEL", why))
}

// Dot is the product of two vectors: of unit length, their cosine.
func Dot(a, b []float32) float64 {
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
	// ReadScale returns a model's scale, perhaps of an older list of sentences, and false if it was not measured yet.
	ReadScale(ctx context.Context, model string) (Scale, bool, error)
	// SaveScale keeps a scale instead of one of an older list. If another server was first, its scale remains.
	SaveScale(ctx context.Context, model string, scale Scale) error
}

// Scales returns the scale of one embedder's model. It is safe for concurrent use.
type Scales struct {
	store    ScaleStore
	embedder Embedder
	ofTurns  bool

	// measuring is held while the model is asked, mu never: who only wants to know the scale waits for no model.
	measuring *semaphore.Weighted
	mu        sync.Mutex
	scale     Scale // zero until it is known
}

// NewScales returns the scales of an embedder's model for sentences and questions.
func NewScales(store ScaleStore, embedder Embedder) *Scales {
	return &Scales{store: store, embedder: embedder, measuring: semaphore.NewWeighted(1)}
}

// NewTurnScales returns the scales of an embedder's model for whole turns. Two turns about different things are more alike
// to a model than two sentences: both name the speakers, and both are a message and its reply.
func NewTurnScales(store ScaleStore, embedder Embedder) *Scales {
	return &Scales{store: store, embedder: embedder, ofTurns: true, measuring: semaphore.NewWeighted(1)}
}

// key is the name under which the scale is stored.
func (s *Scales) key() string {
	if s.ofTurns {
		return "turns of " + s.embedder.Model()
	}
	return s.embedder.Model()
}

// Known returns the scale, and false if it was not measured yet: then no turn has a vector of the model either, unless the scale is of an
// older list of sentences.
func (s *Scales) Known(ctx context.Context) (Scale, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scale != (Scale{}) {
		return s.scale, true, nil
	}
	scale, found, err := s.store.ReadScale(ctx, s.key())
	found = found && err == nil && scale.List >= SentenceList
	if found {
		s.scale = scale
	}
	return scale, found, err
}

// Measured returns the scale, and measures it first if needed. A model that cannot be used is a *fault.Error with an
// upstream code.
func (s *Scales) Measured(ctx context.Context) (Scale, error) {
	if err := s.measuring.Acquire(ctx, 1); err != nil {
		return Scale{}, err
	}
	defer s.measuring.Release(1)
	scale, found, err := s.Known(ctx)
	if found || err != nil {
		return scale, err
	}
	measure := s.measure
	if s.ofTurns {
		measure = s.measureTurns
	}
	if scale, err = measure(ctx); err != nil {
		return Scale{}, err
	}
	if err := s.store.SaveScale(ctx, s.key(), scale); err != nil {
		return Scale{}, err
	}
	scale, _, err = s.Known(ctx) // the stored one, for all servers
	return scale, err
}

// measure asks the model for the 32 sentences and, if it does not know all of their languages, for more of those that it
// knows.
func (s *Scales) measure(ctx context.Context) (Scale, error) {
	const doing = "measure the embedding model"
	vectors, err := s.embedder.Embed(ctx, For{}, lines(unrelated))
	if err != nil {
		return Scale{}, fmt.Errorf("%s: %w", doing, err)
	}
	known := knownLanguages(vectors)
	if len(known) == len(languageCodes) {
		return scaleOf(vectors)
	}
	if vectors, err = s.embedder.Embed(ctx, For{}, sentencesOf(known)); err != nil {
		return Scale{}, fmt.Errorf("%s: %w", doing, err)
	}
	scale, err := scaleOf(vectors)
	scale.Languages = strings.Join(known, " ")
	return scale, err
}

// measureTurns asks the model for turns that are made of the sentences of its scale, two by two.
func (s *Scales) measureTurns(ctx context.Context) (Scale, error) {
	sentences, err := NewScales(s.store, s.embedder).Measured(ctx)
	if err != nil {
		return Scale{}, err
	}
	texts := lines(unrelated)
	if sentences.Languages != "" {
		texts = sentencesOf(strings.Fields(sentences.Languages))
	}
	var turns []string
	for pair := range slices.Chunk(texts, 2) {
		text, _ := TurnText([]memory.Message{{Role: memory.RoleUser, Content: pair[0]}, {Role: memory.RoleAssistant, Content: pair[len(pair)-1]}})
		turns = append(turns, text)
	}
	vectors, err := s.embedder.Embed(ctx, For{}, turns)
	if err != nil {
		return Scale{}, fmt.Errorf("measure the embedding model's turns: %w", err)
	}
	scale, err := scaleOf(vectors)
	scale.Languages = sentences.Languages
	return scale, err
}

// Outdated reports whether the model's scale is that of an older list of sentences.
func (s *Scales) Outdated(ctx context.Context) (bool, error) {
	scale, known, err := s.Known(ctx)
	return !known && scale != (Scale{}), err
}
