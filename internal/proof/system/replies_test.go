package system

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A cancel on any replica ends the model's call, keeps the text so far, and reaches every reader, also where replicas have
// only a transaction pooler and therefore poll.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ elsewhere, pooled bool }{
		"here": {false, false}, "on another replica": {true, false}, "here, polling": {false, true}, "on another replica, polling": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, change := testkit.NewDatabase(t), env{}
			if c.pooled {
				change["DATABASE_DIRECT_URL"] = testkit.NewTransactionPooler(t, db)
				change["DATABASE_URL"] = testkit.AsServer(change["DATABASE_DIRECT_URL"])
			}
			r := newRigOn(t, db, heldReply(4, make(chan struct{})), change)
			other := r.replica()
			received := firstWords(unicodeReply, 4)
			asked := r.startReply(4)
			chatID := asked.ChatID()
			streams := []*testkit.Stream{asked, r.Resume(chatID, ""), other.Resume(chatID, ""), other.Resume(chatID, "?after=2")}
			where := r.node
			if c.elsewhere {
				where = other
			}
			got := where.Cancel(chatID)
			assert.Truef(t, got.Status == http.StatusOK && got.JSON(t)["status"] == "cancelled" && got.JSON(t)["message_id"] == asked.MessageID(),
				"%d %s", got.Status, got.Text)
			for i, end := range restOfAll(t, streams) {
				assert.Truef(t, end.End.Name == testkit.Cancelled && (end.Text == received || (string([]rune(received)[:2])+end.Text) == received),
					"reader %d has %q, %s", i, end.Text, end.End.Name)
			}
			r.checkCancelled(asked.MessageID(), received)
			for _, n := range []*node{r.node, other} { // and once more, when it is over
				if got := n.Cancel(chatID); got.Status != http.StatusOK || got.JSON(t)["status"] != "cancelled" {
					t.Errorf("%d %s", got.Status, got.Text)
				}
			}
		})
	}
}

// checkCancelled checks that a reply is stored as far as it was received, the model's call is over, and the chat free.
func (r *rig) checkCancelled(messageID, received string) {
	assert.Equal(r.t, (messageRow{role: "assistant", status: "cancelled", content: received}), r.stored(messageID),
		"stored")
	request := r.model.Asked(offline.KindReply)[0]
	r.model.AwaitRequest(r.t, "the model is let go", func(a offline.Request) bool { return a.At.Equal(request.At) && a.HungUp })
	r.awaitNoDeltas()
	n := r.count("select count(*) from messages where status = 'streaming' or lease_until is not null")
	assert.Truef(r.t, n == 0, "%d messages hold up their chat", n)
}

// A resume from any position in the text returns exactly the rest of it, while the reply runs and afterwards, on the
// same server and on another. A position past the end counts as the end.
func TestResumeAtEveryPosition(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, heldReply(6, gate), nil)
	other := r.replica()
	asked := r.startReply(6)
	said, whole := len([]rune(asked.Text)), []rune(unicodeReply)
	open := func(n *node, position int) *testkit.Stream {
		if position%2 == 0 {
			return n.Resume(asked.ChatID(), fmt.Sprintf("?after=%d", position))
		}
		return n.Resume(asked.ChatID(), "?after=0", "Last-Event-ID", fmt.Sprintf("%s:%d", asked.MessageID(), position)) // the header decides
	}
	check := func(where string, streams []*testkit.Stream) {
		for position, got := range restOfAll(t, streams) {
			want := string(whole[min(position, len(whole)):])
			assert.Truef(t, got.Text == want && got.End.Name == testkit.Completion,
				"%s, after %d: %q and %s, want %q", where, position, got.Text, got.End.Name, want)
		}
	}
	var here, elsewhere []*testkit.Stream
	for position := range len(whole) + 3 {
		if position <= said { // no client has more than this server has sent
			here = append(here, open(r.node, position))
		}
		elsewhere = append(elsewhere, open(other, position))
	}
	close(gate)
	check("while it runs, here", here)
	check("while it runs, elsewhere", elsewhere)
	asked.Rest()
	here, elsewhere = nil, nil
	for position := range len(whole) + 3 {
		here, elsewhere = append(here, open(r.node, position)), append(elsewhere, open(other, position))
	}
	check("afterwards, here", here)
	check("afterwards, elsewhere", elsewhere)
}

