package mcptools_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/mcptools"
)

// nothing is a server on which there is no chat: what comes this far was understood.
type nothing struct{ history.Store }

func (nothing) Send(context.Context, auth.Principal, chat.Message) (*chat.Reply, error) {
	return nil, fault.NoChat()
}

func (nothing) Resume(context.Context, auth.Principal, uuid.UUID, *chat.Cursor) (*chat.Reply, error) {
	return nil, fault.NoChat()
}

func (nothing) ListChats(context.Context, auth.Principal, history.ListQuery) (history.ChatPage, error) {
	return history.ChatPage{}, nil
}

func (nothing) FindChat(context.Context, auth.Principal, uuid.UUID) (history.Chat, error) {
	return history.Chat{}, fault.NoChat()
}

func (nothing) ListMessages(context.Context, auth.Principal, uuid.UUID, history.MessagesQuery) (history.MessagePage, error) {
	return history.MessagePage{}, fault.NoChat()
}

func (nothing) DeleteChat(context.Context, auth.Principal, uuid.UUID, history.ChatDeletion) error {
	return fault.NoChat()
}

func (nothing) Search(context.Context, auth.Principal, history.SearchQuery) ([]history.SearchResult, error) {
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
	server := mcptools.New(mcptools.Config{Chat: nothing{}, History: nothing{}, Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", accepts)
		answer := httptest.NewRecorder()
		server.ServeMCP(answer, request, auth.Principal{UserID: uuid.New()}, func() (func(), error) { return func() {}, nil })
		if answer.Code >= http.StatusInternalServerError || strings.Contains(answer.Body.String(), string(fault.Internal)+":") {
			t.Fatalf("%q is answered %d %s", body, answer.Code, answer.Body)
		}
	})
}
