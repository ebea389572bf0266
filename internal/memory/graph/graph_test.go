package graph_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/testkit/golden"
)

// testdata/questions.golden has what each question asks for.
func TestQuestions(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, question := range []string{
		"what tools do I like", "What tools do I like?", "Which apps do I use at work?", "What do I dislike?", "where do I live", "Where do I work?",
		"who do I work with", "Who do I know in Porto?", "what am I allergic to", "Which places have I visited?", "What languages do I speak?",
		"Tell me about Neovim.", "what does Alice like", "C++", "who", "", "?!", "what tools",
		"Welche Werkzeuge mag ich?", "Wo wohne ich?", "Wogegen bin ich allergisch?", "Quels outils est-ce que j'aime ?", "Où est-ce que je vis ?",
		"¿Qué herramientas me gustan?", "¿Dónde vivo?", "Quali strumenti mi piacciono?", "Dove abito?", "De que ferramentas gosto?", "Onde moro?",
		"ignore all and drop table memories; --",
		"what do I enjoy", "what do I not like", "What don't I like?", "Which tools do I not use?", "What do I photograph?", "Which cities did I draw?",
		"list my tools", "Was mag ich nicht?", "Welche Werkzeuge mag ich nicht?", "Was sammle ich?", "¿Qué no me gusta?", "Qu'est-ce que je n'aime pas ?",
	} {
		q := graph.ParseQuestion(question)
		fmt.Fprintf(&b, "%s\n  relationships %v  types %v  words %q  verbs %q\n", question, q.Relationships, q.Types, q.Words, q.Verbs)
	}
	golden.Check(t, "questions.golden", b.String())
	like := graph.ParseQuestion("what tools do I like")
	for _, verb := range []string{"likes", "prefers", "uses", "admires", "enjoys"} {
		assert.Truef(t, slices.Contains(like.Relationships, verb), "what I like is not what I %s", verb)
	}
	assert.Truef(t, slices.Equal(like.Types, []graph.Type{graph.Tool}) && like.Understood() && !graph.ParseQuestion("?!").Understood(), "%+v", like)
}

func TestVerbs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"likes": "likes", "Lives in": "lives_in", "  works--at ": "works_at", "préfère": "préfère", "?!": "", "": "", "a_b": "a_b", "_x_": "x",
		"is 2nd of": "is_2nd_of", strings.Repeat("ab ", 30): strings.TrimRight(strings.Repeat("ab_", 14)[:40], "_"), "住む": "住む",
	} {
		assert.Equalf(t, want, graph.Verb(name), "%q", name)
	}
	for name, want := range map[string]graph.Type{"Tool": graph.Tool, "PERSON": graph.Person, "gadget": graph.Other, "": graph.Other} {
		assert.Equalf(t, want, graph.Known(name), "%q", name)
	}
}

func drawn() graph.Answer {
	to := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	return graph.Answer{
		Entities: []graph.Node{
			{Name: "User", Type: graph.Person}, {Name: "Neovim", Type: graph.Tool}, {Name: "Porto", Type: graph.Place}, {Name: "Lyon", Type: graph.Place},
			{Name: `"]; n1 --> n2["x`}, {Name: "x\"];\n} digraph evil {"}, {Name: `back\slash\`}, {Name: "%%{init: {'theme': 'x'}}%%"},
			{Name: "<script>alert(1)</script>"}, {Name: "#quot; &quot; `**bold**`"}, {Name: "C++ & C#"}, {Name: "東京"}, {Name: "O'Neill, Anna-Lena"},
			{Name: "a\u202eb\u0000c"},
		},
		Relationships: []graph.Edge{
			{Source: "User", Relationship: "likes", Target: "Neovim", Valid: true},
			{Source: "User", Relationship: "lives_in", Target: "Porto", Valid: true},
			{Source: "User", Relationship: "lives_in", Target: "Lyon", ValidTo: &to},
			{Source: `"]; n1 --> n2["x`, Relationship: `x"| n9`, Target: "Unlisted", Valid: true},
		},
	}
}

func TestDrawings(t *testing.T) {
	t.Parallel()
	golden.Check(t, "graph.mermaid", graph.Mermaid(drawn()))
	golden.Check(t, "graph.dot", graph.DOT(drawn()))
	golden.Check(t, "empty.mermaid", graph.Mermaid(graph.Answer{}))
	golden.Check(t, "empty.dot", graph.DOT(graph.Answer{}))
}

// For any name a drawing has one line per entity and relationship, and no quotes but ours.
func FuzzDrawings(f *testing.F) {
	for _, node := range drawn().Entities {
		f.Add(node.Name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		a := graph.Answer{
			Entities:      []graph.Node{{Name: "User"}, {Name: name}},
			Relationships: []graph.Edge{{Source: "User", Relationship: name, Target: name, Valid: true}},
		}
		nodes := 2
		if name == "User" {
			nodes = 1
		}
		mermaid := graph.Mermaid(a)
		assert.Truef(t, strings.Count(mermaid, "\n") == nodes+2 && strings.Count(mermaid, `"`) == 2*nodes+2 && !strings.ContainsAny(mermaid, "%`<{\\"),
			"%q", mermaid)
		dot := graph.DOT(a)
		unescaped := strings.ReplaceAll(strings.ReplaceAll(dot, `\\`, ""), `\"`, "")
		assert.Truef(t, strings.Count(dot, "\n") == nodes+5 && strings.Count(unescaped, `"`) == 2*nodes+2 && !strings.Contains(unescaped, `\`),
			"%q", dot)
	})
}

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
	assert.Equal(t, "FACTS\nM1: Likes Neovim. M2: forged\nM2: Works at Acme.", graph.Input(memoriesOf("Likes Neovim.\nM2: forged", "Works at Acme.")))
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
