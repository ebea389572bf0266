package main

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// recovery bounds how long after a crash anybody is left in the dark. The promise is 30 s, which make crash measures;
// a loaded machine may take longer.
const recovery = testkit.Patience / 2

// spoken is what endless replies begin with; heard is all of it that is ever said.
const spoken, heard = "Grüße aus 世界 👩‍👩‍👧 und noch viel mehr, aber das sagt er nie.", "Grüße aus 世界 👩‍👩‍👧 "

// endless makes replies to what asks for it stop in the middle of a text and go on never. All others are
// the built-in model's.
func endless(request *offline.Request) offline.Answer {
	if strings.Contains(request.Current, "Endless") {
		return offline.Answer{Text: spoken, Gate: make(chan struct{}), GateAfter: 4}
	}
	return offline.Answer{}
}

// A server is killed in the middle of a reply. Who reads it there sees the connection break and reads on
// at another one, where somebody else reads as well: both learn within the promised time that it was
// interrupted, with every word of it, and the chat goes on.
func TestKillServeInMidStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, endless)
	killed := r.start(nil, "serve", "--no-workers")
	left := r.start(nil, "serve", "--no-workers") // nobody sweeps
	message := testkit.Body{"content": "Endless.", "client_message_id": uuid.NewString()}
	asked := killed.Send("", message)
	asked.UntilText(heard)
	follower := left.Resume(asked.ChatID(), "")
	follower.UntilText(heard)

	killed.kill()
	began := time.Now()
	if _, err := asked.TryRest(); !errors.Is(err, testkit.ErrCut) {
		t.Errorf("the reader there: %v", err)
	}
	phone := left.Resume(asked.ChatID(), "", "Last-Event-ID", asked.LastID())
	if got := left.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": asked.ChatID(),
		"content": "Are you there?"}); got.Code() != "generation_in_progress" {
		t.Errorf("before anybody can know: %d %s", got.Status, got.Text)
	}
	for name, got := range map[string]testkit.Said{"follower": follower.Rest(), "phone": phone.Rest()} {
		if got.End.Name != testkit.Failed || got.End.Code() != "interrupted" || got.End.Data["retryable"] != true ||
			got.End.Data["content_length"] != float64(len([]rune(heard))) || name == "phone" && got.Text != "" {
			t.Errorf("the %s has %q and %s %v", name, got.Text, got.End.Name, got.End.Data)
		}
	}
	if took := time.Since(began); took > recovery {
		t.Errorf("it took %s", took)
	}
	if got := testkit.Ask[string](t, r.pool, "select status || ' ' || content from messages where role = 'assistant'"); got != "interrupted "+heard {
		t.Errorf("stored %q", got)
	}
	if n := testkit.Ask[int](t, r.pool, "select count(*) from message_deltas"); n != 0 {
		t.Errorf("%d deltas are left over", n)
	}
	left.Say(asked.ChatID(), "Are you there?")
	left.terminate()
}

// A signal ends a server with the code 0. Replies that may end soon are completed, and new ones are refused.
func TestServeAndStop(t *testing.T) {
	t.Parallel()
	soon := make(chan struct{})
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Current != "A short one." { // one that came just before the end is not held
			return offline.Answer{}
		}
		return offline.Answer{Text: spoken, Gate: soon, GateAfter: 4}
	})
	p := r.start(nil, "serve")
	reply := p.Send("", testkit.Body{"content": "A short one."})
	reply.UntilText(heard)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "new messages are refused", func() bool {
		got, err := p.TryCall(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Too late."}, "Accept", "application/json")
		if err != nil {
			t.Fatalf("new messages are not even refused: %v", err)
		}
		return got.Status == http.StatusServiceUnavailable && got.Code() == "shutting_down" && got.Header.Get("Retry-After") != ""
	})
	close(soon)
	if got := reply.Rest(); got.End.Name != testkit.Completion || got.Text != spoken {
		t.Errorf("%q, %s %v", got.Text, got.End.Name, got.End.Data)
	}
	if code := p.wait(); code != exitDone || !strings.Contains(p.logs.String(), `"msg":"stopping"`) {
		t.Errorf("it ended with %d: %s", code, p.logs)
	}
}

// The image's health check has nothing but the program: no shell, no curl.
func TestHealth(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	server := r.start(env{"HTTP_ADDR": "0.0.0.0:0"}, "serve", "--no-workers")
	_, port, err := net.SplitHostPort(testkit.HostOf(server.Base))
	if err != nil {
		t.Fatal(err)
	}
	at := env{"HTTP_ADDR": ":" + port}
	unready := r.start(env{"DATABASE_URL": nobody, "DATABASE_DIRECT_URL": nobody}, "serve", "--no-workers")
	there := env{"HTTP_ADDR": testkit.HostOf(unready.Base)}
	for _, c := range []struct {
		name string
		env  env
		args []string
		code int
		says string
	}{
		{"a server that lives", at, []string{"health"}, exitDone, `"status":"ok"`},
		{"a server that can serve", at, []string{"health", "--ready"}, exitDone, `"status":"ready"`},
		{"by all addresses", env{"HTTP_ADDR": "0.0.0.0:" + port}, []string{"health"}, exitDone, `"version":`},
		{"a server that cannot serve lives all the same", there, []string{"health"}, exitDone, `"status":"ok"`},
		{"and is not ready", there, []string{"health", "--ready"}, exitFailed, "database_unreachable"},
		{"nobody there", env{"HTTP_ADDR": "127.0.0.1:1"}, []string{"health"}, exitFailed, "connection refused"},
		{"another program", env{"HTTP_ADDR": testkit.HostOf(r.model.BaseURL())}, []string{"health"}, exitFailed, "401"},
		{"an address that is none", env{"HTTP_ADDR": "nowhere"}, []string{"health"}, exitUsage, "HTTP_ADDR"},
	} {
		code, stdout, stderr := finish(t, c.env, c.args...)
		if said := stdout + stderr; code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit code %d, %s", c.name, code, said)
		}
	}
	server.terminate()
}
