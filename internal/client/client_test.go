package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/streaming"
)

// A server that is not ready is there all the same.
func TestReach(t *testing.T) {
	t.Parallel()
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equalf(t, "/readyz", r.URL.Path, "asked %s", r.URL)
		w.WriteHeader(status)
	}))
	c := New(server.URL, "a token")
	defer c.Close()
	for _, status = range []int{http.StatusOK, http.StatusServiceUnavailable} {
		assert.NoErrorf(t, c.Reach(t.Context()), "%d", status)
	}
	server.Close()
	err := c.Reach(t.Context())
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "no server answers at "+server.URL), "%v", err)
	nowhere := New("://", "a token")
	defer nowhere.Close()
	err = nowhere.Reach(t.Context())
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "address of the server"), "%v", err)
}

func TestCallTellsWhatWentWrong(t *testing.T) {
	t.Parallel()
	writes := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	}
	c := serve(t, writes(http.StatusUnprocessableEntity, `{"code": "validation_failed", "message": "Wrong.", "details": {"title": "is too long"}}`),
		writes(http.StatusBadGateway, "<html>"), writes(http.StatusOK, "<html>"), cut, writes(http.StatusOK, `{"title": 7}`))
	for _, want := range []string{"Wrong. (422 validation_failed); title is too long", "no answer of Throughline's. (502 unknown)",
		"is this a Throughline server?", "the answer broke off", "cannot unmarshal"} {
		_, err := c.Chat(t.Context(), uuid.New())
		assert.Truef(t, err != nil && strings.Contains(err.Error(), want), "%v, not %s", err, want)
	}
	_, err := c.Change(t.Context(), uuid.New(), map[string]any{"title": func() {}})
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "encode the request"), "%v", err)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"3": 3 * time.Second, "0": 0, "": 0, "-1": 0, "soon": 0, "9223372036": 2 * patience} {
		assert.Equalf(t, want, retryAfter(header), "%q", header)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	progress := "event: import.progress\ndata: {\"phase\":\"writing\",\"chats\":2}\n\n"
	c := serve(t,
		streams(progress+"event: import.completed\ndata: {\"imported\":2}\n\n"),
		streams(progress+"event: import.failed\ndata: {\"code\":\"import_invalid\",\"message\":\"Line 1.\"}\n\n"),
		streams(progress))
	var seen []transfer.Progress
	hear := func(far transfer.Progress) { seen = append(seen, far) }
	answer, err := c.Import(t.Context(), strings.NewReader("the file"), hear)
	assert.Truef(t, err == nil && string(answer) == `{"imported":2}` && len(seen) == 1 && seen[0].Chats == 2,
		"%s, %+v, %v", answer, seen, err)
	if sent, _ := io.ReadAll(c.requests()[0].Body); string(sent) != "the file" {
		t.Errorf("sent %q", sent)
	}
	if _, err := c.Import(t.Context(), strings.NewReader(""), hear); !IsCode(err, fault.ImportInvalid) {
		t.Errorf("%v", err)
	}
	if _, err := c.Import(t.Context(), strings.NewReader(""), hear); !errors.Is(err, errCut) {
		t.Errorf("%v", err)
	}
}

// Half an export is an error.
func TestExportThatBreaksOff(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	})
	var out strings.Builder
	err := c.Export(t.Context(), uuid.New(), "jsonl", &out)
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "broke off"), "%q, %v", out.String(), err)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	chatID  = "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"
	replyID = "0198a1f2-7c13-7aa9-b3c8-6d1e0f9a8b73"
)

// standIn answers one request after another, and all later ones with its last answer. /readyz is always ready.
type standIn struct {
	*Client
	answers []http.HandlerFunc

	pauses []time.Duration // that the client would have made

	mu    sync.Mutex
	asked []*http.Request
}

