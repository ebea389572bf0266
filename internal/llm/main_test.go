package llm

import (
	"context"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/work"
)

// These tests mostly wait for timeouts, so more of them run at once than there are cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // -parallel on the command line still decides
	goleak.VerifyTestMain(m)
}

// shortIdle is how long tests wait for a model that has gone silent: longer than a busy machine takes to begin a call.
const shortIdle = 5 * time.Second

const fourWords = "one two three four"

var (
	chatID = uuid.MustParse("0193a1b2-0000-7000-8000-00000000000c")
	userID = uuid.MustParse("8f14e45f-ceea-467f-a0e6-1b2c3d4e5f60")
)

// question is the request of most tests.
func question() chat.ModelRequest {
	return chat.ModelRequest{Model: "gpt-5.6-terra", Instructions: "Be brief.", Input: "CURRENT MESSAGE:\nHello?", ChatID: chatID, UserID: userID}
}

// model runs the offline model for one test.
func model(t *testing.T, script func(*offline.Request) offline.Answer) *offline.Server {
	server, err := offline.Start(offline.Options{Script: script})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, server.Close(), "close the model")
	})
	return server
}

// always is a script with one answer.
func always(answer offline.Answer) func(*offline.Request) offline.Answer {
	return func(*offline.Request) offline.Answer { return answer }
}

// client returns a Client for one test; an idle timeout of 0 means one longer than the test.
func client(t *testing.T, baseURL string, idle time.Duration) *Client {
	if idle == 0 {
		idle = time.Minute
	}
	c := New(Settings{APIKey: "sk-test", BaseURL: baseURL, IdleTimeout: idle})
	t.Cleanup(c.Close)
	return c
}

// upstreamServer is a server with answers that the offline model never gives.
type upstreamServer struct {
	url   string
	asked atomic.Int32
}

func serve(t *testing.T, handler http.HandlerFunc) *upstreamServer {
	u := &upstreamServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // an unread body would hide that the client hung up
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// sends is a handler that streams these bytes and ends.
func sends(stream ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range stream {
			_, _ = io.WriteString(w, part)
		}
	}
}

// answers is a handler that refuses with this body.
func answers(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Should-Retry", "false")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// event is one event as the API sends it.
func event(kind, fields string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + fields + "}\n\n"
}

// delta is an event with a piece of text in JSON.
func delta(text string) string { return event("response.output_text.delta", `,"delta":`+text) }

const completedEvent = "event: response.completed\n" +
	`data: {"type":"response.completed","response":{"id":"resp_1","model":"m-1","usage":{"input_tokens":3,` +
	`"input_tokens_details":{"cached_tokens":2},"output_tokens":1}}}` + "\n\n"

// ending is the result of a call.
type ending struct {
	text   string
	deltas int
	result chat.ModelResult
	err    error
}

// read makes a call and reads to the end. onFirst, if not nil, is called after the first piece.
func read(ctx context.Context, c *Client, onFirst func()) ending {
	return readTo(ctx, c, question(), onFirst)
}

func readTo(ctx context.Context, c *Client, ask chat.ModelRequest, onFirst func()) ending {
	stream, err := c.Stream(ctx, ask)
	if err != nil {
		return ending{err: err}
	}
	defer func() { _ = stream.Close() }()
	var got ending
	var text strings.Builder
	for stream.Next() {
		text.WriteString(stream.Delta())
		if got.deltas++; got.deltas == 1 && onFirst != nil {
			onFirst()
		}
	}
	got.text, got.result, got.err = text.String(), stream.Result(), stream.Err()
	return got
}

// wantFault checks that an error is ours, with this code.
func wantFault(t *testing.T, err error, want fault.Code) {
	assert.Truef(t, fault.CodeOf(err) == want, "ended with %v, want %s", err, want)
}

// meter keeps what calls have cost, and denies all with an error that is not nil.
type meter struct {
	spent  []work.Spent
	denies error
}

func (m *meter) Allow(context.Context, uuid.UUID, string) error { return m.denies }
func (m *meter) Record(_ context.Context, spent work.Spent)     { m.spent = append(m.spent, spent) }
