package system

import (
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// upstreamCase is a fault between the server and the model, or something that only looks like one, and how it ends for
// the client and in Postgres. docs/reliability.md lists them.
type upstreamCase struct {
	name string
	// directive tells the offline model how to fail.
	directive string
	// before and midway break the network to the model: before the message, or once the reply has begun.
	before, midway func(*testkit.Proxy)
	// foreign is a server in the model's place.
	foreign http.HandlerFunc
	// base returns the configured base URL for the model's address.
	base func(t *testing.T, address string) string

	// status and code are the failure's; status is 0 if the stream had begun.
	status     int
	code       string
	retryAfter string
	// text is what the client has in the end; "" if that may be any beginning of the reply.
	text string
	// finished is the reason of a reply that is complete.
	finished string
}

// long is a reply of some kilobytes in which few characters are one byte.
var long = strings.TrimSpace(strings.Repeat(unicodeReply+" ", 12))

// The network, by testkit.Proxy.
var networkCases = []upstreamCase{
	{name: "connection refused", before: (*testkit.Proxy).Down, status: 502, code: "upstream_failed"},
	{name: "reset before the headers", before: cutAfter(0, true), status: 502, code: "upstream_failed"},
	{name: "closed before the headers", before: cutAfter(0, false), status: 502, code: "upstream_failed"},
	{name: "closed within the headers", before: cutAfter(40, false), status: 502, code: "upstream_failed"},
	{name: "half-open from the start", before: halfOpen, status: 504, code: "upstream_timeout"},
	{name: "half-open in mid stream", midway: halfOpen, code: "upstream_timeout"},
	{name: "down in mid stream", midway: (*testkit.Proxy).Down, code: "upstream_failed"},
	{name: "reset in mid event", before: cutAfter(7000, true), code: "upstream_failed"},
	// One of four neighbours is within a character of three bytes or more.
	{name: "cut in mid character, 0", before: cutAfter(6600, false), code: "upstream_failed"},
	{name: "cut in mid character, 1", before: cutAfter(6601, false), code: "upstream_failed"},
	{name: "cut in mid character, 2", before: cutAfter(6602, false), code: "upstream_failed"},
	{name: "cut in mid character, 3", before: cutAfter(6603, false), code: "upstream_failed"},
	{name: "latency", before: func(p *testkit.Proxy) { p.Break(testkit.Faults{Latency: 300 * time.Millisecond}) }, text: long, finished: "stop"},
	{name: "little bandwidth", before: func(p *testkit.Proxy) { p.Break(testkit.Faults{Rate: 30}) }, text: long, finished: "stop"},
	{name: "events in slices of forty bytes", before: func(p *testkit.Proxy) { p.Break(testkit.Faults{Slice: 40}) }, text: long, finished: "stop"},
	// Longer than a DNS label may be: refused without asking anybody.
	{name: "unknown host", base: func(*testing.T, string) string { return "http://" + strings.Repeat("x", 64) + ".example/v1" }, status: 502,
		code: "upstream_failed"},
	{name: "no TLS at the other end", base: func(_ *testing.T, address string) string { return "https://" + address + "/v1" }, status: 502,
		code: "upstream_failed"},
	{name: "a certificate of no authority", base: untrusted, status: 502, code: "upstream_failed"},
}

// The model itself, by directives in the message.
var modelCases = []upstreamCase{
	{name: "429 with a long Retry-After", directive: "429=60", status: 503, code: "upstream_overloaded", retryAfter: "60"},
	{name: "500", directive: "500", status: 502, code: "upstream_failed"},
	{name: "stall before the headers", directive: "stall", status: 504, code: "upstream_timeout"},
	{name: "reset by the model", directive: "cut", code: "upstream_failed"},
	{name: "no terminal event and no word", directive: "end_early=0", code: "upstream_failed"},
	{name: "out of tokens", directive: "incomplete", finished: "length"},
	{name: "content filter", directive: "content_filter", finished: "content_filter"},
	{name: "a reply without a word", directive: "empty", finished: "stop"},
}

const (
	begin = "event: response.output_text.delta\ndata: {\"delta\":\"A word.\"}\n\n"
	end   = "event: response.completed\ndata: {\"response\":{\"model\":\"m\"}}\n\n"
)

// Servers that are not a model, or behave badly.
var foreignCases = []upstreamCase{
	{name: "a page", foreign: answers(200, "text/html", "<h1>Welcome</h1>"), code: "upstream_failed"},
	{name: "204", foreign: answers(204, "", ""), code: "upstream_failed"},
	{name: "redirects without an end", foreign: redirects(307), status: 502, code: "upstream_failed"},
	{name: "redirect that forgets the question", foreign: redirects(302), status: 502, code: "upstream_failed"},
	{name: "gzip", foreign: compressed, finished: "stop", text: "A word."},
	{name: "a compression that was not asked for", foreign: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		answers(200, "text/event-stream", "\x0b\x02\x80hello\x03")(w, r)
	}, code: "upstream_failed"},
}

