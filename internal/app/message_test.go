package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/offline"
)

func TestFirstAndFollowUpStreamWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	first := r.say("", "My cello teacher is called Ilse. We meet on Tuesdays.")
	second := r.say(first.chatID, "What is my teacher called?")
	if second.chatID != first.chatID || !strings.Contains(second.text, "Ilse") {
		t.Errorf("the second reply does not know the first turn: %q", second.text)
	}
	for _, got := range []said{first, second} {
		if row := r.stored(got.messageID); row != (messageRow{role: "assistant", status: "complete", content: got.text}) {
			t.Errorf("stored: %+v, streamed: %q", row, got.text)
		}
		if got.started.data["resumed"] != false || got.end.data["finish_reason"] != "stop" ||
			int(got.end.data["content_length"].(float64)) != len([]rune(got.text)) {
			t.Errorf("started %v, ended %v", got.started.data, got.end.data)
		}
	}
	receipt := second.end.data["memory"].(map[string]any)
	if receipt["tail_turns"] != 1.0 || receipt["dropped_turns"] != 0.0 || receipt["truncated"] != false {
		t.Errorf("the receipt is %v", receipt)
	}
	if got := ask[string](r, "select title from chats where id = $1", uuid.MustParse(first.chatID)); got == "" {
		t.Error("the chat has no title")
	}
}

func TestWholeReplyAsJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	got := r.call(r.node, http.MethodPost, "/v1/message/first", body{"content": "I live in Graz."}, "Accept", "application/json")
	reply := got.json(t)
	if got.status != http.StatusOK || reply["finish_reason"] != "stop" || reply["content"] == "" {
		t.Fatalf("%d %s", got.status, got.raw)
	}
	if row := r.stored(reply["message_id"].(string)); row.content != reply["content"] || row.status != "complete" {
		t.Errorf("stored: %+v, answered: %v", row, reply)
	}
}

// A phone that is gone changes nothing: the reply is made to its end and stored, and the fold it calls for runs.
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
	chatID := r.say("", "My cello teacher is called Ilse.").chatID

	s := r.openMessage(r.node, chatID, body{"content": "Tell me about a scale."})
	s.until(func(e event) bool { return e.name == "content.delta" })
	messageID := s.events[0].data["message_id"].(string)
	s.close()
	close(gate)
	if row := r.awaitEnded(messageID); row.status != "complete" || row.content != long {
		t.Errorf("stored: status %s, %d of %d characters", row.status, len(row.content), len(long))
	}
	within(t, "the chat is folded", func() bool {
		return ask[int64](r, "select version from conversation_briefs where chat_id = $1", uuid.MustParse(chatID)) == 1
	})
	if got := r.say(chatID, "What is my teacher called?"); !strings.Contains(got.text, "Ilse") {
		t.Errorf("forgotten: %q", got.text)
	}
}

func TestVariantsShareOneMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"MODEL_VARIANTS": "arco=model-a,arco-pro=model-b,deep-dive=model-c"})
	chatID := r.openMessage(r.node, "", body{"content": "My dog is called Bello.", "model_variant": "deep-dive"}).rest().chatID
	second := r.openMessage(r.node, chatID, body{"content": "What is my dog called?", "model_variant": "arco-pro"}).rest()
	third := r.say(chatID, "And what is my dog called again?")
	for _, got := range []said{second, third} {
		if !strings.Contains(got.text, "Bello") {
			t.Errorf("%v does not know: %q", got.end.data["model_variant"], got.text)
		}
	}
	var models []string
	for _, request := range r.asked(offline.KindReply) {
		models = append(models, request.Model)
		if request.Store || request.PromptCacheKey != chatID || len(request.SafetyIdentifier) != 64 || !request.Stream {
			t.Errorf("the call carries store %v, cache key %q, safety identifier %q", request.Store, request.PromptCacheKey, request.SafetyIdentifier)
		}
	}
	if got := strings.Join(models, " "); got != "model-c model-b model-a" {
		t.Errorf("asked %q", got)
	}
	if got := ask[string](r, `select string_agg(metadata ->> 'model_variant', ' ' order by seq) from messages where role = 'assistant'`); got != "deep-dive arco-pro arco" {
		t.Errorf("stored variants %q", got)
	}
}

