package system

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A signal while thirty replies run: those that end soon are completed, the others are stored as interrupted, every
// reader gets the right terminal event, and Run returns nil.
func TestStopWithRunningStreams(t *testing.T) {
	t.Parallel()
	soon := make(chan struct{})
	never := make(chan struct{})
	r := newStoppedRig(t, testkit.NewDatabase(t), func(request *offline.Request) offline.Answer {
		gate := soon
		if strings.Contains(request.Current, "endless") {
			gate = never
		}
		return offline.Answer{Text: "one two three four", Gate: gate, GateAfter: 2}
	}, nil).startFirst(10 * time.Second) // long enough for a busy machine to end the short ones
	const streams = 30
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
	got := make([]testkit.Said, streams)
	failed := make([]error, streams)
	var all sync.WaitGroup
	for i := range open {
		all.Go(func() { got[i], failed[i] = open[i].TryRest() })
	}
	all.Wait()
	if err := <-stopped; err != nil {
		t.Errorf("run: %v", err)
	}
	for i := range got {
		if failed[i] != nil {
			t.Errorf("stream %d: %v", i, failed[i])
			continue
		}
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
	notifiedAndPolling(t, func(t *testing.T, start replicas) {
		gate := make(chan struct{})
		r, leaving := start(testkit.HeldReply(unicodeReply, 4, gate))
		asked := r.Send("", testkit.Body{"content": "Speak."})
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
		if got := asked.Rest(); got.Text != unicodeReply || got.End.Name != testkit.Completion {
			t.Errorf("the reply itself is %q and ended with %s", got.Text, got.End.Name)
		}
	})
}

// A client that waits on a stopping server for another server's reply, as one JSON object, gets a 503.
func TestStopWithWaiterForAnotherServersReply(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply(unicodeReply, 4, gate), nil)
	leaving := r.replica()
	message := testkit.Body{"content": "Speak.", "client_message_id": uuid.NewString()}
	asked := r.Send("", message)
	asked.UntilText(firstWords(unicodeReply, 4))
	waiter := make(chan testkit.Answer, 1)
	go func() {
		got, err := leaving.TryCall(http.MethodPost, "/v1/message/first", message, "Accept", "application/json")
		if err != nil {
			t.Error(err)
		}
		waiter <- got
	}()
	testkit.Eventually(t, "it waits", func() bool {
		return strings.Contains(leaving.Call(http.MethodGet, "/metrics", nil).Text, "throughline_followed_replies 1")
	})
	leaving.stopNow()
	if got := testkit.Receive(t, "an answer", waiter); got.Status != http.StatusServiceUnavailable || got.Code() != "shutting_down" || got.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.Status, got.Text)
	}
	close(gate)
	got := r.Call(http.MethodPost, "/v1/message/first", message, "Accept", "application/json")
	if got.Status != http.StatusOK || got.JSON(t)["content"] != unicodeReply {
		t.Errorf("%d %s", got.Status, got.Text)
	}
	asked.Rest()
}

// New reports an unusable address, and leaves nothing running.
func TestNewFailsOnTakenAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	_, err := app.New(t.Context(), r.config(env{"HTTP_ADDR": r.app.Addr()}), app.Role{API: true}, discard)
	if err == nil || !strings.Contains(err.Error(), "HTTP_ADDR") {
		t.Errorf("got %v", err)
	}
}

// A signal ends a running fold, releases its lease, and leaves its job to the next worker.
func TestStopDuringFold(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewDatabase(t), func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindSummary {
			return offline.Answer{Fault: offline.FaultStall}
		}
		return offline.Answer{}
	}, foldAtOnce).startFirst(500 * time.Millisecond)
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	r.Say(chatID, "On Tuesdays I practise the second suite in the church.")
	r.model.AwaitRequest(t, "the fold asks the model", func(a offline.Request) bool { return a.Kind == offline.KindSummary })
	began := time.Now()
	r.stopNow()
	if took := time.Since(began); took > testkit.Patience/2 {
		t.Errorf("the stop took %s", took)
	}
	if leased := testkit.Ask[bool](t, r.pool, "select lease_token is not null from conversation_briefs"); leased {
		t.Error("the lease was not given back")
	}
	if got := r.count("select count(*) from river.river_job where kind = 'fold_brief' and state in ('available', 'retryable', 'scheduled')"); got != 1 {
		t.Errorf("%d jobs wait for the next worker", got)
	}
}
