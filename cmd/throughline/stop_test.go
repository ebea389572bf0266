package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

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
