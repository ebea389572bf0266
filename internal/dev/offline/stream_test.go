package offline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var fullSequence = []string{
	"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
	"response.output_text.delta", "response.output_text.done", "response.content_part.done",
	"response.output_item.done", "response.completed",
}

func TestStreamHasEveryEventInOrder(t *testing.T) {
	t.Parallel()
	const said = "Déjà vu, \"quoted\"\tand\nsplit: " +
		"日本語のとても長い文章は空白なしで続いていきますので途中で分けられます 🎉."
	l := start(t, Options{Script: say(said)})
	response, raw := ask(t, l, body(t, map[string]any{"stream": true, "metadata": map[string]any{"purpose": "test"}}))
	if got := response.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	all := events(t, raw)
	if diff := cmp.Diff(fullSequence, names(all)); diff != "" {
		t.Error(diff)
	}
	for n, e := range all {
		if e.data["type"] != e.name || e.data["sequence_number"] != float64(n) {
			t.Errorf("event %d: %v, number %v", n, e.data["type"], e.data["sequence_number"])
		}
	}
	if got := deltas(all); got != said {
		t.Errorf("deltas add up to %q", got)
	}
	last, _ := all[len(all)-1].data["response"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"purpose": "test"}, last["metadata"]); diff != "" {
		t.Error(diff)
	}
	final, err := json.Marshal(last)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, final); got != said {
		t.Errorf("the final response says %q", got)
	}
}

func TestUsageIsCounted(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: say("One two three.")})
	_, raw := ask(t, l, body(t, map[string]any{"input": "Hello there.", "instructions": "Be kind."}))
	var response struct{ Usage usageObject }
	if err := json.Unmarshal(raw, &response); err != nil {
		t.Fatal(err)
	}
	u := response.Usage
	if u.InputTokens != countTokens("Be kind.\nHello there.") || u.OutputTokens != countTokens("One two three.") ||
		u.TotalTokens != u.InputTokens+u.OutputTokens {
		t.Errorf("%+v", u)
	}
}

func TestMaxOutputTokensCutsTheReply(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: say(strings.Repeat("word ", 100))})
	_, raw := ask(t, l, body(t, map[string]any{"stream": true, "max_output_tokens": 20}))
	all := events(t, raw)
	last := all[len(all)-1]
	response, _ := last.data["response"].(map[string]any)
	if last.name != "response.incomplete" || response["status"] != "incomplete" ||
		!cmp.Equal(response["incomplete_details"], map[string]any{"reason": "max_output_tokens"}) {
		t.Errorf("%s: %v", last.name, response["incomplete_details"])
	}
	if got := countTokens(deltas(all)); got > 20 || got < 15 {
		t.Errorf("%d tokens", got)
	}
}

func TestPiecesAddUp(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", " ", "a", "a b  c\n\nd ", strings.Repeat("ä", 100), "   lead"} {
		pieces := splitPieces(said)
		if got := strings.Join(pieces, ""); got != said {
			t.Errorf("%q became %q", said, pieces)
		}
	}
	if diff := cmp.Diff([]string{"One ", "two\n", "three."}, splitPieces("One two\nthree.")); diff != "" {
		t.Error(diff)
	}
}
