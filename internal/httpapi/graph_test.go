package httpapi

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/graph"
)

// graphStore answers every question with the same and keeps the last one.
type graphStore struct {
	asked history.GraphQuery
	found graph.Answer
	fails error
}

func (s *graphStore) ReadGraph(_ context.Context, _ auth.Principal, query history.GraphQuery) (graph.Answer, error) {
	s.asked = query
	return s.found, s.fails
}

func TestGraphIsAnswered(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store := &graphStore{found: graph.Answer{
		Entities: []graph.Node{{Name: "User", Type: graph.Person, Mentions: 2}, {Name: `Neo"vim`, Type: graph.Tool, Mentions: 1}},
		Relationships: []graph.Edge{{
			Source: "User", Relationship: "likes", Target: `Neo"vim`, Valid: true, ValidFrom: &since, MemoryID: uuid.MustParse(exampleReply),
		}},
	}}
	h := newHarness(t, says("x"), func(c *Config) { c.Graph = store })
	for path, want := range map[string]history.GraphQuery{
		"":                     {Depth: 1},
		"?entity=User&depth=3": {Entity: "User", Depth: 3},
		"?entity=%20Neovim%20": {Entity: "Neovim", Depth: 1},
		"?entity=&q=&type=":    {Depth: 1},
		"?relationship=lives_in&type=place&q=where+do+I+live": {Relationship: "lives_in", Type: "place", Text: "where do I live", Depth: 1},
		"?as_of=2026-03-01T10:00:00Z":                         {AsOf: "2026-03-01T10:00:00Z", Moment: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), Depth: 1},
		"?as_of=2026-03-01": {AsOf: "2026-03-01",
			Moment: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(-time.Microsecond), Depth: 1},
		"?format=json": {Format: "json", Depth: 1},
	} {
		answer := h.call(http.MethodGet, "/v1/graph"+path, "")
		if answer.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, answer.status, answer.body)
		}
		if diff := cmp.Diff(want, store.asked); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
		var got, want any
		answer.decode(t, &got)
		answered{body: []byte(`{"entities": [{"name": "User", "type": "person", "mentions": 2}, {"name": "Neo\"vim", "type": "tool", "mentions": 1}],
			"relationships": [{"source": "User", "relationship": "likes", "target": "Neo\"vim", "valid": true, "valid_from": "2026-03-01T00:00:00Z",
				"valid_to": null, "memory_id": "` + exampleReply + `"}]}`)}.decode(t, &want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	for format, want := range map[string][2]string{
		"mermaid": {"text/vnd.mermaid; charset=utf-8", "flowchart LR\n  n1[\"User\"]\n  n2[\"Neo#34;vim\"]\n  n1 -->|\"likes\"| n2\n"},
		"dot": {"text/vnd.graphviz; charset=utf-8", "digraph memories {\n  rankdir=LR;\n  node [shape=box];\n  n1 [label=\"User\"];\n  n2 [label=\"Neo\\\"vim\"];\n" +
			"  n1 -> n2 [label=\"likes\"];\n}\n"},
	} {
		answer := h.call(http.MethodGet, "/v1/graph?format="+format, "")
		if got := [2]string{answer.header.Get("Content-Type"), string(answer.body)}; answer.status != http.StatusOK || got != want {
			t.Errorf("%s: %d %q", format, answer.status, got)
		}
	}
	store.fails = fault.New(fault.NotReady, "Postgres does not answer.")
	if answer := h.call(http.MethodGet, "/v1/graph?format=dot", ""); answer.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", answer.status, answer.body)
	}
}