func serve(t *testing.T, answers ...http.HandlerFunc) *standIn {
	a := &standIn{answers: answers}
	server := httptest.NewServer(a)
	a.Client = New(server.URL+"/", "a token")
	a.jitter = func(bound time.Duration) time.Duration { return bound }
	a.pause = func(ctx context.Context, d time.Duration) error {
		a.pauses = append(a.pauses, d)
		return ctx.Err()
	}
	t.Cleanup(func() { a.Close(); server.Close() })
	return a
}

// serveReached is serve for a client that knows that the server is there.
func serveReached(t *testing.T, answers ...http.HandlerFunc) *standIn {
	a := serve(t, answers...)
	require.NoError(t, a.Reach(t.Context()))
	return a
}

func (a *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" {
		return
	}
	body, _ := io.ReadAll(r.Body)
	kept := r.Clone(context.Background())
	kept.Body = io.NopCloser(strings.NewReader(string(body)))
	a.mu.Lock()
	answer := a.answers[min(len(a.asked), len(a.answers)-1)]
	a.asked = append(a.asked, kept)
	a.mu.Unlock()
	answer(w, r)
}

// requests are those that came, with bodies that can still be read.
func (a *standIn) requests() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// heard is what a listener heard.
type heard struct {
	text    strings.Builder
	reasons []error
}

func (h *heard) listener() Listener {
	return Listener{
		Text:    func(piece string) { h.text.WriteString(piece) },
		Waiting: func(reason error, _ time.Duration) { h.reasons = append(h.reasons, reason) },
	}
}

// streams answers with the stream as it stands there.
func streams(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}
}

// replies streams text with the project's own encoder, from the place on that Last-Event-ID tells, in pieces of two
// characters. The connection ends before the piece at character cut; -1 for never.
func replies(text string, cut int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		at, _ := strconv.Atoi(strings.TrimPrefix(r.Header.Get("Last-Event-ID"), replyID+":")) // 0 without
		e := streaming.NewEncoder(w, uuid.MustParse(replyID))
		_ = e.Padding()
		_ = e.Started(streaming.Started{ChatID: uuid.MustParse(chatID), MessageID: uuid.MustParse(replyID), Offset: at})
		_, _ = io.WriteString(w, ": ping\n\n")
		runes := []rune(text)
		for at < len(runes) && at != cut {
			from := at
			at = min(at+2, len(runes))
			_ = e.Chunk(streaming.Chunk{Offset: from, Text: []byte(string(runes[from:at]))})
		}
		if at != cut {
			_ = e.Chunk(streaming.Chunk{End: &streaming.Terminal{Completed: &streaming.Completed{FinishReason: "stop", ContentLength: len(runes)}}})
		}
	}
}

// resets breaks the connection without an answer.
func resets(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func refuses(status int, code string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"code": %q, "message": "No.", "details": {"chat_id": %q}}`, code, chatID)
	}
}

// started, delta and completed are single events.
func started(offset int) string {
	return fmt.Sprintf("event: message.started\ndata: {\"chat_id\":%q,\"message_id\":%q,\"offset\":%d}\nid: %s:%d\n\n", chatID, replyID, offset, replyID, offset)
}

func delta(offset int, text string) string {
	return fmt.Sprintf("event: content.delta\ndata: {\"offset\":%d,\"delta\":%q}\nid: %s:%d\n\n", offset, text, replyID, offset+len([]rune(text)))
}

func completed(length int) string {
	return fmt.Sprintf("event: completion\r\ndata: {\"finish_reason\":\"stop\",\"content_length\":%d}\r\nid: %s:end\r\n\r\n", length, replyID)
}

// part is an event of a part that says its own place as the event does.
func part(index, at int) string {
	return fmt.Sprintf("event: part.added\ndata: {\"index\":%d,\"offset\":%d,\"part\":{\"type\":\"source\",\"at\":%d,\"url\":\"u%d\"}}\nid: %s:%d.%d\n\n",
		index, at, at, index, replyID, at, index+1)
}
