package toolcall

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a tool, and a client that calls it. The tool answers its nth request with the nth of the handlers, and then with the last.
type bench struct {
	*Client

	t    *testing.T
	tool chat.ServerTool
	logs testkit.Log

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func newBench(t *testing.T, handlers ...http.HandlerFunc) *bench {
	b := &bench{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		b.mu.Lock()
		b.requests, b.bodies = append(b.requests, r), append(b.bodies, string(body))
		n := len(b.requests)
		b.mu.Unlock()
		assert.NoError(t, err)
		handlers[min(n, len(handlers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	b.tool = chat.ServerTool{Function: chat.Function{Name: "taxi"}, URL: server.URL + "/taxi?key=in-the-query", Timeout: 5 * time.Second}
	b.Client = New(Settings{Logger: slog.New(slog.NewJSONHandler(&b.logs, nil)), Metrics: metrics.New(), FirstPause: time.Millisecond})
	t.Cleanup(b.Close)
	return b
}

var run = chat.ToolRun{Arguments: json.RawMessage(`{"to":"home"}`), Token: "the.users.token", Key: "message:call"}

// run calls the tool, and expects so many requests.
func (b *bench) run(requests int) memory.Part {
	part, err := b.Run(b.t.Context(), &b.tool, run)
	require.NoError(b.t, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Len(b.t, b.requests, requests)
	return part
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func done(output string) memory.Part {
	return memory.Part{Type: memory.PartResult, Status: memory.ResultDone, Output: json.RawMessage(output)}
}

func failed(output string) memory.Part {
	return memory.Part{Type: memory.PartResult, Status: memory.ResultFailed, Output: json.RawMessage(output)}
}

func TestAToolIsToldWhoAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t, says(200, "{}"))
	b.tool.Headers = map[string]string{"apikey": "the-key"}
	b.run(1)
	request := b.requests[0]
	assert.Equal(t, `{"to":"home"}`, b.bodies[0])
	assert.Equal(t, "POST /taxi?key=in-the-query", request.Method+" "+request.URL.String())
	for name, want := range map[string]string{
		"Authorization": "Bearer the.users.token", "Idempotency-Key": "message:call", "Apikey": "the-key",
		"Content-Type": "application/json", "Accept": "application/json",
	} {
		assert.Equal(t, []string{want}, request.Header.Values(name), name)
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		says http.HandlerFunc
		want memory.Part
	}{
		{"an object", says(200, ` {"minutes": 7, "at": "<home>"} `), done(`{"at":"<home>","minutes":7}`)},
		{"a number", says(201, `12345678901234567890`), done(`12345678901234567890`)},
		{"null", says(200, `null`), done(`null`)},
		{"a text", says(200, "In 7 \"minutes\"\n"), done(`"In 7 \"minutes\"\n"`)},
		{"nothing", says(204, ""), done(`""`)},
		{"two values", says(200, `{} {}`), done(`"{} {}"`)},
		{"bytes", says(200, "a\xff\x00b"), done(`"a` + "\uFFFD\uFFFD" + `b"`)},
		{"what Postgres cannot store", says(200, `{"a":"\u0000"}`), done(`"{\"a\":\"\\u0000\"}"`)},
		{"what is too deep", says(200, strings.Repeat("[", 33)+strings.Repeat("]", 33)), done(`"` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `"`)},

		{"a refusal", says(422, `{"error": "No such place."}`), failed(`{"error":"No such place.","status":422}`)},
		{"a refusal of Supabase", says(401, `{"code": 401, "message": "Invalid JWT"}`), failed(`{"error":"Invalid JWT","status":401}`)},
		{"a refusal in a text", says(404, " gone "), failed(`{"error":"gone","status":404}`)},
		{"a refusal without words", says(403, ""), failed(`{"error":"Forbidden","status":403}`)},
		{"a refusal that shows the token", says(400, "Bearer the.users.token"), failed(`{"error":"Bad Request","status":400}`)},
		{"a long refusal", says(400, strings.Repeat("é", 2001)), failed(`{"error":"` + strings.Repeat("é", 2000) + `…","status":400}`)},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
			failed(`{"error":"The tool answered with a redirect, which is not followed.","status":307}`)},
		{"a redirect to nowhere", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://[::1")
			w.WriteHeader(http.StatusFound)
		}, failed(`{"error":"The tool answered with a redirect, which is not followed.","status":302}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			part := newBench(t, c.says).run(1)
			assert.Equal(t, c.want, part)
		})
	}
}

func TestLongOutputsAreCut(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"text":                  "begin " + strings.Repeat("é", 40_000) + " end",
		"JSON":                  `["begin", "` + strings.Repeat("é", 40_000) + `", "end"]`,
		"what grows as it is":   "begin " + strings.Repeat("\x01", 30_000) + " end",
		"more than may be read": "begin " + strings.Repeat("x", 3<<20),
	} {
		part := newBench(t, says(200, body)).run(1)
		var text string
		require.NoError(t, json.Unmarshal(part.Output, &text), name)
		assert.True(t, part.Truncated && part.Status == memory.ResultDone, name)
		assert.True(t, len(part.Output) <= chat.MaxOutput && len(part.Output) > chat.MaxOutput/2, "%s has %d bytes", name, len(part.Output))
		head, tail, cut := strings.Cut(text, "\n[…]\n")
		assert.True(t, cut && strings.Contains(head, "begin"), "%s: %.40s", name, text)
		assert.True(t, strings.HasSuffix(body, tail) || name == "more than may be read", name)
		assert.NotContains(t, text, "\uFFFD", name)
	}
	exact := newBench(t, says(200, `"`+strings.Repeat("x", chat.MaxOutput-2)+`"`)).run(1)
	assert.True(t, !exact.Truncated && len(exact.Output) == chat.MaxOutput)
}

// Tools may refuse a key that comes with another body: what Postgres gives back has spaces, and another order.
func TestTheSameKeyComesWithTheSameBody(t *testing.T) {
	t.Parallel()
	b := newBench(t, says(200, "1"))
	for _, arguments := range []string{`{"where":"home","at":8,"for":"<us>"}`, `{"at": 8, "for": "<us>", "where": "home"}`} {
		_, err := b.Run(t.Context(), &b.tool, chat.ToolRun{Arguments: json.RawMessage(arguments), Key: run.Key})
		require.NoError(t, err)
	}
	assert.Equal(t, []string{`{"at":8,"for":"<us>","where":"home"}`, `{"at":8,"for":"<us>","where":"home"}`}, b.bodies)
}

func TestABrokenToolIsTriedAgainWithTheSameKey(t *testing.T) {
	t.Parallel()
	later := func(after string, status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", after)
			says(status, "")(w, r)
		}
	}
	half := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		says(200, "{")(w, r)
	}
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	soon := time.Now().UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name     string
		handlers []http.HandlerFunc
		requests int
		want     memory.Part
	}{
		{"an error of the server", []http.HandlerFunc{says(500, "stack trace"), says(200, "1")}, 2, done("1")},
		{"a broken connection", []http.HandlerFunc{breaks, says(200, "1")}, 2, done("1")},
		{"half an answer", []http.HandlerFunc{half, says(200, "1")}, 2, done("1")},
		{"no answer", []http.HandlerFunc{hangs, says(200, "1")}, 2, done("1")},
		{"too many requests", []http.HandlerFunc{later("0", 429), says(200, "1")}, 2, done("1")},
		{"a date", []http.HandlerFunc{later(soon, 503), says(200, "1")}, 2, done("1")},
		{"not before the timeout", []http.HandlerFunc{later("60", 429), says(200, "1")}, 1, failed(`{"error":"Too Many Requests","status":429}`)},
		{"a wait that is no number", []http.HandlerFunc{later("soon", 503), says(200, "1")}, 2, done("1")},
		{"a refusal after an error", []http.HandlerFunc{says(502, ""), says(400, "no")}, 2, failed(`{"error":"no","status":400}`)},
		{"broken for long", []http.HandlerFunc{says(500, "stack trace")}, 3, failed(`{"error":"The tool is broken.","status":500}`)},
		{"connections that break for long", []http.HandlerFunc{breaks}, 3, failed(`{"error":"The connection to the tool failed."}`)},
		{"no answer for long", []http.HandlerFunc{hangs}, 3, failed(`{"error":"The tool did not answer in time."}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.handlers...)
			if strings.HasPrefix(c.name, "no answer") {
				b.tool.Timeout = 50 * time.Millisecond
			}
			assert.Equal(t, c.want, b.run(c.requests))
			for i, request := range b.requests {
				assert.Equal(t, "message:call", request.Header.Get("Idempotency-Key"))
				assert.JSONEq(t, `{"to":"home"}`, b.bodies[i])
			}
		})
	}
}

// A connection that was kept and is closed meanwhile is one try: net/http would make it two by itself.
func TestRequestsAreRepeatedHereAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, says(200, "1"), breaks)
	b.run(1)
	assert.Equal(t, memory.ResultFailed, b.run(4).Status)
}

func TestACallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := newBench(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	_, err := b.Run(ctx, &b.tool, run)
	require.ErrorIs(t, err, context.Canceled)

	pausing, stop := context.WithCancel(t.Context())
	b = newBench(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "4")
		w.WriteHeader(http.StatusServiceUnavailable)
		time.AfterFunc(20*time.Millisecond, stop)
	})
	_, err = b.Run(pausing, &b.tool, run)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCallsAreLoggedWithoutWhatIsSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, says(200, "the-output"))
	b.tool.Headers = map[string]string{"apikey": "the-key"}
	b.run(1)
	b.tool.URL = "http://127.0.0.1:1/taxi?key=in-the-query"
	part, err := b.Run(t.Context(), &b.tool, run)
	require.NoError(t, err)
	lines := b.logs.Lines(t, "tool called")
	require.Len(t, lines, 2)
	for _, status := range []string{"done", "failed"} {
		assert.InDelta(t, 1, testkit.Measured(t, b.settings.Metrics.ToolCallDuration.WithLabelValues("taxi", status)), 0, status)
	}
	assert.Equal(t, []any{"taxi", "done", 200.0, 1.0}, []any{lines[0]["tool"], lines[0]["status"], lines[0]["http_status"], lines[0]["tries"]})
	assert.Equal(t, []any{"failed", 3.0}, []any{lines[1]["status"], lines[1]["tries"]})
	for _, secret := range []string{"the.users.token", "the-key", "in-the-query", "the-output", "home"} {
		assert.NotContains(t, b.logs.String(), secret)
		assert.NotContains(t, string(part.Output), secret)
	}
}
