package clients_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const (
	toolsScript = "testdata/threads.js"
	toolsFile   = "package spline\n\nfunc Reticulate(n int) int { return n / 0 }\n"
)

// TestTools drives the tools with the official TypeScript client.
func TestTools(t *testing.T) {
	t.Parallel()
	requireTools(t, toolsScript)
	r := newRig(t)
	stranger := testkit.Token(t, testkit.NewUser(t, r.db))
	mark := uuid.NewString()
	first, second, third := "The splines are Ilse's. "+mark, "Why does it panic? "+mark, "Review it. "+mark
	cues := startCues(t, map[string]func(){"goOn": r.hold(first, reply, half)})
	out := r.runNode(filepath.Join("mcp", toolsScript), env{"OTHER_TOKEN": stranger, "MARK": mark, "FILE": toolsFile, "CUES": cues})
	var said struct{ Replies [3]string }
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.wantPrompt(first, nil)
	r.wantPrompt(second, []string{first, said.Replies[0]})
	r.wantPrompt(third, []string{first, said.Replies[0], second, said.Replies[1]})
	if asked := r.toolPrompt("Whose are they? " + mark); strings.Contains(asked.Text, "Ilse") {
		t.Errorf("a stranger's prompt holds the thread: %s", asked.Text)
	}
}

// requireTools looks at a script, which also tells the go command that a result is stale once it changed.
func requireTools(t *testing.T, script string) {
	t.Helper()
	for _, file := range []string{"node_modules/@modelcontextprotocol/sdk", "node_modules/@modelcontextprotocol/conformance", script} {
		if _, err := os.Stat(filepath.Join("mcp", file)); err != nil {
			t.Fatalf("%v: run scripts/setup test", err)
		}
	}
}

// toolPrompt is what the model got with that message.
func (r *rig) toolPrompt(content string) offline.Request {
	r.t.Helper()
	return r.model.AwaitRequest(r.t, "the model is asked", func(q offline.Request) bool {
		return q.Kind == offline.KindReply && strings.Contains(q.Current, content)
	})
}

// wantPrompt holds that the prompt with that message holds what came before, and the file once.
func (r *rig) wantPrompt(content string, before []string) {
	r.t.Helper()
	asked := r.toolPrompt(content).Text
	for _, said := range before {
		if !strings.Contains(asked, said) {
			r.t.Errorf("the prompt of %q does not hold %q:\n%s", content, said, asked)
		}
	}
	if n := strings.Count(asked, "func Reticulate(n int)"); n != 1 {
		r.t.Errorf("the prompt of %q holds the file %d times, want once:\n%s", content, n, asked)
	}
}