func TestSecondMessageWhileReplyRuns(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, gateReplies(gate), nil)
	s := r.openMessage(r.node, "", body{"content": "One."})
	started := s.until(func(e event) bool { return e.name == "content.delta" })
	chatID := s.events[0].data["chat_id"].(string)
	got := r.call(r.node, http.MethodPost, "/v1/message", body{"chat_id": chatID, "content": "Two."})
	if got.status != http.StatusConflict || got.json(t)["code"] != "generation_in_progress" ||
		got.json(t)["details"].(map[string]any)["message_id"] != started.data["message_id"] {
		t.Errorf("%d %s", got.status, got.raw)
	}
	close(gate)
	s.rest()
	if r.say(chatID, "Two."); ask[int](r, "select count(*) from messages") != 4 {
		t.Error("the refused message was stored")
	}
}

// gateReplies lets each reply say one piece and then wait for the gate.
func gateReplies(gate <-chan struct{}) func(*offline.Request) offline.Answer {
	return func(request *offline.Request) offline.Answer {
		if request.Kind != offline.KindReply {
			return offline.Answer{}
		}
		return offline.Answer{Text: "This is a reply of several words.", Gate: gate, GateAfter: 1}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		t.Run(map[bool]string{false: "here", true: "from another server"}[elsewhere], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, gateReplies(make(chan struct{})), nil)
			where := r.node
			if elsewhere {
				where = r.start(Role{API: true}, nil)
			}
			s := r.openMessage(r.node, "", body{"content": "Go on and on."})
			s.until(func(e event) bool { return e.name == "content.delta" })
			chatID := s.events[0].data["chat_id"].(string)
			got := r.call(where, http.MethodPost, "/v1/message/"+chatID+"/cancel", nil)
			if want := map[bool]string{false: "cancelled", true: "streaming"}[elsewhere]; got.status != http.StatusOK || got.json(t)["status"] != want {
				t.Errorf("%d %s, want status %s", got.status, got.raw, want)
			}
			end := s.rest()
			if row := r.stored(end.messageID); end.end.name != "message.cancelled" || row.status != "cancelled" || row.content != end.text || end.text == "" {
				t.Errorf("ended with %s, stored %+v", end.end.name, row)
			}
			request := r.asked(offline.KindReply)[0]
			r.awaitModel("the model is let go", func(a offline.Request) bool { return a.At.Equal(request.At) && a.HungUp })
		})
	}
}

func TestResumeOnAnotherServer(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, gateReplies(gate), nil)
	other := r.start(Role{API: true}, nil)
	s := r.openMessage(r.node, "", body{"content": "Speak."})
	delta := s.until(func(e event) bool { return e.name == "content.delta" })
	chatID, seen := s.events[0].data["chat_id"].(string), s.text
	s.close() // the phone sleeps

	resumed := r.open(other, http.MethodGet, "/v1/message/"+chatID+"/stream", nil, "Last-Event-ID", delta.id)
	resumed.until(func(e event) bool { return e.name == "message.started" && e.data["resumed"] == true })
	close(gate)
	end := resumed.rest()
	if want := "This is a reply of several words."; seen+end.text != want || end.end.name != "completion" {
		t.Errorf("%q and %q make no %q, ended with %s", seen, end.text, want, end.end.name)
	}
	// Once it is stored, any server replays it from any place.
	again := r.open(r.node, http.MethodGet, "/v1/message/"+chatID+"/stream?after=5", nil).rest()
	if again.text != "is a reply of several words." || again.end.name != "completion" {
		t.Errorf("replayed %q, %s", again.text, again.end.name)
	}
	if got := r.call(other, http.MethodGet, "/v1/message/"+chatID+"/stream", nil, "Last-Event-ID", again.end.id); got.status != http.StatusNoContent {
		t.Errorf("after the end: %d %s", got.status, got.raw)
	}
}

