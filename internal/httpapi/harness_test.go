package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/streaming"
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
	h := newQuietHarness(t, model, change...)
	h.http = httptest.NewServer(h.server.handler)
	t.Cleanup(func() {
		h.closeChat() // ends open streams, for which the next line waits
		h.http.Close()
	})
	return h
}

// newQuietHarness is a harness that listens nowhere.
func newQuietHarness(t testing.TB, model chat.Model, change ...func(*Config)) *harness {
	verifier, err := auth.New(t.Context(), auth.Settings{JWTSecret: testSecret})
	require.NoError(t, err)
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
	base := "http://test"
	if h.http != nil {
		base = h.http.URL
	}
	request, err := http.NewRequestWithContext(h.t.Context(), method, base+path, strings.NewReader(body))
	require.NoError(h.t, err)
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
	require.NoError(h.t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
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
	var body errorBody
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.DisallowUnknownFields()
	require.NoErrorf(t, decoder.Decode(&body), "the answer %d is no error body: %q", a.status, a.body)
	return body
}

func (a answered) decode(t *testing.T, into any) {
	err := json.Unmarshal(a.body, into)
	require.Truef(t, err == nil, "%v in %q", err, a.body)
}

func (a answered) events(t *testing.T) []event {
	t.Helper()
	require.Truef(t, a.status == http.StatusOK, "status %d: %s", a.status, a.body)
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
	return testkit.Measured(h.t, h.metrics.OpenStreams)
}

// event is one event as it stood on the wire.
type event struct {
	id, name, raw string
	data          map[string]any
}

// To the letter: three lines in this order, LF, one empty line.
var eventForm = regexp.MustCompile(`^event: ([a-z.]+)\ndata: (\{.*\})\nid: ([0-9a-f-]{36}:(?:\d+(?:\.\d+)?|end))$`)

// unpadded is a stream without the comment that it begins with.
func unpadded(t *testing.T, body string) (rest string) {
	t.Helper()
	padding, rest, _ := strings.Cut(body, "\n\n")
	if !strings.HasPrefix(padding, ":") || len(padding) < 1024 || strings.Contains(padding, "\n") {
		t.Fatalf("the stream does not begin with a comment of 1 KiB but with %q", padding[:min(len(padding), 60)])
	}
	return rest
}

// parseEvents checks the framing of a whole stream: the padding, the form of each event and its schema.
// It returns the events, of which message.started is the first. The places in ids and offsets are looked
// at where the events are made, and by each stream of the system's tests.
func parseEvents(t *testing.T, body string) []event {
	t.Helper()
	rest := unpadded(t, body)
	assert.NotContains(t, body, "\r", "there is a carriage return in the stream")
	var events []event
	for block := range strings.SplitSeq(strings.TrimSuffix(rest, "\n\n"), "\n\n") {
		if block == ": ping" {
			continue
		}
		events = append(events, parseEvent(t, block))
	}
	require.Truef(t, len(events) != 0 && events[0].name == streaming.EventStarted,
		"the first event is not message.started: %v", events)
	return events
}

func parseEvent(t *testing.T, block string) event {
	t.Helper()
	parts := eventForm.FindStringSubmatch(block)
	require.Truef(t, parts != nil, "this is no event: %q", block)
	e := event{name: parts[1], raw: parts[2], id: parts[3]}
	require.NoErrorf(t, json.Unmarshal([]byte(e.raw), &e.data), "data of %s", e.name)
	checkEventSchema(t, e)
	return e
}

func number(e event, key string) float64 {
	value, _ := e.data[key].(float64)
	return value
}

// spoken joins the deltas.
func spoken(events []event) string {
	var text strings.Builder
	for _, e := range events {
		if e.name == streaming.EventDelta {
			delta, _ := e.data["delta"].(string)
			text.WriteString(delta)
		}
	}
	return text.String()
}

func last(events []event) event { return events[len(events)-1] }

// openStream is an answer that is being read.
type openStream struct {
	t        *testing.T
	response *http.Response
	reader   *bufio.Reader
	read     strings.Builder
}

func (h *harness) open(request *http.Request) *openStream {
	h.t.Helper()
	response, err := h.http.Client().Do(request)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		h.t.Fatalf("status %d: %s", response.StatusCode, body)
	}
	return &openStream{t: h.t, response: response, reader: bufio.NewReader(response.Body)}
}

// next reads one block: an event or a comment.
func (s *openStream) next() string {
	var block strings.Builder
	for {
		line, err := s.reader.ReadString('\n')
		require.NoErrorf(s.t, err, "the stream ends in %q", block.String()+line)
		s.read.WriteString(line)
		if line == "\n" {
			return strings.TrimSuffix(block.String(), "\n")
		}
		block.WriteString(line)
	}
}

// event reads up to the next event.
func (s *openStream) event() event {
	s.t.Helper()
	for {
		if block := s.next(); !strings.HasPrefix(block, ":") {
			return parseEvent(s.t, block)
		}
	}
}

// rest reads to the end and gives all events of the stream.
func (s *openStream) rest() []event {
	s.t.Helper()
	remaining, err := io.ReadAll(s.reader)
	require.NoError(s.t, err)
	return parseEvents(s.t, s.read.String()+string(remaining))
}
