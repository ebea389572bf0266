package system

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// A reader on another replica gets the reply while it is generated, with the same text and terminal event as the
// reader who asked.
func TestFollowOnAnotherReplica(t *testing.T) {
	t.Parallel()
	notifiedAndPolling(t, func(t *testing.T, start replicas) {
		gate := make(chan struct{})
		r, other := start(testkit.HeldReply(unicodeReply, 5, gate))
		received := firstWords(unicodeReply, 5)
		asked := r.Send("", testkit.Body{"content": "Speak."})
		asked.UntilText(received)
		follower := other.Resume(asked.ChatID(), "")
		follower.UntilText(received)
		if row := r.stored(asked.MessageID()); row.status != "streaming" {
			t.Errorf("the reply is %s", row.status)
		}
		close(gate)
		first, second := asked.Rest(), follower.Rest()
		if first.Text != unicodeReply || second.Text != unicodeReply {
			t.Errorf("the replicas give %q and %q, want %q", first.Text, second.Text, unicodeReply)
		}
		if first.Start.Data["resumed"] != false || second.Start.Data["resumed"] != true {
			t.Errorf("resumed: %v and %v", first.Start.Data["resumed"], second.Start.Data["resumed"])
		}
		if diff := cmp.Diff(first.End, second.End); diff != "" {
			t.Errorf("the ends differ: %s", diff)
		}
		r.checkStored(first.MessageID, unicodeReply)
		r.awaitNoDeltas()
	})
}

// A reply that is deleted with its chat ends for all its readers.
func TestFollowersOfDeletedReply(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, holdReplies(gate), nil)
	other := r.replica()
	asked := r.Send("", testkit.Body{"content": "Speak."})
	follower := other.Resume(asked.ChatID(), "")
	follower.UntilText("This ")
	testkit.Exec(t, r.pool, "delete from chats")
	if got := follower.Rest(); got.End.Name != testkit.Failed || got.End.Code() != "message_not_found" {
		t.Errorf("the follower's end is %s %v", got.End.Name, got.End.Data)
	}
	close(gate)
	if got := asked.Rest(); got.End.Name != testkit.Failed {
		t.Errorf("the reply ended with %s %v", got.End.Name, got.End.Data)
	}
	r.awaitNoDeltas()
}
