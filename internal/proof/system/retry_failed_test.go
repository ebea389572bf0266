package system

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// failedWord is only in the replies that failed.
const failedWord = "Zyxomma"

const teacher = "My cello teacher is called Ilse."

// failFirstReply makes the first reply fail after its first word, the failedWord. All later ones are the built-in
// model's.
func failFirstReply() testkit.Script {
	return offline.FailFirst(1, offline.Answer{Text: failedWord + " is what I was about to say.", Fault: offline.FaultFailed, FaultAfter: 1})
}

// A message whose reply failed can be sent again, to either endpoint, on any replica, by either name of a message: the
// user's message stays, a new reply supersedes the old one, and no text of the old one is in the memory.
func TestRetryAfterFailure(t *testing.T) {
	t.Parallel()
	t.Run("a first message with an id", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, failFirstReply(), nil)
		r.checkRetried(r.replica(), "", testkit.Body{"content": teacher, "client_message_id": uuid.NewString()}, nil)
	})
	t.Run("a follow-up with a key", func(t *testing.T) {
		t.Parallel()
		fail := failFirstReply()
		r := newRig(t, func(request *offline.Request) offline.Answer {
			if request.Current == "Hello, I am Ada." {
				return offline.Answer{}
			}
			return fail(request)
		}, nil)
		chatID := r.Say("", "Hello, I am Ada.").ChatID
		r.checkRetried(r.replica(), chatID, testkit.Body{"content": teacher}, []string{"Idempotency-Key", "Ääh, " + uuid.NewString()})
	})
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

// Of many retries at once, on two servers, one calls the model, and all get the same reply.
func TestTwentyRetriesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, failFirstReply(), nil)
	message := testkit.Body{"content": teacher, "client_message_id": uuid.NewString()}
	failed := r.Send("", message).Rest()
	got, err := sendAtOnce(20, []*node{r.node, r.replica()}, failed.ChatID, message)
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
}
