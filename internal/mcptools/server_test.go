package mcptools_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/mcptools"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// serveAlone serves tools without the server around them, and lets everybody in.
func serveAlone(t *testing.T, config mcptools.Config) *client {
	t.Helper()
	tools := mcptools.New(config)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tools.ServeMCP(w, r, auth.Principal{UserID: uuid.New()}, func() (func(), error) { return func() {}, nil })
	}))
	t.Cleanup(server.Close)
	r := &rig{t: t, base: server.URL}
	return r.connect(user{})
}

// busy is a conversation in which every thread is busy with a reply that nobody can find.
type busy struct{}

func (busy) Send(context.Context, auth.Principal, chat.Message) (*chat.Reply, error) {
	return nil, fault.New(fault.GenerationInProgress, "")
}

func (busy) Resume(context.Context, auth.Principal, uuid.UUID, *chat.Cursor) (*chat.Reply, error) {
	return nil, chat.ErrNothingToStream
}

func TestBusyForTooLong(t *testing.T) {
	t.Parallel()
	c := serveAlone(t, mcptools.Config{Chat: busy{}, Logger: (&testkit.Log{}).Logger(), BusyWait: 10 * time.Millisecond})
	c.try("chat", args{"prompt": "Hello", "continuation_id": uuid.NewString()}).wants("generation_in_progress", "Another reply is being written")
}

// TestPanic holds that a mistake of ours is one failed call and not the end of the process.
func TestPanic(t *testing.T) {
	t.Parallel()
	logs := &testkit.Log{}
	c := serveAlone(t, mcptools.Config{Chat: busy{}, Logger: logs.Logger()}) // without History
	for range 2 {
		found, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_threads"})
		if err != nil {
			t.Fatal(err)
		}
		read(t, found).wants("internal", "Something went wrong")
	}
	if text := logs.String(); text == "" {
		t.Error("nothing was logged")
	}
}
