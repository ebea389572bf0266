package system

import (
	"net/http"
	"testing"

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
				for _, n := range []*node{r.node, other} { // and once more, when it is over
					if got := n.Cancel(chatID); got.Status != http.StatusOK || got.JSON(t)["status"] != "cancelled" {
						t.Errorf("%d %s", got.Status, got.Text)
					}
				}
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
