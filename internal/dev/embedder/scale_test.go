package embedder_test

import (
	"context"
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// unmeasured is a store without scales.
type unmeasured struct{ saved recall.Scale }

func (u *unmeasured) ReadScale(context.Context, string) (recall.Scale, bool, error) {
	return u.saved, u.saved != recall.Scale{}, nil
}

func (u *unmeasured) SaveScale(_ context.Context, _ string, scale recall.Scale) error {
	u.saved = scale
	return nil
}

// The model knows English alone, and tells there what is alike from what is not.
func TestItsScaleIsThatOfEnglish(t *testing.T) {
	t.Parallel()
	client := llm.NewEmbedder(llm.EmbedderConfig{BaseURL: start(t).BaseURL(), APIKey: "none", Model: embedder.Model})
	t.Cleanup(client.Close)
	scale, err := recall.NewScales(&unmeasured{}, client).Measured(t.Context())
	if err != nil || scale.Languages != "en" {
		t.Fatalf("%+v, %v", scale, err)
	}
	for _, c := range []struct {
		question, text string
		near           bool
	}{
		{"What is my dog called?", "The user has a dog named Bruno.", true},
		{"Which string instrument do I play?", "The user plays the cello.", true},
		{"How is the weather?", "The user plays the cello.", false},
		{"Which string instrument do I play?", "The user has a dog named Bruno.", false},
	} {
		vectors, err := client.Embed(t.Context(), recall.For{}, []string{c.question, c.text})
		if err != nil {
			t.Fatal(err)
		}
		cosine := 0.
		for n := range vectors[0] {
			cosine += float64(vectors[0][n]) * float64(vectors[1][n])
		}
		if got := recall.Similarity(cosine, scale); (got >= .7) != c.near {
			t.Errorf("%q and %q: %.2f", c.question, c.text, got)
		}
	}
}
