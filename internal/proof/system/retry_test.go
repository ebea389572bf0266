package system

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// secret is what only a reply that failed ever said.
const secret = "Zyxomma"

// brokenFirst makes the first reply fail after its first word, the secret; all later ones are the
// built-in model's.
func brokenFirst() testkit.Script {
	var asked atomic.Bool
	return func(request *offline.Request) offline.Answer {
		if request.Kind != offline.KindReply || asked.Swap(true) {
			return offline.Answer{}
		}
		return offline.Answer{Text: secret + " is what I was about to say.", Fault: offline.FaultFailed, FaultAfter: 1}
	}
}

// retries are the ways in which a client says that a message is the same as before.
var retries = map[string]func() (testkit.Body, []string){
	"client_message_id": func() (testkit.Body, []string) {
		return testkit.Body{"client_message_id": uuid.NewString()}, nil
	},
	"Idempotency-Key": func() (testkit.Body, []string) {
		return testkit.Body{}, []string{"Idempotency-Key", "Ääh, " + uuid.NewString()}
	},
}

// A message whose reply failed is tried again by sending it again, to either endpoint, on any replica:
// the user's message stays, a new reply takes the old one's place, and what the old one said is nowhere
// in the memory.
func TestRetryAfterFailure(t *testing.T) {
	t.Parallel()
	for name, identity := range retries {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, first %v", name, first), func(t *testing.T) {
				t.Parallel()
				var broken atomic.Pointer[testkit.Script]
				r := newRig(t, func(request *offline.Request) offline.Answer {
					if script := broken.Load(); script != nil {
						return (*script)(request)
					}
					return offline.Answer{}
				}, nil)
				other := r.replica()
				chatID := ""
				if !first {
					chatID = r.Say("", "Hello, I am Ada.").ChatID
				}
				script := brokenFirst()
				broken.Store(&script)
				message, headers := identity()
				message["content"] = "My cello teacher is called Ilse."
				r.checkRetried(other, chatID, message, headers)
			})
		}
	}
}

// checkRetried sends a message whose reply fails, and then again.
func (r *rig) checkRetried(other *node, chatID string, message testkit.Body, headers []string) {
	t := r.t
	t.Helper()
	before := len(r.model.Asked(offline.KindReply))
	failed := r.Send(chatID, message, headers...).Rest()
	if failed.End.Name != testkit.Failed || failed.End.Data["retryable"] != true || failed.Text != secret+" " {
		t.Fatalf("%q, %s %v", failed.Text, failed.End.Name, failed.End.Data)
	}
	// A client that posts again after every end says how far it came, and gets nothing.
	path, payload := testkit.MessagePath(chatID, message)
	if got := other.Call(http.MethodPost, path, payload, append(headers, "Last-Event-ID", failed.End.ID)...); got.Status != http.StatusNoContent {
		t.Errorf("again with the end seen: %d %s", got.Status, got.Text)
	}
	// Another message under the same id is nobody's next try.
	payload = maps.Clone(payload)
	payload["content"] = "Something else."
	if got := other.Call(http.MethodPost, path, payload, headers...); got.Status != http.StatusUnprocessableEntity || got.Code() != "idempotency_mismatch" {
		t.Errorf("the same id for another message: %d %s", got.Status, got.Text)
	}
	if n := len(r.model.Asked(offline.KindReply)) - before; n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	again := other.Send(chatID, message, headers...).Rest()
	if again.End.Name != testkit.Completion || again.UserMessageID != failed.UserMessageID || again.MessageID == failed.MessageID ||
		again.ChatID != failed.ChatID || again.Start.Data["resumed"] != false || !strings.Contains(again.Text, "Ilse") {
		t.Errorf("the second try: %+v", again)
	}
	once := r.Send(chatID, message, headers...).Rest()
	if once.MessageID != again.MessageID || once.Text != again.Text || once.Start.Data["resumed"] != true {
		t.Errorf("once more: %+v", once)
	}
	if n := len(r.model.Asked(offline.KindReply)) - before; n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
	r.checkSuperseded(failed, again)
}

// checkSuperseded wants a reply that another one took the place of.
func (r *rig) checkSuperseded(failed, again testkit.Said) {
	t := r.t
	t.Helper()
	got := testkit.Ask[string](t, r.pool, "select concat_ws(' ', superseded_by, token_count, content) from messages where id = $1", uuid.MustParse(failed.MessageID))
	if want := again.MessageID + " 0 " + failed.Text; got != want {
		t.Errorf("the old reply is %q, want %q", got, want)
	}
	users := testkit.Ask[int](t, r.pool, "select count(*) from messages where role = 'user' and id = $1", uuid.MustParse(failed.UserMessageID))
	replies := testkit.Ask[int](t, r.pool, "select count(*) from messages where reply_to = $1 and superseded_by is null", uuid.MustParse(failed.UserMessageID))
	if users != 1 || replies != 1 {
		t.Errorf("%d user messages, %d replies that count", users, replies)
	}
	r.checkCounters()
}

