package longterm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// drawer is a store of one memory with the words, and one with the meaning of every message, and the embedder and the
// scale of its vectors.
type drawer struct {
	words, meaning bool
	languages      string
	failure        error
	trips          int
}

func (d *drawer) Candidates(_ context.Context, _ auth.Principal, ask Ask) ([]Found, error) {
	d.trips++
	var found []Found
	if d.words {
		found = append(found, foundOf("by words", func(c *Found) { c.Words, c.Rarest = 5, 1 }))
	}
	if d.meaning && ask.Vector.Values != nil {
		found = append(found, foundOf("by meaning", func(c *Found) { c.Cosine, c.HasCosine = .8, true }),
			foundOf("far", func(c *Found) { c.Cosine, c.HasCosine = .4, true }))
	}
	return found, nil
}

func (d *drawer) Model() string { return "m" }

func (d *drawer) ReadScale(context.Context, string) (recall.Scale, bool, error) {
	return recall.Scale{P50: .2, P99: .6, Languages: d.languages, List: recall.SentenceList}, true, nil
}

func (d *drawer) SaveScale(context.Context, string, recall.Scale) error { return nil }

// vectors makes a vector of every text.
type vectors struct{ *drawer }

func (v vectors) Embed(context.Context, recall.For, []string) ([][]float32, error) {
	if v.failure != nil {
		return nil, v.failure
	}
	return [][]float32{{1}}, nil
}

func questions(store *drawer) *recall.Questions {
	return &recall.Questions{Embedder: vectors{store}, Scales: recall.NewScales(store, vectors{store})}
}

// many are too many memories to be shown without a search.
var many = memory.Memories{On: true, Active: 300}

func TestRetrieve(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store drawer
		text  string
		want  string
		trips int
		fails bool
	}{
		"no word but function words asks nothing": {drawer{words: true, meaning: true}, "What is it that you are?", "", 0, false},
		"words of any chat are words of memories": {drawer{words: true}, "What is my name?", "by words", 1, false},
		"meaning, where words find nothing":       {drawer{meaning: true}, "Which bow?", "by meaning", 2, false},
		"nothing":                                 {drawer{}, "Which bow?", "", 2, false},
		"a language that the model does not read": {drawer{meaning: true, languages: "en"}, "Welcher Bogen ist das?", "", 1, false},
		"one that it reads":                       {drawer{meaning: true, languages: "en"}, "Which bow is that?", "by meaning", 2, false},
		"the embedder fails":                      {drawer{meaning: true, failure: errors.New("away")}, "Which bow?", "", 1, true},
	} {
		store := &c.store
		r := NewRetriever(RetrieverConfig{Store: store, Questions: questions(store)})
		found, err := r.Retrieve(t.Context(), auth.Principal{}, Query{Text: c.text, Known: many, Now: now})
		got := contents(found)
		assert.Truef(t, got == c.want && store.trips == c.trips && (err != nil) == c.fails,
			"%s: %q in %d trips, %v", name, got, store.trips, err)
	}
}

// The vector is not waited for where words have found something: its failure does no harm.
func TestRetrieveByWordsNeedsNoVector(t *testing.T) {
	t.Parallel()
	store := &drawer{words: true, failure: errors.New("away")}
	for name, config := range map[string]RetrieverConfig{
		"without an embedder": {Store: store},
		"with one that fails": {Store: store, Questions: questions(store)},
	} {
		found, err := NewRetriever(config).Retrieve(t.Context(), auth.Principal{}, Query{Text: "Which bow?", Known: many, Now: now})
		assert.Truef(t, err == nil && contents(found) == "by words", "%s: %v, %v", name, found, err)
	}
}

// All memories are shown without a search as long as they fit, whatever the message says.
func TestAFewMemoriesAreAllShown(t *testing.T) {
	t.Parallel()
	few := memory.Memories{On: true, Active: 2, First: []memory.Remembered{{Content: "Is called Ada."}, {Content: "Has a dog named Bruno."}}}
	store := &drawer{words: true, meaning: true, failure: errors.New("away")}
	r := NewRetriever(RetrieverConfig{Store: store, Questions: questions(store)})
	for _, message := range []string{"What is my name?", "What is my pet called?", "Wie heiße ich?", "ok, thanks", "", "?!"} {
		found, err := r.Retrieve(t.Context(), auth.Principal{}, Query{Text: message, Known: few, Now: now})
		assert.Truef(t, err == nil && contents(found) == "Is called Ada. Has a dog named Bruno." && store.trips <= 0,
			"%q: %v, %v in %d trips", message, found, err, store.trips)
	}
	tight := NewRetriever(RetrieverConfig{Store: store, Tokens: 10})
	found, err := tight.Retrieve(t.Context(), auth.Principal{}, Query{Text: "Which bow?", Known: few, Now: now})
	assert.Truef(t, err == nil && contents(found) == "by words", "where they do not fit: %v, %v", found, err)
}

// A search that fails takes nothing away of what is shown whatever the message is about.
func TestASearchThatFailsHidesNothing(t *testing.T) {
	t.Parallel()
	known := memory.Memories{On: true, Active: 300, First: []memory.Remembered{{Content: "Is called Ada.", Durable: true}, {Content: "Rents a flat."}}}
	store := &drawer{failure: errors.New("away")}
	r := NewRetriever(RetrieverConfig{Store: store, Questions: questions(store)})
	found, err := r.Retrieve(t.Context(), auth.Principal{}, Query{Text: "Which bow?", Known: known, Now: now})
	assert.Truef(t, err != nil && contents(found) == "Is called Ada.", "%v, %v", found, err)
}

func contents(found []memory.Remembered) string {
	var all []string
	for i := range found {
		all = append(all, found[i].Content)
	}
	return strings.Join(all, " ")
}
