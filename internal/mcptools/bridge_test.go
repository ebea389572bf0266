package mcptools_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/mcptools"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// bridged is a program that reaches the server through a bridge.
type bridged struct {
	*client
	logs  *testkit.Log
	ended chan error
}

// tokens gives one after another, the last one for ever.
func tokens(all ...string) (fetch func(context.Context) (string, error), fetched *atomic.Int64) {
	fetched = &atomic.Int64{}
	return func(context.Context) (string, error) {
		n := int(fetched.Add(1))
		return all[min(n, len(all))-1], nil
	}, fetched
}

// bridge connects a program with the tools at base.
func bridge(t *testing.T, base string, token func(context.Context) (string, error)) *bridged {
	t.Helper()
	toBridge, fromProgram := io.Pipe()
	toProgram, fromBridge := io.Pipe()
	b := &bridged{client: &client{t: t, progress: make(chan *mcp.ProgressNotificationParams, 1000)}, logs: &testkit.Log{}, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		err := mcptools.Bridge(ctx, mcptools.BridgeConfig{
			URL: base + "/mcp", Token: token, In: toBridge, Out: fromBridge, Logger: b.logs.Logger(), Version: "1.2.3",
		})
		_ = fromBridge.CloseWithError(errors.New("the bridge has ended"))
		b.ended <- err
		close(b.ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range b.ended { // until it is closed
		}
	})
	program := mcp.NewClient(&mcp.Implementation{Name: "editor"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, heard *mcp.ProgressNotificationClientRequest) { b.progress <- heard.Params },
	})
	var err error
	b.ClientSession, err = program.Connect(t.Context(), &mcp.IOTransport{Reader: toProgram, Writer: fromProgram}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.logs)
	}
	t.Cleanup(func() { _ = b.Close() }) // it may be closed already
	return b
}

func TestBridge(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	token, _ := tokens(r.ann.token)
	near, far := bridge(t, r.base, token), r.connect(r.ann)
	if names, want := toolNames(t, near.client), toolNames(t, far); !slices.Equal(names, want) || len(names) != 13 {
		t.Errorf("the tools are %v, want %v", names, want)
	}
	if near.InitializeResult().Instructions != far.InitializeResult().Instructions {
		t.Errorf("the instructions: %q", near.InitializeResult().Instructions)
	}
	thread := near.call("chat", args{"prompt": "The osprey nests here."}).thread()
	if again := far.call("debug", args{"prompt": "Why?", "continuation_id": thread}); again.thread() != thread {
		t.Errorf("another thread over HTTP: %v", again.content)
	}
	near.try("chat", args{"prompt": ""}).wants("validation_failed", "prompt")
	near.try("get_thread", args{"continuation_id": "x"}).wants("validation_failed", "continuation_id")
	if err := near.Close(); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, "the bridge's end", near.ended); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
}

func toolNames(t *testing.T, c *client) []string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func TestBridgeProgress(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply("one two three", 2, gate), nil)
	token, _ := tokens(r.ann.token)
	b := bridge(t, r.base, token)
	done := make(chan result, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "chat", Arguments: args{"prompt": "Count."}}
		params.SetProgressToken(7)
		found, err := b.CallTool(t.Context(), params)
		if err != nil {
			t.Error(err)
			found = &mcp.CallToolResult{}
		}
		done <- read(t, found)
	}()
	heard := testkit.Receive(t, "progress", b.progress)
	if heard.ProgressToken != 7.0 && heard.ProgressToken != int64(7) || heard.Progress <= 0 {
		t.Errorf("progress: %T %+v", heard.ProgressToken, heard)
	}
	close(gate)
	if answer := testkit.Receive(t, "the result", done); answer.field("reply") != "one two three" {
		t.Errorf("the reply is %q", answer.field("reply"))
	}
}

// TestBridgeRenewsToken holds that an editor may stay open longer than a token lasts.
func TestBridgeRenewsToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	var expired atomic.Bool
	address, err := url.Parse(r.base)
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(address)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if expired.Load() && q.Header.Get("Authorization") == "Bearer "+r.ben.token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		behind.ServeHTTP(w, q)
	}))
	t.Cleanup(front.Close)
	token, fetched := tokens(r.ben.token, r.ann.token)
	b := bridge(t, front.URL, token)
	b.call("list_threads", nil)
	if n := fetched.Load(); n != 1 {
		t.Errorf("the token was fetched %d times, want 1", n)
	}
	expired.Store(true)
	b.call("chat", args{"prompt": "Hello"})
	b.call("list_threads", nil)
	if n := fetched.Load(); n != 2 {
		t.Errorf("the token was fetched %d times, want 2", n)
	}
	if n := r.count(`select count(*) from chats where user_id = $1`, r.ann.id); n != 1 {
		t.Errorf("the call was made %d times with the new token, want 1", n)
	}
}

func TestBridgeRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	for name, token := range map[string]func(context.Context) (string, error){
		"refuses the access token": func(context.Context) (string, error) { return "nonsense", nil },
		"no token today":           func(context.Context) (string, error) { return "", errors.New("no token today") },
	} {
		logs := &testkit.Log{}
		in, out := io.Pipe()
		err := mcptools.Bridge(t.Context(), mcptools.BridgeConfig{URL: r.base + "/mcp", Token: token, In: in, Out: out, Logger: logs.Logger()})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error that says %q, got %v", name, err)
		}
		if strings.Contains(logs.String(), "nonsense") {
			t.Error("the log holds the token")
		}
	}
}

// TestBridgeWhileServerIsAway holds that a restart of the server is a failed call, and nothing lasting.
func TestBridgeWhileServerIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	address, err := url.Parse(r.base)
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Int64
	behind := httputil.NewSingleHostReverseProxy(address)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch status := int(away.Load()); status {
		case 0:
			behind.ServeHTTP(w, q)
		case 1:
			panic(http.ErrAbortHandler) // a connection that breaks
		default:
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(front.Close)
	token, _ := tokens(r.ann.token)
	b := bridge(t, front.URL, token)
	for _, status := range []int64{1, http.StatusBadGateway, http.StatusNotFound} {
		away.Store(status)
		b.try("list_threads", nil).wants("unreachable", front.URL)
		away.Store(0)
		b.call("list_threads", nil)
	}
}
