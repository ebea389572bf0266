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

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestSameMessageAgain(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, holdReplies(gate), nil)
	files := []testkit.Body{{"path": "b.go", "content": "b"}, {"path": "a.go", "content": "a"}}
	message := testkit.Body{"content": "Speak.", "client_message_id": uuid.NewString(), "files": files}
	s := r.Send("", message)
	s.Until(isDelta)

	joined := r.Send("", message) // while it runs
	joined.Until(func(e testkit.Event) bool { return e.Name == testkit.Started && e.Data["resumed"] == true })
	close(gate)
	first, second := s.Rest(), joined.Rest()
	third := r.Send("", message).Rest() // after it ended
	fourth := r.Send(first.ChatID, message).Rest()
	for _, got := range []testkit.Said{second, third, fourth} {
		if got.Text != first.Text || got.MessageID != first.MessageID || got.UserMessageID != first.UserMessageID || got.End.Name != testkit.Completion {
			t.Errorf("again: %+v, first %+v", got, first)
		}
	}
	done := r.Call(http.MethodPost, "/v1/message/first", message, "Last-Event-ID", first.End.ID)
	if done.Status != http.StatusNoContent {
		t.Errorf("again after the end was seen: %d %s", done.Status, done.Text)
	}
	for what, change := range map[string]testkit.Body{
		"content": {"content": "Something else."},
		"files":   {"files": []testkit.Body{{"path": "main.go", "content": "package main"}}},
		"variant": {"model_variant": "deep-dive"},
	} {
		changed := maps.Clone(message)
		maps.Copy(changed, change)
		if other := r.Call(http.MethodPost, "/v1/message/first", changed); other.Status != http.StatusUnprocessableEntity || other.Code() != "idempotency_mismatch" {
			t.Errorf("the same id with another %s: %d %s", what, other.Status, other.Text)
		}
	}
	changed := maps.Clone(message)
	maps.Copy(changed, testkit.Body{"model_variant": "arco", "metadata": testkit.Body{"try": 2}, "sources": []testkit.Body{{"content": "A passage."}}})
	if again := r.Send("", changed).Rest(); again.MessageID != first.MessageID {
		t.Errorf("with other sources and metadata: %+v", again)
	}
	r.checkAskedOnce("Speak.", "")
}

// A hundred copies of one message at once, on two servers, make one message and one reply, which all of them read while
// it is generated. A copy after a restart of everything gets the same reply.
func TestSameMessageHundredTimesAtOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply(unicodeReply, 3, gate), env{"MODEL_IDLE_TIMEOUT": "10m"}) // a busy machine needs its time
	other := r.replica()
	message := testkit.Body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
	early := other.Send("", message)
	early.UntilText(firstWords(unicodeReply, 3)) // so that the reply surely runs while the others come
	var got []testkit.Said
	done := make(chan error, 1)
	go func() {
		var err error
		got, err = sendAtOnce(100, []*node{r.node, other}, "", message)
		done <- err
	}()
	testkit.Eventually(t, "all of them read", func() bool { return r.openStreams()+other.openStreams() == 101 })
	close(gate)
	if err := testkit.Receive(t, "all have the reply", done); err != nil {
		t.Fatal(err)
	}
	r.stopNow()
	other.stopNow()
	for _, one := range append(got, early.Rest(), r.replica().Send("", message).Rest()) { // the last one after a restart
		if one.MessageID != got[0].MessageID || one.UserMessageID != got[0].UserMessageID || one.Text != unicodeReply || one.End.Name != testkit.Completion {
			t.Fatalf("one of them got %+v, another %+v", one, got[0])
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
func sendAtOnce(copies int, servers []*node, chatID string, message testkit.Body) ([]testkit.Said, error) {
	path, payload := testkit.MessagePath(chatID, message)
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
