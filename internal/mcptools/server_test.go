package mcptools_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/mcptools"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// serveAlone serves tools without the server around them, and lets everybody in.
func serveAlone(t *testing.T, config mcptools.Config) *client {
	tools := mcptools.New(config)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tools.ServeMCP(w, r, auth.Principal{UserID: uuid.New()}, func(bool) (func(), error) { return func() {}, nil })
	}))
	t.Cleanup(server.Close)
	r := &rig{t: t, base: server.URL}
	return r.connect(user{})
}

func TestBusyForTooLong(t *testing.T) {
	t.Parallel()
	busy := nothing{sends: fault.New(fault.GenerationInProgress, "")}
	c := serveAlone(t, mcptools.Config{Chat: busy, Logger: (&testkit.Log{}).Logger(), BusyWait: 10 * time.Millisecond})
	c.try("chat", args{"prompt": "Hello", "continuation_id": uuid.NewString()}).wants("generation_in_progress", "Another reply is being written")
}

// TestPanic holds that a mistake of ours is one failed call and not the end of the process.
func TestPanic(t *testing.T) {
	t.Parallel()
	logs := &testkit.Log{}
	c := serveAlone(t, mcptools.Config{Chat: nothing{}, Logger: logs.Logger()}) // without History
	for range 2 {
		found, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_threads"})
		require.NoError(t, err)
		read(t, found).wants("internal", "Something went wrong")
	}
	assert.True(t, logs.String() != "", "nothing was logged")
}

// Details of every kind are told in words.
func TestDetailsAreInWords(t *testing.T) {
	t.Parallel()
	at, none := time.Date(2026, 11, 23, 21, 33, 30, 0, time.UTC), (*int)(nil)
	refusal := &fault.Error{Code: fault.ChatExpired, RetryAfter: time.Minute, Details: map[string]any{
		"expired_at": at, "ends": &at, "variants": []string{"arco", "arco-pro"}, "chat_id": uuid.Nil, "most": 7, "none": none,
		"fields": map[string]string{"a": "b c"}, "many": []any{1, "two", nil},
	}}
	c := serveAlone(t, mcptools.Config{Chat: nothing{sends: refusal}, Logger: (&testkit.Log{}).Logger()})
	c.try("chat", args{"prompt": "Hello"}).wants("chat_expired", "expired_at: 2026-11-23T21:33:30Z\n", "ends: 2026-11-23T21:33:30Z\n",
		"variants: arco, arco-pro", "continuation_id: "+uuid.Nil.String(), "most: 7", "none: null", `fields: {"a":"b c"}`, "many: 1, two, null",
		"retry_after_seconds: 60")
}

// With any value of any argument of any tool, the refusal names it and does not repeat what was sent.
func TestWrongArgumentsAreToldInWords(t *testing.T) {
	t.Parallel()
	c := serveAlone(t, mcptools.Config{Chat: nothing{sends: fault.NoChat()}, History: nothing{}, Logger: (&testkit.Log{}).Logger()})
	listed, err := c.ListTools(t.Context(), nil)
	require.NoError(t, err)
	refused := 0
	for _, tool := range listed.Tools {
		properties, _ := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		require.NotEmpty(t, properties, tool.Name)
		for name := range properties {
			for _, wrong := range []any{
				args{"needle": args{"needle": 1}}, []any{"needle", "a needle"}, []any{args{"path": 1, "needle": 2}}, -1e9, 1e9, 1.5, true,
				strings.Repeat("needle ", 40_000),
			} {
				found, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: args{name: wrong, "prompt of": "needle"}})
				require.NoError(t, err)
				said := read(t, found)
				require.Truef(t, said.failed, "%s took %s: %v", tool.Name, name, wrong)
				assert.LessOrEqual(t, len(said.text), 300)
				assert.NotContains(t, said.text, "needle")
				refused++
				found, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: args{name: wrong}})
				require.NoError(t, err)
				if said = read(t, found); said.failed {
					assert.NotContains(t, said.text, "needle")
				}
			}
		}
	}
	require.Greater(t, refused, 100)
}

const accepts = "application/json, text/event-stream"

