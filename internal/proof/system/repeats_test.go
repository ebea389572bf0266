package system

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A hundred copies of one message at once, on two servers, make one message and one reply, which all of them read while
// it is generated. A copy after a restart of everything gets the same reply, and another message with its id is refused.
func TestSameMessageHundredTimesAtOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, heldReply(3, gate), env{"MODEL_IDLE_TIMEOUT": "10m"}) // a busy machine needs its time
	other := r.replica()
	files := []testkit.Body{{"path": "b.go", "content": "b"}, {"path": "a.go", "content": "a"}}
	message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString(), "files": files}
	early := other.Send("", message)
	early.UntilText(firstWords(unicodeReply, 3)) // so that the reply surely runs while the others come
	var got []testkit.Said
	done := make(chan error, 1)
	go func() {
		var err error
		got, err = sendAtOnce(100, []*node{r.node, other}, message)
		done <- err
	}()
	testkit.Eventually(t, "all of them read", func() bool { return r.openStreams()+other.openStreams() == 101 })
	close(gate)
	require.NoError(t, testkit.Receive(t, "all have the reply", done))
	r.stopNow()
	other.stopNow()
	r.node = r.replica()
	again := maps.Clone(message)
	maps.Copy(again, testkit.Body{"model_variant": "arco", "metadata": testkit.Body{"try": 2}, "sources": []testkit.Body{{"content": "A passage."}}})
	for _, one := range append(got, early.Rest(), r.Send("", message).Rest(), r.Send(got[0].ChatID, again).Rest()) {
		if one.MessageID != got[0].MessageID || one.UserMessageID != got[0].UserMessageID || one.Text != unicodeReply || one.End.Name != testkit.Completion {
			t.Fatalf("one of them got %+v, another %+v", one, got[0])
		}
	}
	for what, change := range map[string]testkit.Body{
		"content": {"content": "Something else."}, "files": {"files": files[1:]}, "variant": {"model_variant": "deep-dive"},
	} {
		changed := maps.Clone(message)
		maps.Copy(changed, change)
		if other := r.Call(http.MethodPost, "/v1/message/first", changed); other.Status != http.StatusUnprocessableEntity || other.Code() != "idempotency_mismatch" {
			t.Errorf("the same id with another %s: %d %s", what, other.Status, other.Text)
		}
	}
	r.checkAskedOnce("My cello teacher is called Ilse.", "")
}

// openStreams returns the number of open streams in the metrics.
func (n *node) openStreams() int {
	open := 0
	for line := range strings.Lines(n.Call(http.MethodGet, "/metrics", nil).Text) {
		_, _ = fmt.Sscanf(line, "throughline_open_streams %d", &open) // any other line is another metric
	}
	return open
}

// sendAtOnce sends copies of one message at once, spread over the servers, and reads all replies.
func sendAtOnce(copies int, servers []*node, message testkit.Body) ([]testkit.Said, error) {
	path, payload := testkit.MessagePath("", message)
	said, failed := make([]testkit.Said, copies), make([]error, copies)
	var all sync.WaitGroup
	for i := range copies {
		all.Go(func() { said[i], failed[i] = servers[i%len(servers)].sendUntilReady(path, payload) })
	}
	all.Wait()
	return said, errors.Join(failed...)
}

// sendUntilReady sends a message and reads its reply. It sends it again while the server is not ready, as a client has
// to: on a busy machine, a hundred requests do not get their connections to Postgres in time.
func (n *node) sendUntilReady(path string, payload testkit.Body) (testkit.Said, error) {
	for {
		s, err := n.TryOpen(http.MethodPost, path, payload)
		if err != nil {
			return testkit.Said{}, err
		}
		switch s.Response.StatusCode {
		case http.StatusOK:
			return s.TryRest()
		case http.StatusServiceUnavailable:
			s.Close()
			time.Sleep(time.Second) // as its Retry-After says
		default:
			return testkit.Said{}, fmt.Errorf("%s %s", s.Response.Status, s.Raw())
		}
	}
}

// failedWord is only in the replies that failed.
const failedWord = "Zyxomma"

const teacher = "My cello teacher is called Ilse."

// failFirstReply makes the first reply fail after its first word, the failedWord. All later ones are the built-in
// model's.
func failFirstReply() testkit.Script {
	return testkit.InOrder(offline.Answer{Text: failedWord + " is what I was about to say.", Fault: offline.FaultFailed, FaultAfter: 1}, offline.Answer{})
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
	got := r.Say(again.ChatID, "What is my cello teacher called?")
	assert.Containsf(t, got.Text, "Ilse", "forgotten: %q", got.Text)
	r.awaitFolds()
	for _, request := range r.model.Requests() {
		assert.NotContainsf(t, request.Text, failedWord,
			"the model read the failed reply, in a request for a %s", request.Kind)
	}
	r.checkSuperseded(failed, again)
}

// expire makes a running reply look abandoned until another server has ended it, although its own server is alive.
func (r *rig) expire(messageID string) {
	testkit.Exec(r.t, r.pool, "update messages set server_id = null, lease_until = now() - interval '1 second' where id = $1 and status = 'streaming'",
		uuid.MustParse(messageID))
	testkit.Eventually(r.t, "another server takes it for dead", func() bool { return r.stored(messageID).status == "interrupted" })
}

// A server that was taken for dead, for example after its machine was paused, still completes its reply: it is stored
// whole, and its own readers notice nothing. Readers elsewhere got the text so far and an interruption; they can resume.
func TestStaleLease(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, heldReply(4, gate), nil)
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
	row := r.stored(asked.MessageID())
	assert.Equalf(t, received, row.content, "stored %+v", row)
	close(gate)
	got := asked.Rest()
	assert.Truef(t, got.Text == unicodeReply && got.End.Name == testkit.Completion,
		"the reader has %q, %s %v", got.Text, got.End.Name, got.End.Data)
	r.checkStored(asked.MessageID(), unicodeReply)
	rest := other.Resume(asked.ChatID(), "", "Last-Event-ID", follower.Events[len(follower.Events)-2].ID).Rest()
	assert.Truef(t, received+rest.Text == unicodeReply && rest.End.Name == testkit.Completion,
		"the rest is %q, %s", rest.Text, rest.End.Name)
	r.awaitNoDeltas()
	r.checkCounters()
}