func answers(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the answer may come before the request is sent
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // to a client that may have gone
	}
}

func redirects(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Redirect(w, r, r.URL.Path, status)
	}
}

// compressed compresses like a proxy for clients that accept it.
func compressed(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		answers(200, "text/event-stream", begin+end)(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Content-Encoding", "gzip")
	body := gzip.NewWriter(w)
	_, _ = io.WriteString(body, begin+end)
	_ = body.Close()
}

// untrusted starts a server with a certificate of an unknown authority.
func untrusted(t *testing.T, _ string) string {
	server := httptest.NewUnstartedServer(answers(200, "text/event-stream", begin+end))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // handshakes that fail are the point
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

// speakSlowly sends the long reply slowly enough to be broken off. Messages with a directive get the built-in model.
func speakSlowly(request *offline.Request) offline.Answer {
	if request.Kind == offline.KindReply && strings.HasPrefix(request.Current, "Speak") {
		return offline.Answer{Text: long, PieceDelay: 2 * time.Millisecond}
	}
	return offline.Answer{}
}

// For all faults between the server and the model: the client gets one error with a code, and the row has it; half a
// reply is never stored as complete; nothing is left running; the message can be sent again, and the chat goes on. What each
// fault is to the program, internal/llm shows; in short mode this is one fault of each kind of end, others each time.
func TestUpstreamFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t, speakSlowly, env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "10000000"}) // a line of a megabyte is not for folding here
	cases := slices.Concat(networkCases, modelCases, foreignCases)
	rand.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	tried := map[string]bool{}
	t.Run("all", func(t *testing.T) {
		for _, c := range cases {
			end := fmt.Sprint(c.status, c.code, c.finished)
			if testing.Short() && tried[end] {
				continue
			}
			tried[end] = true
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.check(r.in(t))
			})
		}
	})
	r.checkNothingRuns()
}

func (c upstreamCase) check(r *rig) {
	network := testkit.NewProxy(r.t, testkit.HostOf(r.model.BaseURL()))
	server := r.start(app.Role{API: true}, c.env(r, network))
	if c.before != nil {
		c.before(network)
	}
	message := testkit.Body{"content": c.content(), "client_message_id": uuid.NewString()}
	s, err := server.TryOpen(http.MethodPost, "/v1/message/first", message)
	require.NoError(r.t, err)
	var chatID string
	if c.status != 0 {
		chatID = c.checkRefused(r, s)
	} else {
		chatID = c.checkEnded(r, s, network)
	}
	n := r.count("select count(*) from messages where status = 'streaming' and chat_id = $1", uuid.MustParse(chatID))
	assert.Truef(r.t, n == 0, "%d replies of the chat are still running", n)
	c.checkNext(r, chatID, message)
}

