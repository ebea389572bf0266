package system

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// expire makes a running reply look abandoned until somebody has ended it for its server, which lives.
func (r *rig) expire(messageID string) {
	r.t.Helper()
	testkit.Eventually(r.t, "somebody takes the server for dead", func() bool {
		// Again and again, because its server may renew the lease at any moment.
		testkit.Exec(r.t, r.pool, "update messages set lease_until = now() - interval '1 second' where id = $1 and status = 'streaming'", uuid.MustParse(messageID))
		return r.stored(messageID).status == "interrupted"
	})
}

// A server that was taken for dead, as after a pause of the whole machine, has the last word about its
// reply: it is stored whole, and who reads there never noticed. Those who were told of the interruption
// have what was said until then, and find the rest.
func TestStaleLease(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply(foreign, 4, gate), nil)
	other := r.replica()
	heard := opening(foreign, 4)
	asked := r.Send("", testkit.Body{"content": "Speak."})
	asked.UntilText(heard)
	follower := other.Resume(asked.ChatID(), "")
	follower.UntilText(heard)
	r.expire(asked.MessageID())
	told := follower.Rest()
	if told.End.Code() != "interrupted" || told.End.Data["retryable"] != true || told.End.Data["content_length"] != float64(len([]rune(heard))) {
		t.Errorf("the follower's end is %s %v", told.End.Name, told.End.Data)
	}
	if row := r.stored(asked.MessageID()); row.content != heard {
		t.Errorf("stored %+v", row)
	}
	close(gate)
	if got := asked.Rest(); got.Text != foreign || got.End.Name != testkit.Completion {
		t.Errorf("the reader has %q, %s %v", got.Text, got.End.Name, got.End.Data)
	}
	r.checkStored(asked.MessageID(), foreign)
	rest := other.Resume(asked.ChatID(), "", "Last-Event-ID", follower.Events[len(follower.Events)-2].ID).Rest()
	if heard+rest.Text != foreign || rest.End.Name != testkit.Completion {
		t.Errorf("the rest is %q, %s", rest.Text, rest.End.Name)
	}
	r.awaitNoDeltas()
	r.checkCounters()
}

// Was the message tried again in the meantime, the second reply stands, and the first server's word comes
// too late: its readers are told that it was interrupted.
func TestStaleLeaseAndRetry(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var calls atomic.Int64
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindReply && calls.Add(1) == 1 {
			return offline.Answer{Text: secret + " and more", Gate: gate, GateAfter: 1}
		}
		return offline.Answer{}
	}, nil)
	other := r.replica()
	message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
	asked := r.Send("", message)
	asked.UntilText(secret + " ")
	r.awaitRecorded(asked.MessageID(), secret+" ")
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
	if row := r.stored(late.MessageID); row.status != "interrupted" || row.content != secret+" " {
		t.Errorf("stored %+v", row)
	}
	late.Text = secret + " " // what is stored of it
	r.checkSuperseded(late, again)
	if n := testkit.Ask[int](t, r.pool, "select count(*) from messages where status = 'streaming'"); n != 0 {
		t.Errorf("%d replies stream for ever", n)
	}
	r.awaitNoDeltas()
}

// A chat whose reply was given up may go on at once, while the server that was taken for dead still speaks.
// When that one stores its reply after all, both are there.
func TestStaleLeaseAndNextMessage(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var calls atomic.Int64
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindReply && calls.Add(1) == 1 {
			return offline.Answer{Text: foreign, Gate: gate, GateAfter: 4}
		}
		return offline.Answer{}
	}, nil)
	other := r.replica()
	asked := r.Send("", testkit.Body{"content": "Speak."})
	asked.UntilText(opening(foreign, 4))
	testkit.Exec(t, r.pool, "update messages set lease_until = now() - interval '1 second' where status = 'streaming'")
	testkit.Eventually(t, "the chat takes the next message", func() bool {
		got := other.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": asked.ChatID(), "content": "Are you there?"}, "Accept", "application/json")
		if got.Status == http.StatusConflict { // its server renewed the lease at this moment
			testkit.Exec(t, r.pool, "update messages set lease_until = now() - interval '1 second' where status = 'streaming'")
		}
		return got.Status == http.StatusOK
	})
	close(gate)
	if got := asked.Rest(); got.Text != foreign || got.End.Name != testkit.Completion {
		t.Errorf("the reader has %q, %s %v", got.Text, got.End.Name, got.End.Data)
	}
	r.checkStored(asked.MessageID(), foreign)
	r.checkCounters()
	r.awaitNoDeltas()
}