func rpc(method string, params any) testkit.Body {
	return testkit.Body{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
}

// initialize begins a session, which there is none of.
var initialize = rpc("initialize", testkit.Body{
	"protocolVersion": "2025-11-25", "capabilities": testkit.Body{}, "clientInfo": testkit.Body{"name": "test", "version": "1"},
})

func (r *rig) refusals() {
	t := r.t
	ann := testkit.Client{T: t, Base: r.base, Token: r.ann.token}
	call := rpc("tools/call", testkit.Body{"name": "chat", "arguments": testkit.Body{"prompt": "Hello"}})
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		refused := ann.Call(method, "/mcp", nil, "Accept", accepts)
		assert.Truef(t, refused.Status == http.StatusMethodNotAllowed && refused.Header.Get("Allow") != "",
			"%s: %d %s", method, refused.Status, refused.Text)
	}
	for name, refused := range map[string]testkit.Answer{
		"no message of the protocol": ann.Call(http.MethodPost, "/mcp", testkit.Body{"prompt": "Hello"}, "Accept", accepts),
		"events alone":               ann.Call(http.MethodPost, "/mcp", call, "Accept", "text/event-stream"),
		"a version of long ago":      ann.Call(http.MethodPost, "/mcp", call, "Accept", accepts, "Mcp-Protocol-Version", "1999-01-01"),
		"an unknown method":          ann.Call(http.MethodPost, "/mcp", rpc("tools/sing", nil), "Accept", accepts),
	} {
		kind := refused.Header.Get("Content-Type")
		assert.Truef(t, refused.Status == http.StatusBadRequest && refused.Code() == "bad_request" && strings.HasPrefix(kind, "application/json"),
			"%s: %d %s %s", name, refused.Status, kind, refused.Text)
	}
	n := r.stored()
	assert.Truef(t, n == 0, "%d messages were stored", n)
}

// noSession holds that a session id opens nothing: each request is of the user whose token it brings.
func (r *rig) noSession() {
	t := r.t
	ann, ben := testkit.Client{T: t, Base: r.base, Token: r.ann.token}, testkit.Client{T: t, Base: r.base, Token: r.ben.token}
	begin := ann.Call(http.MethodPost, "/mcp", initialize, "Accept", accepts)
	require.Truef(t, begin.Status == http.StatusOK && begin.Header.Get("Mcp-Session-Id") == "",
		"initialize: %d %v %s", begin.Status, begin.Header, begin.Text)
	chat := rpc("tools/call", testkit.Body{"name": "chat", "arguments": testkit.Body{"prompt": "Hello"}})
	said := ben.Call(http.MethodPost, "/mcp", chat, "Accept", accepts, "Mcp-Session-Id", "of-ann")
	require.Truef(t, said.Status == http.StatusOK && strings.Contains(said.Text, "continuation_id"),
		"the call: %d %s", said.Status, said.Text)
	n := r.count(`select count(*) from chats where user_id = $1`, r.ben.id)
	assert.Truef(t, n == 1, "the user whose token it was has %d chats, want 1", n)
	n = r.count(`select count(*) from chats where user_id = $1`, r.ann.id)
	assert.Truef(t, n == 0, "the other one has %d chats, want 0", n)
}

// nothing is a server on which there is no chat and no running reply: what comes this far was understood.
type nothing struct {
	api.Store
	sends error
}

func (n nothing) Send(context.Context, auth.Principal, chat.Message) (*chat.Reply, error) {
	return nil, n.sends
}

func (nothing) Resume(context.Context, auth.Principal, uuid.UUID, *chat.Cursor) (*chat.Reply, error) {
	return nil, chat.ErrNothingToStream
}

func (nothing) ListChats(context.Context, auth.Principal, api.ListQuery) (api.ChatPage, error) {
	return api.ChatPage{}, nil
}

func (nothing) FindChat(context.Context, auth.Principal, uuid.UUID) (api.Chat, error) {
	return api.Chat{}, fault.NoChat()
}

func (nothing) ListMessages(context.Context, auth.Principal, uuid.UUID, api.MessagesQuery) (api.MessagePage, error) {
	return api.MessagePage{}, fault.NoChat()
}

func (nothing) DeleteChat(context.Context, auth.Principal, uuid.UUID, api.ChatDeletion) error {
	return fault.NoChat()
}

func (nothing) Search(context.Context, auth.Principal, api.SearchQuery) ([]api.SearchResult, error) {
	return nil, nil
}

// Whatever a client sends, the protocol's library and the tools answer it, and no panic or failure of ours is told.
func FuzzTools(f *testing.F) {
	call := func(tool, arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
	}
	for _, seed := range []string{
		"", "{}", "[]", "null", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		call("chat", `{"prompt":"a","files":[{"path":"a","content":"b"}],"continuation_id":"x"}`), call("debug", `{"prompt":1}`), call("codereview", "null"),
		call("chat", "[[[[]]]]"),
		call("search_history", `{"query":"a","limit":-1}`), call("list_threads", `{"limit":1e9,"cursor":"AAAA"}`),
		call("get_thread", `{"continuation_id":"`+uuid.NewString()+`"}`),
		call("forget_thread", `{"continuation_id":"\u0000"}`), call("nothing", "{}"), call("chat", `{"prompt":"\ud800"}`),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	server := mcptools.New(mcptools.Config{Chat: nothing{sends: fault.NoChat()}, History: nothing{}, Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", accepts)
		answer := httptest.NewRecorder()
		server.ServeMCP(answer, request, auth.Principal{UserID: uuid.New()}, func(bool) (func(), error) { return func() {}, nil })
		require.Truef(t, answer.Code < http.StatusInternalServerError && !strings.Contains(answer.Body.String(), string(fault.Internal)+":"),
			"%q is answered %d %s", body, answer.Code, answer.Body)
	})
}
