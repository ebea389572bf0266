package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/chat"
)

// pacedModel says one delta for each value in turn, so that no two of them are written as one. It ends when nothing is
// unread.
type pacedModel struct {
	turn   chan struct{}
	count  int
	unread sync.WaitGroup
}

func (m *pacedModel) Stream(ctx context.Context, _ chat.ModelRequest) (chat.ModelStream, error) {
	return &pacedStream{scriptedStream{ctx: ctx}, m, m.count}, nil
}

type pacedStream struct {
	scriptedStream
	model *pacedModel
	left  int
}

func (s *pacedStream) Next() bool {
	if s.left == 0 {
		s.model.unread.Wait()
		return false
	}
	s.left--
	<-s.model.turn
	return true
}

func (s *pacedStream) Delta() string { return " token" }

// pacedWriter is a client that takes everything at once. Each flush gives the model its turn, and
// after as many as there are events before the terminal one, atLast is called. Only then the model ends: what follows
// is the saving of the whole reply, which is no cost of a delta.
type pacedWriter struct {
	header  http.Header
	turn    chan struct{}
	bytes   int
	flushes int
	events  int
	atLast  func()
}

func (w *pacedWriter) Header() http.Header              { return w.header }
func (w *pacedWriter) WriteHeader(int)                  {}
func (w *pacedWriter) SetWriteDeadline(time.Time) error { return nil }

func (w *pacedWriter) Write(p []byte) (int, error) {
	w.bytes += len(p)
	return len(p), nil
}

func (w *pacedWriter) Flush() {
	if w.flushes++; w.flushes == w.events {
		w.atLast()
	}
	select {
	case w.turn <- struct{}{}:
	default:
	}
}

// pacedStreaming gives a function that streams so many deltas through a handler; atLast is called
// after the last one. It returns the bytes written.
func pacedStreaming(tb testing.TB, deltas int, atLast func()) (stream func() int) {
	turn := make(chan struct{}, 1)
	model := &pacedModel{turn: turn, count: deltas}
	model.unread.Add(1)
	h := newQuietHarness(tb, model)
	request := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, firstPath, strings.NewReader(hello))
	request.Header.Set("Authorization", token(h.user))
	request.Header.Set("Content-Type", "application/json")
	const before = 2 // padding and message.started
	w := &pacedWriter{header: http.Header{}, turn: turn, events: deltas + before, atLast: func() {
		atLast()
		model.unread.Done()
	}}
	return func() int {
		h.server.handler.ServeHTTP(w, request)
		return w.bytes
	}
}

// The whole way of a delta within the server: model's word, relay, reader, encoder, ResponseWriter.
func BenchmarkDelta(b *testing.B) {
	stream := pacedStreaming(b, b.N, b.StopTimer)
	b.ReportAllocs()
	b.ResetTimer()
	b.SetBytes(int64(stream() / b.N))
}

// Not parallel: it counts what the whole process allocates.
func TestDeltaAllocatesLittle(t *testing.T) { //nolint:paralleltest // see above
	const deltas = 20_000
	var before, after runtime.MemStats
	stream := pacedStreaming(t, deltas, func() { runtime.ReadMemStats(&after) })
	runtime.ReadMemStats(&before)
	stream()
	perDelta := float64(after.Mallocs-before.Mallocs) / deltas
	t.Logf("%.3f allocations per delta", perDelta)
	assert.Truef(t, perDelta <= 4, "%.2f allocations per delta, at most 4 are wanted", perDelta)
}
