package system

import (
	"errors"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Devices on both replicas follow one reply, and one on each does not read at all. The others have the
// whole of it, and the two that slept go on where they were.
func TestManyReadersAndSomeThatDoNotRead(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	long := strings.Repeat(foreign+" ", 2000) // more than what lies between a server and a client takes
	r := newRig(t, testkit.HeldReply(long, 1, gate), nil)
	other := r.replica()
	asked := r.Send("", testkit.Body{"content": "Speak at length."})
	chatID := asked.ChatID()
	readers := []*testkit.Stream{asked, r.Resume(chatID, ""), r.Resume(chatID, ""), other.Resume(chatID, ""), other.Resume(chatID, ""), other.Resume(chatID, "")}
	asleep := []*testkit.Stream{r.Resume(chatID, ""), other.Resume(chatID, "")}
	close(gate)
	for i, got := range restOfAll(t, readers) {
		if got.Text != long || got.End.Name != testkit.Completion {
			t.Errorf("reader %d has %d of %d bytes, %s", i, len(got.Text), len(long), got.End.Name)
		}
	}
	r.checkStored(asked.MessageID(), long)
	for i, s := range asleep {
		text, end := readOn(t, s, []*node{other, r.node}[i])
		if text != long || end != testkit.Completion {
			t.Errorf("the reader that slept has %d of %d bytes, %s", len(text), len(long), end)
		}
	}
}

// readOn reads a stream to its end, going on at another server when it is cut.
func readOn(t *testing.T, s *testkit.Stream, n *node) (text, end string) {
	t.Helper()
	got, err := s.TryRest()
	if err == nil {
		return got.Text, got.End.Name
	}
	if !errors.Is(err, testkit.ErrCut) {
		t.Fatal(err)
	}
	rest := n.Resume(s.ChatID(), "", "Last-Event-ID", s.LastID()).Rest()
	return s.Text + rest.Text, rest.End.Name
}

// Nobody is left who reads, on any replica: the reply is made to its end all the same, and who comes back
// finds the rest.
func TestReplyGoesOnWithoutReaders(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, start replicas) {
		gate := make(chan struct{})
		r, other := start(testkit.HeldReply(foreign, 4, gate))
		asked := r.Send("", testkit.Body{"content": "Speak."})
		asked.UntilText(opening(foreign, 4))
		follower := other.Resume(asked.ChatID(), "")
		follower.UntilText(opening(foreign, 4))
		asked.Close()
		follower.Close()
		close(gate)
		r.checkStored(asked.MessageID(), foreign)
		if request := r.model.Asked(offline.KindReply)[0]; request.HungUp || request.Sent != foreign {
			t.Errorf("the model was left after %q", request.Sent)
		}
		if text, end := readOn(t, asked, other); text != foreign || end != testkit.Completion {
			t.Errorf("%q, %s", text, end)
		}
	})
}
