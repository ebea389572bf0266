package app

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/offline"
)

// A signal while thirty replies run: those that end soon end as always, the others are stored as
// interrupted, every reader hears which of both it was, and Run returns nil.
func TestStopWithRunningStreams(t *testing.T) {
	t.Parallel()
	soon := make(chan struct{})
	never := make(chan struct{})
	r := newRig(t, func(request *offline.Request) offline.Answer {
		gate := soon
		if strings.Contains(request.Current, "endless") {
			gate = never
		}
		return offline.Answer{Text: "one two three four", Gate: gate, GateAfter: 2}
	}, env{"DRAIN_TIMEOUT": "2s"})
	const streams = 30
	open := make([]*stream, streams)
	for i := range open {
		content := "A short one."
		if i%3 == 0 {
			content = "An endless one."
		}
		open[i] = r.openMessage(r.node, "", body{"content": content})
		open[i].until(func(event) bool { return open[i].text == "one two " })
	}
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	within(t, "new messages are refused", func() bool {
		got := r.call(r.node, http.MethodPost, "/v1/message/first", body{"content": "Too late."}, "Accept", "application/json")
		return got.status == http.StatusServiceUnavailable && got.json(t)["code"] == "shutting_down" && got.header.Get("Retry-After") != ""
	})
	close(soon)
	got := make([]said, streams)
	failed := make([]error, streams)
	var all sync.WaitGroup
	for i := range open {
		all.Go(func() { got[i], failed[i] = open[i].tryRest() })
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
		row := r.stored(got[i].messageID)
		want := messageRow{role: "assistant", status: "complete", content: "one two three four"}
		if i%3 == 0 {
			want = messageRow{role: "assistant", status: "interrupted", content: "one two ", failure: "interrupted"}
		}
		if row != want || got[i].text != want.content || (got[i].end.name == "completion") != (want.status == "complete") {
			t.Errorf("stream %d: stored %+v, streamed %q and %s %v", i, row, got[i].text, got[i].end.name, got[i].end.data)
		}
	}
	if n := ask[int](r, "select count(*) from messages where status = 'streaming'"); n != 0 {
		t.Errorf("%d replies stream for ever", n)
	}
}

// A reader of a reply that another server generates does not hold up the stop.
func TestStopWithReaderOfAnotherServersReply(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, gateReplies(gate), nil)
	leaving := r.start(Role{API: true}, nil)
	s := r.openMessage(r.node, "", body{"content": "Speak."})
	s.until(func(e event) bool { return e.name == "content.delta" })
	chatID := s.events[0].data["chat_id"].(string)
	follower := r.open(leaving, http.MethodGet, "/v1/message/"+chatID+"/stream", nil)
	follower.until(func(e event) bool { return e.name == "message.started" })
	if err := leaving.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	close(gate)
	if got := s.rest(); got.end.name != "completion" {
		t.Errorf("the reply itself ended with %s", got.end.name)
	}
}

// What is wrong with the address is told at the start, and nothing is left running.
func TestNewFailsOnTakenAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	_, err := New(t.Context(), r.config(env{"HTTP_ADDR": r.app.Addr()}), Role{API: true}, r.app.logger)
	if err == nil || !strings.Contains(err.Error(), "HTTP_ADDR") {
		t.Errorf("got %v", err)
	}
}

// A fold that runs when the signal comes is ended, its lease given back, and its job left for the next.
func TestStopDuringFold(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindSummary {
			return offline.Answer{Fault: offline.FaultStall}
		}
		return offline.Answer{}
	}, env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "40", "MEMORY_K_RAW_TURNS": "1", "DRAIN_TIMEOUT": "500ms"})
	chatID := r.say("", "My cello teacher is called Ilse and I live in Graz.").chatID
	r.say(chatID, "On Tuesdays I practise the second suite in the church.")
	r.awaitModel("the fold asks the model", func(a offline.Request) bool { return a.Kind == offline.KindSummary })
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the stop took %s", took)
	}
	if leased := ask[bool](r, "select lease_token is not null from conversation_briefs"); leased {
		t.Error("the lease was not given back")
	}
	if got := ask[int](r, "select count(*) from river.river_job where kind = 'fold_brief' and state in ('available', 'retryable', 'scheduled')"); got != 1 {
		t.Errorf("%d jobs wait for the next worker", got)
	}
}
