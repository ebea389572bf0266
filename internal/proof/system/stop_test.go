package system

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A signal while replies run: those that end soon are completed, the others are stored as interrupted, every
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
	if err := <-stopped; err != nil {
		t.Errorf("run: %v", err)
	}
	for i := range got {
		row := r.stored(got[i].MessageID)
		want := messageRow{role: "assistant", status: "complete", content: "one two three four"}
		if i%3 == 0 {
			want = messageRow{role: "assistant", status: "interrupted", content: "one two ", failure: "interrupted"}
		}
		if row != want || got[i].Text != want.content || (got[i].End.Name == testkit.Completion) != (want.status == "complete") {
			t.Errorf("stream %d: stored %+v, streamed %q and %s %v", i, row, got[i].Text, got[i].End.Name, got[i].End.Data)
		}
	}
	r.checkNoneStreaming()
	r.awaitNoDeltas()
}

// A reader of a reply that another server generates does not delay the stop. Its stream ends without a terminal event,
// because the reply has not ended, and it can resume elsewhere.
func TestStopWithReaderOfAnotherServersReply(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply(unicodeReply, 4, gate), nil)
	leaving := r.replica()
	asked := r.startReply(4)
	follower := leaving.follow(asked, 4)
	leaving.stopNow()
	if _, err := follower.TryRest(); !errors.Is(err, testkit.ErrCut) {
		t.Errorf("the follower's stream ended with %v after %q", err, follower.Text)
	}
	elsewhere := r.Resume(asked.ChatID(), "", "Last-Event-ID", follower.LastID())
	close(gate)
	if got := elsewhere.Rest(); follower.Text+got.Text != unicodeReply || got.End.Name != testkit.Completion {
		t.Errorf("%q and %q, %s", follower.Text, got.Text, got.End.Name)
	}
	asked.Rest()
}
