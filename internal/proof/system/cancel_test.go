package system

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A cancel on any replica ends the model's call, keeps the text so far, and reaches every reader.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		t.Run(map[bool]string{false: "here", true: "on another replica"}[elsewhere], func(t *testing.T) {
			t.Parallel()
			notifiedAndPolling(t, func(t *testing.T, start replicas) {
				r, other := start(testkit.HeldReply(unicodeReply, 4, make(chan struct{})))
				received := firstWords(unicodeReply, 4)
				asked := r.Send("", testkit.Body{"content": "Go on and on."})
				asked.UntilText(received)
				chatID := asked.ChatID()
				streams := []*testkit.Stream{asked, r.Resume(chatID, ""), other.Resume(chatID, ""), other.Resume(chatID, "?after=2")}
				where := r.node
				if elsewhere {
					where = other
				}
				got := where.Cancel(chatID)
				if got.Status != http.StatusOK || got.JSON(t)["status"] != "cancelled" || got.JSON(t)["message_id"] != asked.MessageID() {
					t.Errorf("%d %s", got.Status, got.Text)
				}
				for i, end := range restOfAll(t, streams) {
					if whole := string([]rune(received)[:2]) + end.Text; end.End.Name != testkit.Cancelled || end.Text != received && whole != received {
						t.Errorf("reader %d has %q, %s", i, end.Text, end.End.Name)
					}
				}
				r.checkCancelled(asked.MessageID(), received)
			})
		})
	}
}

// checkCancelled checks that a reply is stored as far as it was received, the model's call is over, and the chat free.
func (r *rig) checkCancelled(messageID, received string) {
	r.t.Helper()
	if row := r.stored(messageID); row != (messageRow{role: "assistant", status: "cancelled", content: received}) {
		r.t.Errorf("stored %+v", row)
	}
	request := r.model.Asked(offline.KindReply)[0]
	r.model.AwaitRequest(r.t, "the model is let go", func(a offline.Request) bool { return a.At.Equal(request.At) && a.HungUp })
	r.awaitNoDeltas()
	if n := r.count("select count(*) from messages where status = 'streaming' or lease_until is not null"); n != 0 {
		r.t.Errorf("%d messages hold up their chat", n)
	}
}

// Several cancels at once, on both replicas, have the effect of one.
func TestCancelTwice(t *testing.T) {
	t.Parallel()
	notifiedAndPolling(t, func(t *testing.T, start replicas) {
		r, other := start(testkit.HeldReply(unicodeReply, 4, make(chan struct{})))
		asked := r.startReply(4)
		answers := make(chan testkit.Answer)
		for i := range 6 {
			go func() {
				got, err := []*node{r.node, other}[i%2].TryCall(http.MethodPost, "/v1/message/"+asked.ChatID()+"/cancel", nil)
				if err != nil {
					t.Error(err)
				}
				answers <- got
			}()
		}
		for range 6 {
			if got := testkit.Receive(t, "an answer", answers); got.Status != http.StatusOK || got.JSON(t)["status"] != "cancelled" {
				t.Errorf("%d %s", got.Status, got.Text)
			}
		}
		if end := asked.Rest(); end.End.Name != testkit.Cancelled {
			t.Errorf("ended with %s", end.End.Name)
		}
		r.checkCancelled(asked.MessageID(), firstWords(unicodeReply, 4))
		for _, n := range []*node{r.node, other} { // and once more, when it is over
			if got := n.Cancel(asked.ChatID()); got.Status != http.StatusOK || got.JSON(t)["status"] != "cancelled" {
				t.Errorf("%d %s", got.Status, got.Text)
			}
		}
	})
}

// Cancelling a finished reply changes nothing. Another user's chat is not found, nor is a reply in an empty chat.
func TestCancelWithoutARunningReply(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	other := r.replica()
	said := r.Say("", "Hello, I am Ada.")
	empty := testkit.Ask[uuid.UUID](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user).String()
	stranger := r.stranger()
	stranger.Base = other.Base
	for _, n := range []testkit.Client{r.Client, other.Client} {
		if got := n.Cancel(said.ChatID); got.Status != http.StatusOK || got.JSON(t)["status"] != "complete" || got.JSON(t)["message_id"] != said.MessageID {
			t.Errorf("of a finished reply: %d %s", got.Status, got.Text)
		}
		if got := n.Cancel(empty); got.Status != http.StatusNotFound || got.Code() != "message_not_found" {
			t.Errorf("of a chat without a reply: %d %s", got.Status, got.Text)
		}
	}
	if got := stranger.Cancel(said.ChatID); got.Status != http.StatusNotFound || got.Code() != "chat_not_found" {
		t.Errorf("of somebody else's chat: %d %s", got.Status, got.Text)
	}
	r.checkStored(said.MessageID, said.Text)
}

// Another user cannot cancel a running reply.
func TestCancelByStranger(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, holdReplies(gate), nil)
	asked := r.Send("", testkit.Body{"content": "Speak."})
	asked.UntilText("This ")
	stranger := r.stranger()
	if got := stranger.Cancel(asked.ChatID()); got.Status != http.StatusNotFound || got.Code() != "chat_not_found" {
		t.Errorf("%d %s", got.Status, got.Text)
	}
	if testkit.Ask[bool](t, r.pool, "select bool_or(cancel_requested) from messages") {
		t.Error("the stop is asked for")
	}
	close(gate)
	if got := asked.Rest(); got.Text != heldText || got.End.Name != testkit.Completion {
		t.Errorf("%q, %s", got.Text, got.End.Name)
	}
}
