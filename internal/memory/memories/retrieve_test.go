package memories

import (
	"context"
	"errors"
	"testing"

	"github.com/arcoscribe/throughline/internal/auth"
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

func (d *drawer) Candidates(_ context.Context, _ auth.Principal, ask Ask) ([]Candidate, error) {
	d.trips++
	var found []Candidate
	if d.words {
		found = append(found, candidateOf("by words", func(c *Candidate) { c.Words, c.Rarest = 5, 1 }))
	}
	if d.meaning && ask.Vector.Values != nil {
		found = append(found, candidateOf("by meaning", func(c *Candidate) { c.Cosine, c.HasCosine = .8, true }),
			candidateOf("far", func(c *Candidate) { c.Cosine, c.HasCosine = .4, true }))
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

func (v vectors) Embed(context.Context, []string) ([][]float32, error) {
	if v.failure != nil {
		return nil, v.failure
	}
	return [][]float32{{1}}, nil
}

func TestRetrieve(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store drawer
		text  string
		want  string
		trips int
		fails bool
	}{
		"small talk asks nothing":                 {drawer{words: true, meaning: true}, "ok, thanks", "", 0, false},
		"meaning, where words find nothing":       {drawer{meaning: true}, "Which bow?", "by meaning", 2, false},
		"nothing":                                 {drawer{}, "Which bow?", "", 2, false},
		"a language that the model does not read": {drawer{meaning: true, languages: "en"}, "Welcher Bogen ist das?", "", 1, false},
		"one that it reads":                       {drawer{meaning: true, languages: "en"}, "Which bow is that?", "by meaning", 2, false},
		"the embedder fails":                      {drawer{meaning: true, failure: errors.New("away")}, "Which bow?", "", 1, true},
	} {
		store := &c.store
		r := New(Config{Store: store, Embedder: vectors{store}, Scales: recall.NewScales(store, vectors{store}), NearEnough: .7, Top: 5})
		found, err := r.Retrieve(t.Context(), auth.Principal{}, Query{Text: c.text, Now: now})
		got := ""
		for i := range found {
			got += found[i].Content
		}
		if got != c.want || store.trips != c.trips || (err != nil) != c.fails {
			t.Errorf("%s: %q in %d trips, %v", name, got, store.trips, err)
		}
	}
}

// The vector is not waited for where words have found something: its failure does no harm.
func TestRetrieveByWordsNeedsNoVector(t *testing.T) {
	t.Parallel()
	store := &drawer{words: true, failure: errors.New("away")}
	for name, config := range map[string]Config{
		"without an embedder": {Store: store, Top: 5},
		"with one that fails": {Store: store, Embedder: vectors{store}, Scales: recall.NewScales(store, vectors{store}), NearEnough: .7, Top: 5},
	} {
		found, err := New(config).Retrieve(t.Context(), auth.Principal{}, Query{Text: "Which bow?", Now: now})
		if err != nil || len(found) != 1 || found[0].Content != "by words" {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}
