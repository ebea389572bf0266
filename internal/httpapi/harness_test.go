package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// These tests mostly wait for timeouts, so more of them run at once than there are cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // -parallel on the command line still decides
	testkit.Main(m)
}

var testSecret = []byte("a secret of at least thirty-two bytes, for tests")

// harness is a running server over a real chat.Service and a real verifier.
type harness struct {
	t       *testing.T
	store   *memoryStore
	chat    *chat.Service
	metrics *metrics.Metrics
	server  *Server
	http    *httptest.Server
	logs    *testkit.Log
	user    uuid.UUID
}

// newHarness starts a server; change may alter its configuration.
func newHarness(t *testing.T, model chat.Model, change ...func(*Config)) *harness {
	t.Helper()
	h := newQuietHarness(t, model, change...)
	h.http = httptest.NewServer(h.server.Handler())
	t.Cleanup(func() {
		h.closeChat() // ends open streams, for which the next line waits
		h.http.Close()
	})
	return h
}

// newQuietHarness is a harness that listens nowhere.
func newQuietHarness(t testing.TB, model chat.Model, change ...func(*Config)) *harness {
	t.Helper()
	verifier, err := auth.New(t.Context(), auth.Config{JWTSecret: testSecret})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{store: newMemoryStore(), metrics: metrics.New(), logs: &testkit.Log{}, user: uuid.New()}
	h.t, _ = t.(*testing.T)
	logger := slog.New(slog.NewJSONHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.chat = chat.New(chat.Config{
		Store: h.store, Model: model, Logger: logger, Metrics: h.metrics,
		Variants: []chat.Variant{{Name: "arco", Model: "test-1"}, {Name: "deep-dive", Model: "test-2"}},
		Limits:   memory.DefaultLimits(), ReplyTimeout: time.Minute,
	})
	t.Cleanup(h.closeChat)
	config := Config{Chat: h.chat, Auth: verifier, Logger: logger, Metrics: h.metrics, Version: "1.2.3"}
	for _, apply := range change {
		apply(&config)
	}
	h.server = New(config)
	return h
}

// closeChat interrupts what is running.
func (h *harness) closeChat() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.chat.Close(ctx)
}

// token is a good access token of a user.
func token(user uuid.UUID) string {
	return tokenAt(user, time.Now())
}

func tokenAt(user uuid.UUID, now time.Time) string {
	signed, err := auth.Mint(testSecret, user, "", time.Hour, now)
	if err != nil {
		panic(err)
	}
	return "Bearer " + signed
}

// request makes a request of the harness's user. headers are name, value, name, value …
func (h *harness) request(method, path, body string, headers ...string) *http.Request {
	h.t.Helper()
	base := "http://test"
	if h.http != nil {
		base = h.http.URL
	}
	request, err := http.NewRequestWithContext(h.t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	request.Header.Set("Authorization", token(h.user))
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			request.Header.Del(headers[i])
			continue
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

// answered is an answer that was read to its end.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request, reads the answer, and holds it against the OpenAPI document.
func (h *harness) call(method, path, body string, headers ...string) answered {
	h.t.Helper()
	return h.do(h.request(method, path, body, headers...), body)
}

func (h *harness) do(request *http.Request, body string) answered {
	h.t.Helper()
	response, err := h.http.Client().Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	request.Body = io.NopCloser(strings.NewReader(body))
	answer := answered{status: response.StatusCode, header: response.Header, body: content}
	checkAgainstDocument(h.t, request, answer)
	return answer
}

func (h *harness) first(content string, headers ...string) answered {
	h.t.Helper()
	return h.call(http.MethodPost, "/v1/message/first", marshal(map[string]any{"content": content}), headers...)
}

func (a answered) error(t *testing.T) errorBody {
	t.Helper()
	var body errorBody
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		t.Fatalf("the answer %d is no error body: %q", a.status, a.body)
	}
	return body
}

func (a answered) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
}

func (a answered) events(t *testing.T) []event {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	return parseEvents(t, string(a.body))
}

func marshal(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// waitFor asks until something is so that gives no signal of its own.
func (h *harness) waitFor(what string, holds func() bool) {
	h.t.Helper()
	testkit.Eventually(h.t, what, holds)
}

// waitForSave waits until one more reply is saved.
func (h *harness) waitForSave() chat.FinishedReply {
	h.t.Helper()
	return testkit.Receive(h.t, "a reply is saved", h.store.saved)
}

// places counts the user's open streams and running replies.
func (h *harness) places() int {
	h.server.streams.mu.Lock()
	defer h.server.streams.mu.Unlock()
	return h.server.streams.open[h.user]
}

// openStreams reads the gauge.
func (h *harness) openStreams() float64 {
	h.t.Helper()
	return testkit.Measured(h.t, h.metrics.OpenStreams)
}
