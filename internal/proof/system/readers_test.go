package system

import (
	"errors"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// Devices on both replicas follow one reply, and one on each does not read at all. The others get all of it, and these
// two can continue where they were.
func TestManyReadersAndSomeThatDoNotRead(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	long := strings.Repeat(unicodeReply+" ", 2000) // more than what lies between a server and a client takes
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
		text, end := readToEnd(t, s, []*node{other, r.node}[i])
		if text != long || end != testkit.Completion {
			t.Errorf("the reader that slept has %d of %d bytes, %s", len(text), len(long), end)
		}
	}
}

// readToEnd reads a stream to its end, and resumes on another server if it is cut.
func readToEnd(t *testing.T, s *testkit.Stream, n *node) (text, end string) {
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
