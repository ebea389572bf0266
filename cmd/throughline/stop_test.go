package main

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestServeAndStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.start(nil, "serve")
	p.Say("", "My cello teacher is called Ilse.")
	p.terminate()
	if !strings.Contains(p.logs.String(), `"msg":"stopping"`) {
		t.Errorf("the log is %s", p.logs)
	}
}

// A signal while replies of many kinds are read: those that end soon are complete, the others are
// interrupted and say so, whoever reads what another server generates is sent there, whoever comes is
// told to come again, and the exit code is 0.
func TestStopInMidStream(t *testing.T) {
	t.Parallel()
	soon := make(chan struct{})
	r := newRig(t, func(request *offline.Request) offline.Answer {
		answer := endless(request)
		if strings.Contains(request.Current, "short") {
			answer = offline.Answer{Text: spoken, Gate: soon, GateAfter: 4}
		}
		return answer
	})
	many := env{"MAX_STREAMS_PER_USER": "0"}
	stopping, staying := r.start(many, "serve"), r.start(many, "serve", "--no-workers")

	const each = 8
	var short, long, followed, follower []*testkit.Stream
	for range each {
		short = append(short, r.hear(stopping, "A short one."))
		long = append(long, r.hear(stopping, "An Endless one."))
		there := r.hear(staying, "A short one.")
		here := stopping.Resume(there.ChatID(), "")
		here.UntilText(heard)
		followed, follower = append(followed, there), append(follower, here)
	}
	if err := stopping.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "new messages are refused", func() bool {
		got, err := stopping.TryCall(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Too late."}, "Accept", "application/json")
		if err != nil {
			t.Fatalf("new messages are not even refused: %v", err)
		}
		return got.Status == http.StatusServiceUnavailable && got.Code() == "shutting_down" && got.Header.Get("Retry-After") != ""
	})
	close(soon)
	for i := range each {
		if got := short[i].Rest(); got.End.Name != testkit.Completion || got.Text != spoken {
			t.Errorf("a short one: %q, %s %v", got.Text, got.End.Name, got.End.Data)
		}
		if got := followed[i].Rest(); got.End.Name != testkit.Completion || got.Text != spoken {
			t.Errorf("one of the other server's: %q, %s %v", got.Text, got.End.Name, got.End.Data)
		}
		if got := long[i].Rest(); got.End.Code() != "interrupted" || got.Text != heard || got.End.Data["retryable"] != true {
			t.Errorf("a long one: %q, %s %v", got.Text, got.End.Name, got.End.Data)
		}
		r.checkReadOn(follower[i], staying)
	}
	if code := stopping.wait(); code != exitDone {
		t.Errorf("it ended with %d: %s", code, stopping.logs)
	}
	r.checkEnded(map[string]int{"complete " + spoken: 2 * each, "interrupted " + heard: each})
	staying.terminate()
}

// hear sends a message and reads what replies say at first.
func (r *rig) hear(p *process, content string) *testkit.Stream {
	r.t.Helper()
	s := p.Send("", testkit.Body{"content": content})
	s.UntilText(heard)
	return s
}

// checkReadOn wants a stream read to its end, there or at another server.
func (r *rig) checkReadOn(s *testkit.Stream, elsewhere *process) {
	r.t.Helper()
	got, err := s.TryRest()
	text := got.Text
	if errors.Is(err, testkit.ErrCut) {
		got = elsewhere.Resume(s.ChatID(), "", "Last-Event-ID", s.LastID()).Rest()
		text = s.Text + got.Text
	}
	if text != spoken || got.End.Name != testkit.Completion {
		r.t.Errorf("a reader of the other server's: %q, %s %v", text, got.End.Name, got.End.Data)
	}
}

// checkEnded wants so many replies with each status and text, and nothing that is still running.
func (r *rig) checkEnded(want map[string]int) {
	r.t.Helper()
	for row, count := range want {
		if n := testkit.Ask[int](r.t, r.pool, "select count(*) from messages where role = 'assistant' and status || ' ' || content = $1", row); n != count {
			r.t.Errorf("%d replies are %q, want %d", n, row, count)
		}
	}
	if n := testkit.Ask[int](r.t, r.pool, "select count(*) from messages where status = 'streaming'"); n != 0 {
		r.t.Errorf("%d replies stream for ever", n)
	}
	testkit.Eventually(r.t, "the spent deltas are gone", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from message_deltas") == 0
	})
}
