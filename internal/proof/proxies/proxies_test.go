package proxies

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// each runs a test with each proxy, at the same time.
func each(t *testing.T, test func(t *testing.T, k kind)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// A client says that it takes compressed answers, as all browsers do.
var compressed = []string{"Accept-Encoding", "gzip, deflate, br"}

// The first word of a reply arrives although nothing follows it, and a silence of any length does not end the stream.
func TestWordsArriveAtOnceAndSilenceIsSurvived(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		r := newRig(t)
		phone := r.behind(k)
		release := r.hold("Speak.")
		request := phone.Request(t.Context(), http.MethodPost, "/v1/message/first", testkit.Body{"content": "Speak."}, compressed...)
		response, err := phone.HTTP.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }() // read to its end
		require.Truef(t, response.ProtoMajor == 2 && response.Header.Get("Content-Encoding") == "" && response.StatusCode == http.StatusOK,
			"%s %s %v", response.Proto, response.Status, response.Header)
		lines := bufio.NewScanner(response.Body)
		await(t, lines, `"delta":"`+heard)
		await(t, lines, ": ping")
		release()
		await(t, lines, "event: completion")
		for lines.Scan() {
			continue // to the end
		}
		assert.NoError(t, lines.Err())
	})
}

// await reads lines up to one that contains a text.
func await(t testing.TB, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the stream ended before %q: %v", text, lines.Err())
}

// A client that leaves is noticed, and resumes what it missed. So does one whose connection breaks behind the proxy.
func TestLeavingBreakingAndResuming(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		r := newRig(t)
		phone := r.behind(k)
		release := r.hold("Speak.")
		left := phone.Send("", testkit.Body{"content": "Speak."}, compressed...)
		left.UntilText(heard)
		left.Close()
		r.awaitStreams(0)

		cut := phone.Resume(left.ChatID(), "", "Last-Event-ID", left.LastID())
		cut.Until(func(e testkit.Event) bool { return e.Name == testkit.Started })
		r.network.Down()
		// Some proxies hide it, so that no client may take the end of an answer for the end of a reply.
		if inOrder := endsInOrder(cut); inOrder && k.breaks {
			t.Error("a connection that breaks behind the proxy looks like the end of the answer")
		} else if cut.Events[len(cut.Events)-1].Terminal() {
			t.Errorf("the proxy made up %v", cut.Events)
		}
		r.network.Up()

		release()
		var resumed *testkit.Stream
		testkit.Eventually(t, "it answers again", func() (ok bool) {
			var err error
			resumed, err = phone.TryOpen(http.MethodGet, testkit.ResumePath(left.ChatID(), ""), nil, "Last-Event-ID", left.LastID())
			return err == nil && resumed.Response.StatusCode == http.StatusOK
		})
		got := resumed.Rest()
		assert.Truef(t, left.Text+got.Text == spoken && got.End.Name == testkit.Completion,
			"%q and %q, then %s", left.Text, got.Text, got.End.Name)
	})
}