// env returns the model's address for the app, and how long it waits.
func (c upstreamCase) env(r *rig, network *testkit.Proxy) env {
	change := env{"OPENAI_BASE_URL": "http://" + network.Addr() + "/v1"}
	if c.foreign != nil {
		foreign := httptest.NewServer(c.foreign)
		r.t.Cleanup(foreign.Close)
		change["OPENAI_BASE_URL"] = foreign.URL + "/v1"
	}
	if c.base != nil {
		change["OPENAI_BASE_URL"] = c.base(r.t, network.Addr())
	}
	if c.code == "upstream_timeout" && c.foreign == nil {
		change["MODEL_IDLE_TIMEOUT"] = "3s"
	}
	return change
}

func (c upstreamCase) content() string {
	if c.directive == "" {
		return "Speak."
	}
	return "I live in Graz and work in Linz. [[offline:" + c.directive + "]]"
}

// checkRefused checks for an HTTP error that names the stored, failed reply. It returns the chat.
func (c upstreamCase) checkRefused(r *rig, s *testkit.Stream) string {
	got := testkit.Answer{Status: s.Response.StatusCode, Header: s.Response.Header, Text: s.Raw()}
	require.Truef(r.t, got.Status == c.status && got.Code() == c.code, "%d %s", got.Status, got.Text)
	wait := got.Header.Get("Retry-After")
	assert.Truef(r.t, (c.retryAfter == "" || wait == c.retryAfter) && (c.status == http.StatusServiceUnavailable) == (wait != ""),
		"Retry-After %q", wait)
	details := got.JSON(r.t)["details"].(map[string]any)
	assert.Equal(r.t, (messageRow{role: "assistant", status: "failed", failure: c.code}), r.stored(details["message_id"].(string)),
		"stored")
	return details["chat_id"].(string)
}

// checkEnded checks for a stream with one terminal event, and a row with the same result. It returns the chat.
func (c upstreamCase) checkEnded(r *rig, s *testkit.Stream, network *testkit.Proxy) string {
	r.t.Helper()
	if s.Response.StatusCode != http.StatusOK {
		r.t.Fatalf("%s %s", s.Response.Status, s.Raw())
	}
	if c.midway != nil {
		s.Until(isDelta)
		c.midway(network)
	}
	got, err := s.TryRest()
	require.NoError(r.t, err)
	want := messageRow{role: "assistant", status: "complete", content: got.Text, failure: c.code}
	if c.code != "" {
		want.status = "failed"
	}
	assert.Equal(r.t, want, r.stored(got.MessageID), "stored")
	reason, _ := got.End.Data["finish_reason"].(string)
	assert.Truef(r.t, reason == c.finished && got.End.Code() == c.code && (c.code == "" || got.End.Data["retryable"] == true),
		"ended with %s %v", got.End.Name, got.End.Data)
	broken := c.directive == "" && c.foreign == nil && c.code != "" // by the network, in the midst of the long reply
	assert.Truef(r.t, (c.text == "" || got.Text == c.text) && (!broken || (got.Text != "" && got.Text != long && strings.HasPrefix(long, got.Text))),
		"received %.100q", got.Text)
	return got.ChatID
}

// checkNext sends the message again if it failed, and another one, to the rig's first server, which reaches the model.
func (c upstreamCase) checkNext(r *rig, chatID string, message testkit.Body) {
	r.t.Helper()
	if c.code != "" && c.directive == "" {
		again := r.Send(chatID, message).Rest()
		assert.Truef(r.t, again.End.Name == testkit.Completion && again.Text == long,
			"sent again: %.100q, %s %v", again.Text, again.End.Name, again.End.Data)
	}
	r.Say(chatID, "And now?")
	whole := testkit.Ask[string](r.t, r.pool, "select string_agg(status, ' ' order by seq) from messages where chat_id = $1 and role = 'assistant'",
		uuid.MustParse(chatID))
	want := c.statuses()
	assert.Equal(r.t, want, whole, "the replies of the chat")
}

// statuses returns the statuses of the chat's replies.
func (c upstreamCase) statuses() string {
	switch {
	case c.code == "":
		return "complete complete"
	case c.directive == "":
		return "failed complete complete"
	}
	return "failed complete"
}
