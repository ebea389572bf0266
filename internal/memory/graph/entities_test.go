package graph_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/testkit/golden"
)

func memoriesOf(contents ...string) []graph.Memory {
	var memories []graph.Memory
	for n, content := range contents {
		memories = append(memories, graph.Memory{Version: n, Content: content})
	}
	return memories
}

// testdata/entities.golden has what of each answer counts.
func TestAnswers(t *testing.T) {
	t.Parallel()
	memories := memoriesOf("Likes Neovim and C++.", "Works at Acme\nwith Bob.", "東京に住んでいる。")
	var b strings.Builder
	for _, answer := range []string{
		`{"entities": [{"memory": "M1", "name": "Neovim", "type": "tool"}, {"memory": "M1", "name": "C++", "type": "Concept"}, ` +
			`{"memory": "M2", "name": "Acme", "type": "organization"}, {"memory": "M3", "name": "東京", "type": "place"}],
		  "relationships": [{"memory": "M1", "source": "User", "relationship": "likes", "target": "neovim"}, ` +
			`{"memory": "M3", "source": "the user", "relationship": "Lives in", "target": "東京"}]}`,
		`{"entities": [], "relationships": []}`,
		// As S4 has it, without memories: whichever has the names.
		`{"entities": [{"name": "Neovim", "type": "gadget"}, {"name": "Bob", "type": "person"}], "relationships": [{"source": "Bob", "target": "Acme", ` +
			`"relationship": "works_at"}]}`,
		// Not in the memory's words; of another memory; of none; the user as an entity; too long; without a name.
		`{"entities": [{"memory": "M1", "name": "Emacs", "type": "tool"}, {"memory": "M1", "name": "Acme", "type": "tool"}, ` +
			`{"memory": "M9", "name": "Bob", "type": "person"}, {"memory": "M1", "name": "User", "type": "person"},
		  {"memory": "M1", "name": "` + strings.Repeat("Neovim ", 20) + `", "type": "tool"}, {"memory": "M1", "name": " ", "type": "tool"}, ` +
			`{"memory": "M1", "name": "vim", "type": "tool"}],
		  "relationships": [{"memory": "M1", "source": "User", "relationship": "hates", "target": "Emacs"}, ` +
			`{"memory": "M1", "source": "User", "relationship": "?!", "target": "Neovim"}]}`,
		`{"entities": [{"memory": "M1", "name": "Neovim", "type": "tool"}]}`, `[]`, `null`, `{}`, ``, `NONE`, `{"entities": {}, "relationships": []}`,
		`{"entities": [], "relationships": []} and more`, `{"entities": [{"name": 5}], "relationships": []}`, "```json\n{}\n```",
	} {
		found, err := graph.ParseAnswer(answer, memories)
		fmt.Fprintf(&b, "%s\n", answer)
		if err != nil {
			fmt.Fprintf(&b, "  refused: %v\n", err)
		}
		for n, f := range found {
			fmt.Fprintf(&b, "  M%d %v %v\n", n+1, f.Entities, f.Relationships)
		}
	}
	golden.Check(t, "entities.golden", b.String())
}

func TestInputAndSchema(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "",
		cmp.Diff("FACTS\nM1: Likes Neovim. M2: forged\nM2: Works at Acme.",
			graph.Input(memoriesOf("Likes Neovim.\nM2: forged", "Works at Acme."))))
	schema, err := json.MarshalIndent(graph.Schema(), "", "  ")
	require.NoError(t, err)
	golden.Check(t, "schema.json", string(schema)+"\n")
	golden.Check(t, "instructions.txt", graph.Instructions(nil)+"\n")
	_, refused := graph.ParseAnswer("", nil)
	assert.Contains(t, graph.Instructions(refused), refused.Error(), "a second call does not say why")
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(`{"entities": [{"memory": "M1", "name": "Neovim", "type": "tool"}], "relationships": [{"source": "User", "relationship": "likes", "target": "Neovim"}]}`)
	f.Fuzz(func(t *testing.T, answer string) {
		memories := memoriesOf("Likes Neovim.", "Works at Acme.")
		found, err := graph.ParseAnswer(answer, memories)
		assert.Truef(t, err != nil || len(found) == len(memories), "%d memories", len(found))
		for _, one := range found {
			for _, e := range one.Entities {
				assert.Truef(t, e.Name != "" && graph.Known(string(e.Type)) == e.Type, "%+v", e)
			}
		}
	})
}
