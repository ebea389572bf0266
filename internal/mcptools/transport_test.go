package mcptools_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/testkit"
)

const accepts = "application/json, text/event-stream"

func rpc(method string, params any) testkit.Body {
	return testkit.Body{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	ann := testkit.Client{T: t, Base: r.base, Token: r.ann.token}
	call := rpc("tools/call", testkit.Body{"name": "chat", "arguments": testkit.Body{"prompt": "Hello"}})

	nobody := ann.Request(t.Context(), http.MethodPost, "/mcp", call, "Accept", accepts)
	nobody.Header.Del("Authorization")
	refused := ann.Do(nobody)
	if refused.Status != http.StatusUnauthorized || refused.Code() != "no_authorization" || refused.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without a token: %d %v %s", refused.Status, refused.Header, refused.Text)
	}
	forged := ann.Call(http.MethodPost, "/mcp", call, "Accept", accepts, "Authorization", "Bearer "+r.ann.token+"x")
	if forged.Status != http.StatusUnauthorized || forged.Code() != "bad_jwt" {
		t.Errorf("with a forged token: %d %s", forged.Status, forged.Text)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if refused := ann.Call(method, "/mcp", nil, "Accept", accepts); refused.Status != http.StatusMethodNotAllowed || refused.Header.Get("Allow") == "" {
			t.Errorf("%s: %d %s", method, refused.Status, refused.Text)
		}
	}
	large := rpc("tools/call", testkit.Body{"name": "chat", "arguments": testkit.Body{"prompt": strings.Repeat("x", 12<<20)}})
	if refused := ann.Call(http.MethodPost, "/mcp", large, "Accept", accepts); refused.Status != http.StatusRequestEntityTooLarge || refused.Code() != "body_too_large" {
		t.Errorf("a large body: %d %s", refused.Status, refused.Text)
	}
	for name, refused := range map[string]testkit.Answer{
		"no message of the protocol": ann.Call(http.MethodPost, "/mcp", testkit.Body{"prompt": "Hello"}, "Accept", accepts),
		"events alone":               ann.Call(http.MethodPost, "/mcp", call, "Accept", "text/event-stream"),
		"a version of long ago":      ann.Call(http.MethodPost, "/mcp", call, "Accept", accepts, "Mcp-Protocol-Version", "1999-01-01"),
		"an unknown method":          ann.Call(http.MethodPost, "/mcp", rpc("tools/sing", nil), "Accept", accepts),
	} {
		if refused.Status != http.StatusBadRequest || refused.Code() != "bad_request" || !strings.HasPrefix(refused.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %d %v %s", name, refused.Status, refused.Header, refused.Text)
		}
	}
	if n := r.count(`select count(*) from messages`); n != 0 {
		t.Errorf("%d messages were stored", n)
	}
}

// TestRebinding holds what the conformance suite's scenario dns-rebinding-protection asks for, with a token.
func TestRebinding(t *testing.T) {
	t.Parallel()
	for _, origins := range []string{"", "*"} {
		r := newRig(t, nil, env{"CORS_ORIGINS": origins})
		ann := testkit.Client{T: t, Base: r.base, Token: r.ann.token}
		begin := rpc("initialize", testkit.Body{
			"protocolVersion": "2025-11-25", "capabilities": testkit.Body{}, "clientInfo": testkit.Body{"name": "test", "version": "1"},
		})
		for host, want := range map[string]int{
			"evil.example.com": http.StatusForbidden, strings.TrimPrefix(r.base, "http://"): http.StatusOK, "localhost:8080": http.StatusOK,
		} {
			request := ann.Request(t.Context(), http.MethodPost, "/mcp", begin, "Accept", accepts, "Origin", "http://"+host)
			request.Host = host
			if got := ann.Do(request); got.Status != want {
				t.Errorf("CORS_ORIGINS=%q: %s: %d %s", origins, host, got.Status, got.Text)
			}
		}
	}
}

// TestNoSession holds that a session id opens nothing: each request is of the user whose token it brings.
func TestNoSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	ann, ben := testkit.Client{T: t, Base: r.base, Token: r.ann.token}, testkit.Client{T: t, Base: r.base, Token: r.ben.token}
	begin := ann.Call(http.MethodPost, "/mcp", rpc("initialize", testkit.Body{
		"protocolVersion": "2025-11-25", "capabilities": testkit.Body{}, "clientInfo": testkit.Body{"name": "test", "version": "1"},
	}), "Accept", accepts)
	if begin.Status != http.StatusOK || begin.Header.Get("Mcp-Session-Id") != "" {
		t.Fatalf("initialize: %d %v %s", begin.Status, begin.Header, begin.Text)
	}
	chat := rpc("tools/call", testkit.Body{"name": "chat", "arguments": testkit.Body{"prompt": "Hello"}})
	if said := ben.Call(http.MethodPost, "/mcp", chat, "Accept", accepts, "Mcp-Session-Id", "of-ann"); said.Status != http.StatusOK || !strings.Contains(said.Text, "continuation_id") {
		t.Fatalf("the call: %d %s", said.Status, said.Text)
	}
	if n := r.count(`select count(*) from chats where user_id = $1`, r.ben.id); n != 1 {
		t.Errorf("the user whose token it was has %d chats, want 1", n)
	}
	if n := r.count(`select count(*) from chats where user_id = $1`, r.ann.id); n != 0 {
		t.Errorf("the other one has %d chats, want 0", n)
	}
}

// TestLimitsOfBatch holds that each message of a request counts, not the request.
func TestLimitsOfBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"RATE_LIMIT_MESSAGES_PER_MINUTE": "2"})
	c := r.connect(r.ann)
	for range 2 {
		c.call("chat", args{"prompt": "Hello"})
	}
	c.try("chat", args{"prompt": "Hello"}).wants("over_request_rate_limit", "retry_after_seconds: ")
	c.call("list_threads", nil) // which asks no model
	if n := r.count(`select count(*) from messages where role = 'user'`); n != 2 {
		t.Errorf("%d messages were stored, want 2", n)
	}
}

// TestLogOfCalls holds that calls are logged without what was said.
func TestLogOfCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	c := r.connect(r.ann)
	c.call("chat", args{"prompt": "The canary sings.", "files": []any{args{"path": "canary.md", "content": "The canary sings."}}})
	c.try("get_thread", args{"continuation_id": "canary"}).wants("validation_failed")
	logs := r.logs.String()
	if !strings.Contains(logs, `"msg":"tool called","tool":"chat","user_id":"`+r.ann.id.String()) || !strings.Contains(logs, `"code":"validation_failed"`) {
		t.Errorf("the calls are not in the log:\n%s", logs)
	}
	if strings.Contains(logs, "canary") || strings.Contains(logs, r.ann.token) {
		t.Error("the log holds what was said, or the token")
	}
}
