package system

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestFirstAndFollowUpStreamWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	first := r.Say("", "My cello teacher is called Ilse. We meet on Tuesdays.")
	second := r.Say(first.ChatID, "What is my teacher called?")
	if second.ChatID != first.ChatID || !strings.Contains(second.Text, "Ilse") {
		t.Errorf("the second reply does not know the first turn: %q", second.Text)
	}
	for _, got := range []testkit.Said{first, second} {
		if row := r.stored(got.MessageID); row != (messageRow{role: "assistant", status: "complete", content: got.Text}) {
			t.Errorf("stored: %+v, streamed: %q", row, got.Text)
		}
		if got.Start.Data["resumed"] != false || got.End.Data["finish_reason"] != "stop" ||
			int(got.End.Data["content_length"].(float64)) != len([]rune(got.Text)) {
			t.Errorf("started %v, ended %v", got.Start.Data, got.End.Data)
		}
	}
	receipt := second.End.Data["memory"].(map[string]any)
	if receipt["tail_turns"] != 1.0 || receipt["dropped_turns"] != 0.0 || receipt["truncated"] != false {
		t.Errorf("the receipt is %v", receipt)
	}
	if got := testkit.Ask[string](t, r.pool, "select title from chats where id = $1", uuid.MustParse(first.ChatID)); got == "" {
		t.Error("the chat has no title")
	}
}

func TestVariantsShareOneMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"MODEL_VARIANTS": "arco=model-a,arco-pro=model-b,deep-dive=model-c"})
	chatID := r.Send("", testkit.Body{"content": "My dog is called Bello.", "model_variant": "deep-dive"}).Rest().ChatID
	second := r.Send(chatID, testkit.Body{"content": "What is my dog called?", "model_variant": "arco-pro"}).Rest()
	third := r.Say(chatID, "And what is my dog called again?")
	for _, got := range []testkit.Said{second, third} {
		if !strings.Contains(got.Text, "Bello") {
			t.Errorf("%v does not know: %q", got.End.Data["model_variant"], got.Text)
		}
	}
	var models []string
	for _, request := range r.model.Asked(offline.KindReply) {
		models = append(models, request.Model)
		if request.Store || request.PromptCacheKey != chatID || len(request.SafetyIdentifier) != 64 || !request.Stream {
			t.Errorf("the call carries store %v, cache key %q, safety identifier %q", request.Store, request.PromptCacheKey, request.SafetyIdentifier)
		}
	}
	if got := strings.Join(models, " "); got != "model-c model-b model-a" {
		t.Errorf("asked %q", got)
	}
	if got := testkit.Ask[string](t, r.pool,
		`select string_agg(metadata ->> 'model_variant', ' ' order by seq) from messages where role = 'assistant'`); got != "deep-dive arco-pro arco" {
		t.Errorf("stored variants %q", got)
	}
}

// heldText is the reply of holdReplies.
const heldText = "This is a reply of several words."

// holdReplies is a model that sends one word of each reply and then waits for the gate.
func holdReplies(gate <-chan struct{}) testkit.Script { return testkit.HeldReply(heldText, 1, gate) }

func isDelta(e testkit.Event) bool { return e.Name == testkit.Delta }
