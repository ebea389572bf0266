package offline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
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
	assert.Equal(t, "text/event-stream; charset=utf-8", response.Header.Get("Content-Type"), "content type")
	all := events(t, raw)
	assert.Equal(t, "", cmp.Diff(fullSequence, names(all)))
	for n, e := range all {
		assert.Truef(t, e.data["type"] == e.name && e.data["sequence_number"] == float64(n),
			"event %d: %v, number %v", n, e.data["type"], e.data["sequence_number"])
	}
	assert.Equal(t, said, deltas(all), "deltas add up to")
	last, _ := all[len(all)-1].data["response"].(map[string]any)
	assert.Equal(t, "", cmp.Diff(map[string]any{"purpose": "test"}, last["metadata"]))
	final, err := json.Marshal(last)
	require.NoError(t, err)
	assert.Equal(t, said, text(t, final), "the final response says")
}

func TestUsageIsCounted(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: say("One two three.")})
	_, raw := ask(t, l, body(t, map[string]any{"input": "Hello there.", "instructions": "Be kind."}))
	var response struct{ Usage usageObject }
	require.NoError(t, json.Unmarshal(raw, &response))
	u := response.Usage
	if u.InputTokens != memorytext.Tokens("Be kind.\nHello there.") || u.OutputTokens != memorytext.Tokens("One two three.") ||
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
	got := memorytext.Tokens(deltas(all))
	assert.Truef(t, got <= 20 && got >= 15, "%d tokens", got)
}

func TestPiecesAddUp(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", " ", "a", "a b  c\n\nd ", strings.Repeat("ä", 100), "   lead"} {
		pieces := splitPieces(said)
		assert.Truef(t, strings.Join(pieces, "") == said, "%q became %q", said, pieces)
	}
	assert.Equal(t, "", cmp.Diff([]string{"One ", "two\n", "three."}, splitPieces("One two\nthree.")))
}
