package offline

import (
	"encoding/json"
	"slices"
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
	if got := response.Header.Get("X-Throughline-Model"); got != "offline" {
		t.Errorf("model header %q", got)
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
	want := map[string]any{"throughline_model": "offline", "purpose": "test"}
	if diff := cmp.Diff(want, last["metadata"]); diff != "" {
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

// The ways to tell a text: each has the whole of it in its last event.
func TestOtherWaysToTellAText(t *testing.T) {
	t.Parallel()
	item := fullSequence[2:8] // from output_item.added to output_item.done
	for _, c := range []struct {
		answer Answer
		want   []string
		texts  []string // of the items
	}{
		{Answer{Fault: FaultTwoItems, FaultAfter: 2}, slices.Concat(fullSequence[:2], item, item, fullSequence[8:]), []string{"one two ", "three four"}},
		{Answer{Fault: FaultTwoItems}, fullSequence, []string{fourWords}},
		{Answer{Fault: FaultTwoItems, FaultAfter: 9}, fullSequence, []string{fourWords}},
		{Answer{Fault: FaultNoDeltas}, slices.Concat(fullSequence[:4], fullSequence[5:]), []string{fourWords}},
		{Answer{Fault: FaultOnlyEnd}, slices.Concat(fullSequence[:2], fullSequence[8:]), []string{fourWords}},
	} {
		c.answer.Text = fourWords
		_, raw := ask(t, faulty(t, c.answer), body(t, map[string]any{"stream": true}))
		all := events(t, raw)
		if diff := cmp.Diff(c.want, names(all)); diff != "" {
			t.Errorf("%s: %s", c.answer.Fault, diff)
		}
		if got := textsOf(all[len(all)-1].data); !slices.Equal(got, c.texts) {
			t.Errorf("%s: the items say %q, want %q", c.answer.Fault, got, c.texts)
		}
	}
}

// textsOf are the texts of the items in a last event.
func textsOf(event map[string]any) []string {
	var texts []string
	response, _ := event["response"].(map[string]any)
	items, _ := response["output"].([]any)
	for _, item := range items {
		content, _ := item.(map[string]any)["content"].([]any)
		for _, part := range content {
			text, _ := part.(map[string]any)["text"].(string)
			texts = append(texts, text)
		}
	}
	return texts
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
