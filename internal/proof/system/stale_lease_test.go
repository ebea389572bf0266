package system

import (
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// expire makes a running reply look abandoned until another server has ended it, although its own server is alive.
func (r *rig) expire(messageID string) {
	r.t.Helper()
	testkit.Eventually(r.t, "another server takes it for dead", func() bool {
		// Repeated, because its server may renew the lease at any moment.
		testkit.Exec(r.t, r.pool, "update messages set lease_until = now() - interval '1 second' where id = $1 and status = 'streaming'", uuid.MustParse(messageID))
		return r.stored(messageID).status == "interrupted"
	})
}

// expireLeases makes all running replies look abandoned.
func (r *rig) expireLeases() {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, "update messages set lease_until = now() - interval '1 second' where status = 'streaming'")
}

// A server that was taken for dead, for example after its machine was paused, still completes its reply: it is stored
// whole, and its own readers notice nothing. Readers elsewhere got the text so far and an interruption; they can resume.
func TestStaleLease(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply(unicodeReply, 4, gate), nil)
	other := r.replica()
	received := firstWords(unicodeReply, 4)
	asked := r.Send("", testkit.Body{"content": "Speak."})
	asked.UntilText(received)
	follower := other.Resume(asked.ChatID(), "")
	follower.UntilText(received)
	r.expire(asked.MessageID())
	told := follower.Rest()
	if told.End.Code() != "interrupted" || told.End.Data["retryable"] != true || told.End.Data["content_length"] != float64(len([]rune(received))) {
		t.Errorf("the follower's end is %s %v", told.End.Name, told.End.Data)
	}
	if row := r.stored(asked.MessageID()); row.content != received {
		t.Errorf("stored %+v", row)
	}
	close(gate)
	if got := asked.Rest(); got.Text != unicodeReply || got.End.Name != testkit.Completion {
		t.Errorf("the reader has %q, %s %v", got.Text, got.End.Name, got.End.Data)
	}
	r.checkStored(asked.MessageID(), unicodeReply)
	rest := other.Resume(asked.ChatID(), "", "Last-Event-ID", follower.Events[len(follower.Events)-2].ID).Rest()
	if received+rest.Text != unicodeReply || rest.End.Name != testkit.Completion {
		t.Errorf("the rest is %q, %s", rest.Text, rest.End.Name)
	}
	r.awaitNoDeltas()
	r.checkCounters()
}

// If the message was sent again in the meantime, the second reply stays, and the first server's readers get
// an interruption.
func TestStaleLeaseAndRetry(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, offline.FailFirst(1, offline.Answer{Text: failedWord + " and more", Gate: gate, GateAfter: 1}), nil)
	other := r.replica()
	message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
	asked := r.Send("", message)
	asked.UntilText(failedWord + " ")
	r.awaitRecorded(asked.MessageID(), failedWord+" ")
	r.expire(asked.MessageID())
	again := other.Send("", message).Rest()
	if again.End.Name != testkit.Completion || again.MessageID == asked.MessageID() {
		t.Fatalf("the second try: %+v", again)
	}
	close(gate)
	late := asked.Rest()
	if late.End.Name != testkit.Failed || late.End.Code() != "interrupted" {
		t.Errorf("the first try ended with %s %v", late.End.Name, late.End.Data)
	}
	if row := r.stored(late.MessageID); row.status != "interrupted" || row.content != failedWord+" " {
		t.Errorf("stored %+v", row)
	}
	late.Text = failedWord + " " // what is stored of it
	r.checkSuperseded(late, again)
	r.checkNoneStreaming()
	r.awaitNoDeltas()
}
