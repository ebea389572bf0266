package llm

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/work"
)

// unending answers with a beginning and then the same piece until the reader hangs up.
func unending(status int, kind, begin, piece string) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, err := io.WriteString(w, begin)
		for many := strings.Repeat(piece, 1+(32<<10)/len(piece)); err == nil; {
			_, err = io.WriteString(w, many)
		}
	}
}

// A server that never stops sending fails the call, whatever it sends and whoever reads it, and takes no more memory than some
// times the bound.
func TestEndlessBodies(t *testing.T) { //nolint:paralleltest,tparallel // it measures the memory
	const (
		delta  = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"word word word word word word word word word word \"}\n\n"
		answer = `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"`
	)
	readers := map[string]func(string) error{
		"stream": func(url string) error {
			stream, err := client(t, url, 0).Stream(t.Context(), question())
			if err != nil {
				return err
			}
			defer func() { _ = stream.Close() }()
			said := 0
			for stream.Next() {
				said += len(stream.Delta())
			}
			assert.LessOrEqual(t, said, maxReply)
			return stream.Err()
		},
		"summary": func(url string) error {
			_, err := client(t, url, 0).Summarize(t.Context(), brief.Call{Kind: brief.KindFold, Model: "small", Input: "x"})
			return err
		},
		"question": func(url string) error {
			_, err := client(t, url, 0).Ask(t.Context(), work.Question{Purpose: "extract", Model: "small", Input: "x"})
			return err
		},
		"vectors": func(url string) error {
			e := NewEmbedder(Settings{BaseURL: url}, "m")
			defer e.Close()
			_, err := e.Embed(t.Context(), recall.For{}, []string{"x"})
			return err
		},
	}
	for name, c := range map[string]struct {
		readers []string
		handler http.HandlerFunc
	}{
		"answer": {[]string{"summary", "question", "vectors"}, unending(200, "application/json", answer, "x")},
		"spaces": {[]string{"summary", "question", "vectors"}, unending(200, "application/json", "", " ")},
		"error":  {[]string{"stream", "summary", "question", "vectors"}, unending(400, "application/json", `{"error":{"message":"`, "x")},
		"quota":  {[]string{"stream", "summary", "question", "vectors"}, unending(429, "text/html", "", "x")},
		"deltas": {[]string{"stream"}, unending(200, "text/event-stream", "", delta)},
		"line":   {[]string{"stream"}, unending(200, "text/event-stream", "data: ", "x")},
		"event":  {[]string{"stream"}, unending(200, "text/event-stream", "", "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n")},
		"pings":  {[]string{"stream"}, unending(200, "text/event-stream", "", ": "+strings.Repeat("x", 60<<10)+"\n\n")},
	} {
		for _, reader := range c.readers {
			t.Run(name+" "+reader, func(t *testing.T) {
				server := serve(t, c.handler)
				peak, stop := heapPeak()
				err := readers[reader](server.url)
				stop()
				_, told := errors.AsType[*fault.Error](err)
				assert.Truef(t, told, "%v", err)
				assert.Lessf(t, *peak, uint64(64<<20), "bytes of memory")
			})
		}
	}
}

// heapPeak watches the heap until stop, and then says by how much it grew at most.
func heapPeak() (peak *uint64, stop func()) {
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	peak, done, ended := new(uint64), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc {
				*peak = max(*peak, now.HeapAlloc-before.HeapAlloc)
			}
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return peak, func() { close(done); <-ended }
}

// A wait that no clock holds is a day.
func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "9223372036854775807")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	e := NewEmbedder(Settings{BaseURL: server.url}, "m")
	defer e.Close()
	_, err := e.Embed(t.Context(), recall.For{}, []string{"x"})
	refused, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok)
	assert.Equal(t, 24*time.Hour, refused.RetryAfter)
}

// What a server says of one user's text changes no call of others: neither the form of answers nor the size of vectors.
func TestARefusalThatQuotesATextIsOneOfTheText(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"json_schema json_object response_format dimensions"}}`)
	})
	c := client(t, server.url, 0)
	_, err := c.Ask(t.Context(), work.Question{Purpose: "extract", Model: "small", Input: "What is response_format?"})
	require.ErrorIs(t, err, work.ErrBroken)
	assert.Equal(t, bySchema, c.form.Load())
	e := NewEmbedder(Settings{BaseURL: server.url}, "text-embedding-3-small")
	defer e.Close()
	_, err = e.Embed(t.Context(), recall.For{}, []string{"dimensions"})
	require.Error(t, err)
	assert.False(t, e.fixed.Load())
}
