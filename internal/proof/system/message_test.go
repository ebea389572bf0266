package system

import (
	"net/http"
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

func TestWholeReplyAsJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	got := r.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "I live in Graz."}, "Accept", "application/json")
	reply := got.JSON(t)
	if got.Status != http.StatusOK || reply["finish_reason"] != "stop" || reply["content"] == "" {
		t.Fatalf("%d %s", got.Status, got.Text)
	}
	if row := r.stored(reply["message_id"].(string)); row.content != reply["content"] || row.status != "complete" {
		t.Errorf("stored: %+v, answered: %v", row, reply)
	}
}

// After the client hangs up, the reply is generated to its end and stored, and its fold runs.
func TestReplyOfClientThatHangsUpIsSavedAndFolded(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	long := "The scale of C has seven notes. " + strings.Repeat("Practise it slowly with the metronome. ", 30)
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindReply && strings.Contains(request.Current, "scale") {
			return offline.Answer{Text: long, Gate: gate, GateAfter: 3}
		}
		return offline.Answer{}
	}, env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "120", "MEMORY_K_RAW_TURNS": "1"})
	chatID := r.Say("", "My cello teacher is called Ilse.").ChatID

	s := r.Send(chatID, testkit.Body{"content": "Tell me about a scale."})
	s.Until(isDelta)
	messageID := s.MessageID()
	s.Close()
	close(gate)
	if row := r.awaitEnded(messageID); row.status != "complete" || row.content != long {
		t.Errorf("stored: status %s, %d of %d characters", row.status, len(row.content), len(long))
	}
	testkit.Eventually(t, "the chat is folded", func() bool {
		return testkit.Ask[int64](t, r.pool, "select version from conversation_briefs where chat_id = $1", uuid.MustParse(chatID)) == 1
	})
	if got := r.Say(chatID, "What is my teacher called?"); !strings.Contains(got.Text, "Ilse") {
		t.Errorf("forgotten: %q", got.Text)
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
	if got := testkit.Ask[string](t, r.pool, `select string_agg(metadata ->> 'model_variant', ' ' order by seq) from messages where role = 'assistant'`); got != "deep-dive arco-pro arco" {
		t.Errorf("stored variants %q", got)
	}
}

func TestSecondMessageWhileReplyRuns(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, holdReplies(gate), nil)
	s := r.Send("", testkit.Body{"content": "One."})
	started := s.Until(isDelta)
	chatID := s.ChatID()
	got := r.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": chatID, "content": "Two."})
	if got.Status != http.StatusConflict || got.JSON(t)["code"] != "generation_in_progress" ||
		got.JSON(t)["details"].(map[string]any)["message_id"] != started.Data["message_id"] {
		t.Errorf("%d %s", got.Status, got.Text)
	}
	close(gate)
	s.Rest()
	if r.Say(chatID, "Two."); r.count("select count(*) from messages") != 4 {
		t.Error("the refused message was stored")
	}
}

// heldText is the reply of holdReplies.
const heldText = "This is a reply of several words."

// holdReplies is a model that sends one word of each reply and then waits for the gate.
func holdReplies(gate <-chan struct{}) testkit.Script { return testkit.HeldReply(heldText, 1, gate) }

func isDelta(e testkit.Event) bool { return e.Name == testkit.Delta }

// Each piece of a reply arrives before the next is generated.
func TestEachPieceArrivesAtOnce(t *testing.T) {
	t.Parallel()
	gates := make(chan struct{})
	r := newRig(t, func(*offline.Request) offline.Answer {
		return offline.Answer{Text: "first second third", Gate: gates, GateAfter: 2}
	}, nil)
	s := r.Send("", testkit.Body{"content": "Slowly."})
	s.Until(func(testkit.Event) bool { return s.Text == "first second " })
	close(gates)
	if got := s.Rest(); got.Text != "first second third" {
		t.Errorf("got %q", got.Text)
	}
}
