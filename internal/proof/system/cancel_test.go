package system

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A stop ends the model's call, keeps what was said, and is told to every reader, whichever replica it
// was asked of.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		t.Run(map[bool]string{false: "here", true: "on another replica"}[elsewhere], func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, start replicas) {
				r, other := start(testkit.HeldReply(foreign, 4, make(chan struct{})))
				heard := opening(foreign, 4)
				asked := r.Send("", testkit.Body{"content": "Go on and on."})
				asked.UntilText(heard)
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
					if whole := string([]rune(heard)[:2]) + end.Text; end.End.Name != testkit.Cancelled || end.Text != heard && whole != heard {
						t.Errorf("reader %d has %q, %s", i, end.Text, end.End.Name)
					}
				}
				r.checkCancelled(asked.MessageID(), heard)
			})
		})
	}
}

// checkCancelled wants a reply stored as far as it was heard, the model left alone, and the chat free.
func (r *rig) checkCancelled(messageID, heard string) {
	r.t.Helper()
	if row := r.stored(messageID); row != (messageRow{role: "assistant", status: "cancelled", content: heard}) {
		r.t.Errorf("stored %+v", row)
	}
	request := r.model.Asked(offline.KindReply)[0]
	r.model.AwaitRequest(r.t, "the model is let go", func(a offline.Request) bool { return a.At.Equal(request.At) && a.HungUp })
	r.awaitNoDeltas()
	if n := testkit.Ask[int](r.t, r.pool, "select count(*) from messages where status = 'streaming' or lease_until is not null"); n != 0 {
		r.t.Errorf("%d messages hold up their chat", n)
	}
}

// Stopping twice, at once and on both replicas, is stopping once.
func TestCancelTwice(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, start replicas) {
		r, other := start(testkit.HeldReply(foreign, 4, make(chan struct{})))
		asked := r.Send("", testkit.Body{"content": "Go on and on."})
		asked.UntilText(opening(foreign, 4))
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
		r.checkCancelled(asked.MessageID(), opening(foreign, 4))
		for _, n := range []*node{r.node, other} { // and once more, when it is over
			if got := n.Cancel(asked.ChatID()); got.Status != http.StatusOK || got.JSON(t)["status"] != "cancelled" {
				t.Errorf("%d %s", got.Status, got.Text)
			}
		}
	})
}

// What has ended is not ended again, what is somebody else's is not even there, and a chat without a
// reply has none to stop.
func TestCancelOfNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	other := r.replica()
	said := r.Say("", "Hello, I am Ada.")
	empty := testkit.Ask[uuid.UUID](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user).String()
	stranger := other.Client
	stranger.Token = testkit.Token(t, testkit.NewUser(t, r.db))
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

// Somebody else's stop of a running reply changes nothing about it.
func TestCancelByStranger(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, heldReplies(gate), nil)
	asked := r.Send("", testkit.Body{"content": "Speak."})
	asked.UntilText("This ")
	stranger := r.Client
	stranger.Token = testkit.Token(t, testkit.NewUser(t, r.db))
	if got := stranger.Cancel(asked.ChatID()); got.Status != http.StatusNotFound || got.Code() != "chat_not_found" {
		t.Errorf("%d %s", got.Status, got.Text)
	}
	if testkit.Ask[bool](t, r.pool, "select bool_or(cancel_requested) from messages") {
		t.Error("the stop is asked for")
	}
	close(gate)
	if got := asked.Rest(); got.Text != spoken || got.End.Name != testkit.Completion {
		t.Errorf("%q, %s", got.Text, got.End.Name)
	}
}