// endsInOrder reads the rest, and reports whether the connection told the end of the answer.
func endsInOrder(s *testkit.Stream) bool {
	for {
		if _, err := s.Next(); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// awaitStreams waits until so many clients are being streamed to.
func (r *rig) awaitStreams(want int) {
	testkit.Eventually(r.t, "the server knows who listens", func() bool {
		return strings.Contains(r.direct.Call(http.MethodGet, "/metrics", nil).Text, "throughline_open_streams "+string(rune('0'+want))+"\n")
	})
}

// While the only server is away the proxy says 502 or 503. Clients send the same again, and there is one reply.
func TestARestartIsSurvived(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		r := newRig(t)
		phone := r.behind(k)
		r.hold("Speak.")
		first := phone.Send("", testkit.Body{"content": "Speak.", "client_message_id": uuid.NewString()})
		first.UntilText(heard)
		r.stop()
		got, err := first.TryRest()
		assert.Truef(t, err != nil || got.End.Code() == "interrupted",
			"the server stopped: %s %v", got.End.Name, got.End.Data)
		second := testkit.Body{"chat_id": first.ChatID(), "content": "Are you there?", "client_message_id": uuid.NewString()}
		send := func() testkit.Answer {
			got, err := phone.TryCall(http.MethodPost, "/v1/message", second, "Accept", "application/json")
			if err != nil {
				t.Logf("while it is away: %v", err)
			}
			return got
		}
		if got := send(); got.Status != http.StatusBadGateway && got.Status != http.StatusServiceUnavailable {
			t.Errorf("no server is there: %d %s", got.Status, got.Text)
		}
		r.start()
		testkit.Eventually(t, "it answers again", func() bool { return send().Status == http.StatusOK })
		found := phone.Call(http.MethodGet, "/v1/chats/"+first.ChatID()+"/messages", nil)
		n := strings.Count(found.Text, `"role":"assistant"`)
		assert.Truef(t, n == 2, "%d replies: %s", n, found.Text)
	})
}

// Large bodies pass, refusals of the server's are passed on, and so is everything beside /v1.
func TestOtherRequestsPass(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		r := newRig(t)
		phone := r.behind(k)
		// 13 MiB, more than the server takes for anything but an import, with little to store.
		large := strings.Repeat(`{"role":"user",`+strings.Repeat(" ", 270_000)+`"content":"la"}`+"\n", 50)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, phone.Base+"/v1/chats/import", strings.NewReader(large))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+phone.Token)
		request.Header.Set("Content-Type", "application/x-ndjson")
		got := phone.Do(request)
		assert.Truef(t, got.Status == http.StatusOK && got.JSON(t)["messages"] == 50.0,
			"a large import: %d %s", got.Status, got.Text)
		got = phone.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": large})
		assert.Truef(t, got.Status == http.StatusRequestEntityTooLarge && got.Code() == "body_too_large",
			"a large message: %d %s", got.Status, got.Text)
		initialize := testkit.Body{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": testkit.Body{
			"protocolVersion": "2025-06-18", "capabilities": testkit.Body{}, "clientInfo": testkit.Body{"name": "test", "version": "1"},
		}}
		got = phone.Call(http.MethodPost, "/mcp", initialize, "Accept", "application/json, text/event-stream")
		assert.Truef(t, got.Status == http.StatusOK && strings.Contains(got.Text, "serverInfo"),
			"/mcp: %d %s", got.Status, got.Text)
		got = phone.Call(http.MethodGet, "/openapi.json", nil, compressed...)
		assert.Equal(t, "gzip", got.Header.Get("Content-Encoding"), "other answers than streams are sent as")
		got = phone.Call(http.MethodGet, "/app/", nil)
		assert.Truef(t, got.Status == http.StatusOK && got.Header.Get("Content-Security-Policy") != "",
			"/app/: %d %v", got.Status, got.Header)
		for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
			assert.Equalf(t, http.StatusNotFound, phone.Call(http.MethodGet, path, nil).Status,
				"%s is open to everybody", path)
		}
	})
}

// The server learns the client's address, host and protocol, for any claim of the client.
func TestForwardedHeaders(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, k kind) {
		seen := make(chan *http.Request, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			if request.URL.Path == "/v1/chats" {
				seen <- request
			}
		}))
		t.Cleanup(server.Close)
		base, client := k.start(t, testkit.HostOf(server.URL))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/chats", nil)
		require.NoError(t, err)
		request.Host = "api.example.com"
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			request.Header.Set(name, "forged")
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		_ = response.Body.Close() // it has none
		got := testkit.Receive(t, "the server is asked", seen)
		if h := got.Header; got.Host != "api.example.com" || h.Get("X-Forwarded-For") != "127.0.0.1" ||
			h.Get("X-Forwarded-Host") != "api.example.com" || h.Get("X-Forwarded-Proto") != "https" {
			t.Errorf("%s %v", got.Host, h)
		}
	})
}