// A signal while replies run: the ones that end soon are completed, the others are stored as interrupted, every
// reader gets the right terminal event, and Run returns nil.
func TestStopWithRunningStreams(t *testing.T) {
	t.Parallel()
	soon := make(chan struct{})
	never := make(chan struct{})
	r := newStoppedRig(t, testkit.NewDatabase(t), func(request *offline.Request) offline.Answer {
		gate := soon
		switch {
		case request.Current == "Too late.": // one that came just before the end is not held
			return offline.Answer{}
		case strings.Contains(request.Current, "endless"):
			gate = never
		}
		return offline.Answer{Text: "one two three four", Gate: gate, GateAfter: 2}
	}, nil).startFirst(10 * time.Second) // long enough for a busy machine to end the short ones
	const streams = 12
	open := make([]*testkit.Stream, streams)
	for i := range open {
		content := "A short one."
		if i%3 == 0 {
			content = "An endless one."
		}
		open[i] = r.Send("", testkit.Body{"content": content})
		open[i].Until(func(testkit.Event) bool { return open[i].Text == "one two " })
	}
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	testkit.Eventually(t, "new messages are refused", func() bool {
		got := r.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Too late."}, "Accept", "application/json")
		return got.Status == http.StatusServiceUnavailable && got.JSON(t)["code"] == "shutting_down" && got.Header.Get("Retry-After") != ""
	})
	close(soon)
	got := restOfAll(t, open)
	assert.NoError(t, <-stopped, "run")
	for i := range got {
		row := r.stored(got[i].MessageID)
		want := messageRow{role: "assistant", status: "complete", content: "one two three four"}
		if i%3 == 0 {
			want = messageRow{role: "assistant", status: "interrupted", content: "one two ", failure: "interrupted"}
		}
		assert.Truef(t, row == want && got[i].Text == want.content && (got[i].End.Name == testkit.Completion) == (want.status == "complete"),
			"stream %d: stored %+v, streamed %q and %s %v", i, row, got[i].Text, got[i].End.Name, got[i].End.Data)
	}
	r.checkNoneStreaming()
	r.awaitNoDeltas()
}

// Two servers repeatedly get different messages to one chat at the same moment: one of them generates, the other answers
// 409. The next message succeeds on either.
func TestTwoReplicasAnswerOneChat(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	servers := []*node{r.node, r.replica()}
	chatID := r.Say("", "Hello, I am Ada.").ChatID
	const rounds = 20
	for round := range rounds {
		gate := make(chan struct{})
		answered := make(chan openResult, len(servers))
		for n, server := range servers {
			path, payload := testkit.MessagePath(chatID, testkit.Body{"content": fmt.Sprintf("I am server %d, round %d.", n, round)})
			go func() {
				<-gate
				s, err := server.TryOpen(http.MethodPost, path, payload)
				answered <- openResult{s, err}
			}()
		}
		close(gate)
		began := 0
		for range servers {
			got := testkit.Receive(t, "an answer", answered)
			require.NoError(t, got.err)
			switch status := got.stream.Response.StatusCode; status {
			case http.StatusOK: // both, when the first was done before the second began
				began++
				said := got.stream.Rest()
				assert.Equalf(t, testkit.Completion, said.End.Name, "round %d: %+v", round, said)
			case http.StatusConflict:
				refused := (testkit.Answer{Status: status, Text: got.stream.Raw()})
				assert.Equalf(t, "generation_in_progress", refused.Code(), "round %d: %s", round, refused.Text)
			default:
				t.Errorf("round %d: %d %s", round, status, got.stream.Raw())
			}
		}
		assert.Truef(t, began != 0, "round %d: no server answered", round)
	}
	asked := len(r.model.Asked(offline.KindReply))
	n := r.count("select count(*) from messages where role = 'assistant' and status = 'complete'")
	assert.Truef(t, n == asked && n >= rounds+1, "%d replies of %d calls", n, asked)
	r.checkNothingRuns()
}