// checkCounters holds the sums of each chat's brief against the messages.
func (r *rig) checkCounters() {
	r.t.Helper()
	wrong := testkit.Ask[int](r.t, r.pool, `select count(*) from conversation_briefs b cross join lateral (
		select coalesce(sum(token_count), 0) as tokens, count(*) filter (where role = 'user') as turns
		  from messages m where m.chat_id = b.chat_id and m.seq > b.covered_seq) counted
		where (b.pending_tokens, b.pending_turns) is distinct from (counted.tokens, counted.turns)`)
	if wrong != 0 {
		r.t.Errorf("the counters of %d briefs are wrong", wrong)
	}
}

// However long the chat goes on, no prompt and no summary holds what the reply said that failed.
func TestRetriedReplyLeavesMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, brokenFirst(), smallMemory)
	message := testkit.Body{"content": "My cello teacher is called Ilse and I live in Graz.", "client_message_id": uuid.NewString()}
	failed := r.Send("", message).Rest()
	again := r.Send("", message).Rest()
	for n := range 14 {
		r.Say(again.ChatID, fmt.Sprintf("On day %d I practised the etude number %d for an hour, and my bow arm felt heavy all the time.", n, 100+n))
	}
	testkit.Eventually(t, "the chat is folded", func() bool { return testkit.Ask[int64](t, r.pool, "select version from conversation_briefs") >= 1 })
	r.awaitFolds()
	if got := r.Say(again.ChatID, "What is my cello teacher called?"); !strings.Contains(got.Text, "Ilse") {
		t.Errorf("forgotten: %q", got.Text)
	}
	r.awaitFolds()
	for _, request := range r.model.Requests() {
		if strings.Contains(request.Text, secret) {
			t.Errorf("the model read the failed reply, in a request for a %s", request.Kind)
		}
	}
	r.checkSuperseded(failed, again)
}

// A failed reply that nobody tried again stays in the memory: the person has read it.
func TestFailedReplyStaysInMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, brokenFirst(), nil)
	failed := r.Send("", testkit.Body{"content": "My cello teacher is called Ilse."}).Rest()
	r.Say(failed.ChatID, "And now?")
	if asked := r.model.Asked(offline.KindReply); !strings.Contains(asked[1].Text, secret) {
		t.Errorf("the second prompt is %q", asked[1].Text)
	}
}

// The model refuses before its first word, which is a status and no stream: the same message may be sent
// again just so.
func TestRetryAfterStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, offline.FailFirst(1, offline.Answer{Fault: offline.Fault401}), nil)
	message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
	if got := r.Call(http.MethodPost, "/v1/message/first", message); got.Status != http.StatusBadGateway || got.Code() != "upstream_failed" {
		t.Fatalf("%d %s", got.Status, got.Text)
	}
	got := r.Call(http.MethodPost, "/v1/message/first", message, "Accept", "application/json")
	if got.Status != http.StatusOK || got.JSON(t)["finish_reason"] != "stop" {
		t.Errorf("%d %s", got.Status, got.Text)
	}
	if n := testkit.Ask[int](t, r.pool, "select count(*) from messages where role = 'user'"); n != 1 {
		t.Errorf("%d user messages", n)
	}
}

// A reply that its server could not finish is tried again on the next one.
func TestRetryAfterInterruption(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindReply && calls.Add(1) == 1 {
			return offline.Answer{Text: secret + " and more", Gate: make(chan struct{}), GateAfter: 1}
		}
		return offline.Answer{}
	}, env{"DRAIN_TIMEOUT": "100ms"})
	next := r.replica()
	message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
	s := r.Send("", message)
	s.UntilText(secret + " ")
	if err := r.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	interrupted := s.Rest()
	if interrupted.End.Code() != "interrupted" || interrupted.End.Data["retryable"] != true || interrupted.End.Data["content_length"] != float64(len(secret)+1) {
		t.Errorf("ended with %s %v", interrupted.End.Name, interrupted.End.Data)
	}
	again := next.Send("", message).Rest()
	if again.End.Name != testkit.Completion || again.UserMessageID != interrupted.UserMessageID {
		t.Errorf("the second try: %+v", again)
	}
	next.Say(again.ChatID, "And now?")
	for _, request := range r.model.Asked(offline.KindReply) {
		if strings.Contains(request.Text, secret) {
			t.Errorf("the model read the interrupted reply: %q", request.Text)
		}
	}
	r.checkSuperseded(interrupted, again)
}

// However many try again at once and wherever, the model is asked once more, and all get the same reply.
func TestTwentyRetriesAtOnce(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("first %v", first), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, brokenFirst(), nil)
			other := r.replica()
			message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
			failed := r.Send("", message).Rest()
			chatID := ""
			if !first {
				chatID = failed.ChatID
			}
			got, err := sendAtOnce(20, []*node{r.node, other}, chatID, message)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range got {
				if one.MessageID != got[0].MessageID || one.Text != got[0].Text || one.End.Name != testkit.Completion {
					t.Fatalf("one of them got %+v, another %+v", one, got[0])
				}
			}
			if n := len(r.model.Asked(offline.KindReply)); n != 2 {
				t.Errorf("the model was asked %d times", n)
			}
			r.checkSuperseded(failed, got[0])
		})
	}
}
