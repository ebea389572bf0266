package system

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// failedWord is only in the replies that failed.
const failedWord = "Zyxomma"

// failFirstReply makes the first reply fail after its first word, the failedWord. All later ones are the built-in
// model's.
func failFirstReply() testkit.Script {
	return offline.FailFirst(1, offline.Answer{Text: failedWord + " is what I was about to say.", Fault: offline.FaultFailed, FaultAfter: 1})
}

// retries are the ways in which a client identifies a message as the same.
var retries = map[string]func() (testkit.Body, []string){
	"client_message_id": func() (testkit.Body, []string) {
		return testkit.Body{"client_message_id": uuid.NewString()}, nil
	},
	"Idempotency-Key": func() (testkit.Body, []string) {
		return testkit.Body{}, []string{"Idempotency-Key", "Ääh, " + uuid.NewString()}
	},
}

// A message whose reply failed can be sent again, to either endpoint, on any replica: the user's message stays, a new
// reply supersedes the old one, and no text of the old one is in the memory.
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
				script := failFirstReply()
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
	if failed.End.Name != testkit.Failed || failed.End.Data["retryable"] != true || failed.Text != failedWord+" " {
		t.Fatalf("%q, %s %v", failed.Text, failed.End.Name, failed.End.Data)
	}
	// A client that posts again after every end sends its cursor, and gets a 204.
	path, payload := testkit.MessagePath(chatID, message)
	if got := other.Call(http.MethodPost, path, payload, append(headers, "Last-Event-ID", failed.End.ID)...); got.Status != http.StatusNoContent {
		t.Errorf("again with the end seen: %d %s", got.Status, got.Text)
	}
	// Another message with the same id is refused.
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

// No later prompt or summary contains text of a failed reply that was retried.
func TestRetriedReplyLeavesMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, failFirstReply(), smallMemory)
	message := testkit.Body{"content": "My cello teacher is called Ilse and I live in Graz.", "client_message_id": uuid.NewString()}
	failed := r.Send("", message).Rest()
	again := r.Send("", message).Rest()
	r.practise(again.ChatID, 14)
	r.awaitFirstFold()
	r.awaitFolds()
	if got := r.Say(again.ChatID, "What is my cello teacher called?"); !strings.Contains(got.Text, "Ilse") {
		t.Errorf("forgotten: %q", got.Text)
	}
	r.awaitFolds()
	for _, request := range r.model.Requests() {
		if strings.Contains(request.Text, failedWord) {
			t.Errorf("the model read the failed reply, in a request for a %s", request.Kind)
		}
	}
	r.checkSuperseded(failed, again)
}

// A failed reply that was not retried stays in the memory: the user has read it.
func TestFailedReplyStaysInMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, failFirstReply(), nil)
	failed := r.Send("", testkit.Body{"content": "My cello teacher is called Ilse."}).Rest()
	r.Say(failed.ChatID, "And now?")
	if asked := r.model.Asked(offline.KindReply); !strings.Contains(asked[1].Text, failedWord) {
		t.Errorf("the second prompt is %q", asked[1].Text)
	}
}

// The model refuses before its first word, which the client gets as a status. The message can be sent again.
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
	if n := r.count("select count(*) from messages where role = 'user'"); n != 1 {
		t.Errorf("%d user messages", n)
	}
}

// A reply that its server could not finish can be retried on another.
func TestRetryAfterInterruption(t *testing.T) {
	t.Parallel()
	held := offline.Answer{Text: failedWord + " and more", Gate: make(chan struct{}), GateAfter: 1}
	r := newStoppedRig(t, testkit.NewDatabase(t), offline.FailFirst(1, held), nil).startFirst(100 * time.Millisecond)
	next := r.replica()
	message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
	s := r.Send("", message)
	s.UntilText(failedWord + " ")
	r.stopNow()
	interrupted := s.Rest()
	if interrupted.End.Code() != "interrupted" || interrupted.End.Data["retryable"] != true || interrupted.End.Data["content_length"] != float64(len(failedWord)+1) {
		t.Errorf("ended with %s %v", interrupted.End.Name, interrupted.End.Data)
	}
	again := next.Send("", message).Rest()
	if again.End.Name != testkit.Completion || again.UserMessageID != interrupted.UserMessageID {
		t.Errorf("the second try: %+v", again)
	}
	next.Say(again.ChatID, "And now?")
	for _, request := range r.model.Asked(offline.KindReply) {
		if strings.Contains(request.Text, failedWord) {
			t.Errorf("the model read the interrupted reply: %q", request.Text)
		}
	}
	r.checkSuperseded(interrupted, again)
}

// Of many retries at once, on two servers, one calls the model, and all get the same reply.
func TestTwentyRetriesAtOnce(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("first %v", first), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, failFirstReply(), nil)
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