// What goes wrong at the model before its first word is a status, afterwards an event, and either way
// the row says so and the chat goes on.
func TestModelFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "10000000"}) // a line of a megabyte is not for folding here
	// Tries that follow a refusal take longer than the silence that this one waits for.
	impatient := r.start(Role{API: true}, env{"MODEL_IDLE_TIMEOUT": "3s"})
	for _, c := range []struct {
		directive string
		status    int    // before the first word
		code      string // of the failure
		finished  string // the reason, where it is none
	}{
		{directive: "401", status: 502, code: "upstream_failed"},
		{directive: "404", status: 502, code: "upstream_failed"},
		{directive: "500", status: 502, code: "upstream_failed"},
		{directive: "429=1", status: 503, code: "upstream_overloaded"},
		{directive: "503", status: 503, code: "upstream_overloaded"},
		{directive: "stall", status: 504, code: "upstream_timeout"},
		{directive: "hang", code: "upstream_timeout"},
		{directive: "cut", code: "upstream_failed"},
		{directive: "end_early", code: "upstream_failed"},
		{directive: "end_early=0", code: "upstream_failed"},
		{directive: "failed", code: "upstream_failed"},
		{directive: "error_event", code: "upstream_failed"},
		{directive: "incomplete", finished: "length"},
		{directive: "content_filter", finished: "content_filter"},
		{directive: "split", finished: "stop"},
		{directive: "crlf", finished: "stop"},
		{directive: "long_line=1", finished: "stop"},
		{directive: "invalid_utf8=1", finished: "stop"},
		{directive: "empty", finished: "stop"},
	} {
		t.Run(c.directive, func(t *testing.T) {
			t.Parallel()
			r := r.in(t)
			where := r.node
			if c.code == "upstream_timeout" {
				where = impatient
			}
			content := "I live in Graz and work in Linz. [[offline:" + c.directive + "]]"
			s, err := r.tryOpen(where, http.MethodPost, "/v1/message/first", body{"content": content})
			if err != nil {
				t.Fatal(err)
			}
			if c.status != 0 {
				r.checkRefused(s, c.status, c.code)
				return
			}
			got, err := s.tryRest()
			if err != nil {
				t.Fatal(err)
			}
			want := messageRow{role: "assistant", status: "complete", content: got.text, failure: c.code}
			if c.code != "" {
				want.status = "failed"
			}
			if row := r.stored(got.messageID); row != want {
				t.Errorf("stored %.200v, want %.200v", row, want)
			}
			if reason, _ := got.end.data["finish_reason"].(string); reason != c.finished {
				t.Errorf("ended with %v", got.end.data)
			}
			if code, _ := got.end.data["code"].(string); code != c.code {
				t.Errorf("ended with %v", got.end.data)
			}
			r.say(got.chatID, "And now?")
		})
	}
}

// checkRefused wants an HTTP error that names the stored, failed reply.
func (r *rig) checkRefused(s *stream, status int, code string) {
	t := r.t
	t.Helper()
	failed := answer{status: s.response.StatusCode, raw: readAll(s)}
	if failed.status != status || failed.json(t)["code"] != code {
		t.Fatalf("%d %s", failed.status, failed.raw)
	}
	details := failed.json(t)["details"].(map[string]any)
	if row := r.stored(details["message_id"].(string)); row != (messageRow{role: "assistant", status: "failed", failure: code}) {
		t.Errorf("stored %+v", row)
	}
	r.say(details["chat_id"].(string), "And now?")
}

func readAll(s *stream) string {
	var text strings.Builder
	for s.lines.Scan() {
		text.WriteString(s.lines.Text())
	}
	return text.String()
}

// A model that speaks at its own pace is streamed at that pace: each piece arrives before the next is made.
func TestEachPieceArrivesAtOnce(t *testing.T) {
	t.Parallel()
	gates := make(chan struct{})
	r := newRig(t, func(*offline.Request) offline.Answer {
		return offline.Answer{Text: "first second third", Gate: gates, GateAfter: 2}
	}, nil)
	s := r.openMessage(r.node, "", body{"content": "Slowly."})
	s.until(func(event) bool { return s.text == "first second " })
	close(gates)
	if got := s.rest(); got.text != "first second third" {
		t.Errorf("got %q", got.text)
	}
}
