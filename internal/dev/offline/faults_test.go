package offline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const fourWords = "one two three four"

// faulty starts a server whose every answer is this one.
func faulty(t *testing.T, answer Answer) *Server {
	return start(t, Options{Script: func(*Request) Answer { return answer }})
}

func TestStatusFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault      Fault
		status     int
		kind, code string
	}{
		{Fault401, 401, invalidRequest, "invalid_api_key"},
		{Fault404, 404, invalidRequest, "not_found"},
		{Fault429, 429, "requests", "rate_limit_exceeded"},
		{Fault500, 500, "server_error", ""},
		{Fault503, 503, "service_unavailable", ""},
		{FaultPromptGone, 404, invalidRequest, "prompt_not_found"},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			l := faulty(t, Answer{Fault: c.fault, RetryAfter: "3"})
			response, raw := ask(t, l, body(t, map[string]any{"stream": true, "prompt": map[string]any{"id": "pmpt_7"}}))
			var answer struct {
				Error struct{ Message, Param, Code string }
			}
			require.NoError(t, json.Unmarshal(raw, &answer))
			assert.Truef(t, response.StatusCode == c.status && answer.Error.Code == c.code && strings.Contains(string(raw), `"type":"`+c.kind+`"`),
				"%d %s", response.StatusCode, raw)
			assert.Equal(t, "3", response.Header.Get("Retry-After"), "Retry-After")
			assert.Truef(t, c.fault != FaultPromptGone || (answer.Error.Param == "prompt" && strings.Contains(answer.Error.Message, "pmpt_7")),
				"%+v does not name the prompt", answer.Error)
			if len(l.Refused()) != 0 || len(l.Requests()) != 1 || l.Requests()[0].Status != c.status {
				t.Errorf("refused %v, asked %v", l.Refused(), l.Requests())
			}
		})
	}
}

func TestFaultsInsideAStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer Answer
		last   string // the last event
		text   string // what the deltas add up to
		reset  bool
	}{
		{Answer{Fault: FaultCut, FaultAfter: 2}, "response.output_text.delta", "one two ", true},
		{Answer{Fault: FaultCut}, "response.content_part.added", "", true},
		{Answer{Fault: FaultEndEarly, FaultAfter: 3}, "response.output_text.delta", "one two three ", false},
		{Answer{Fault: FaultEndEarly, FaultAfter: 9}, "response.output_text.delta", fourWords, false},
		{Answer{Fault: FaultFailed, FaultAfter: 1}, "response.failed", "one ", false},
		{Answer{Fault: FaultErrorEvent, FaultAfter: 1}, "error", "one ", false},
		{Answer{Fault: FaultIncomplete, FaultAfter: 1}, "response.incomplete", "one ", false},
		{Answer{Fault: FaultContentFilter, FaultAfter: 2}, "response.incomplete", "one two ", false},
		{Answer{Fault: FaultEmpty}, "response.completed", "", false},
		{Answer{Fault: FaultNone}, "response.completed", "NONE", false},
		{Answer{Fault: FaultRefusal}, "response.completed", textFaults[FaultRefusal], false},
	} {
		t.Run(string(c.answer.Fault), func(t *testing.T) {
			t.Parallel()
			c.answer.Text = fourWords
			l := faulty(t, c.answer)
			_, raw, err := do(t, request(t, l, http.MethodPost, "/v1/responses", body(t, map[string]any{"stream": true})))
			assert.Equalf(t, c.reset, (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF)),
				"reading ended with %v", err)
			all := events(t, raw)
			if last := all[len(all)-1]; last.name != c.last || deltas(all) != c.text {
				t.Errorf("last event %s, text %q; want %s, %q", last.name, deltas(all), c.last, c.text)
			}
			ended, err := l.Await(t.Context(), func(r Request) bool { return r.Ended })
			assert.Truef(t, err == nil && ended.Sent == deltas(all) && !ended.HungUp,
				"%v: sent %q, hung up %v", err, ended.Sent, ended.HungUp)
		})
	}
}

// TestHangsEndWhenTheCallerHangsUp holds an answer in each way and leaves.
func TestHangsEndWhenTheCallerHangsUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]Answer{
		"stall":   {Fault: FaultStall},
		"latency": {Latency: time.Hour},
		"hang":    {Fault: FaultHang, Text: fourWords, FaultAfter: 1},
		"slow":    {PieceDelay: time.Hour},
		"gate":    {Gate: make(chan struct{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := faulty(t, answer)
			ctx, leave := context.WithCancel(t.Context())
			r := request(t, l, http.MethodPost, "/v1/responses", body(t, map[string]any{"stream": true})).WithContext(ctx)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if response, err := client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, response.Body) // ends with the context's error
					_ = response.Body.Close()
				}
			}()
			if _, err := l.Await(t.Context(), func(Request) bool { return true }); err != nil {
				t.Fatal(err)
			}
			leave()
			<-gone
			ended, err := l.Await(t.Context(), func(r Request) bool { return r.Ended })
			assert.Truef(t, err == nil && ended.HungUp, "%v, hung up %v", err, ended.HungUp)
		})
	}
}

func TestCloseEndsWhatHangsAndWhoDoesNotRead(t *testing.T) {
	t.Parallel()
	l, err := Start(Options{Script: func(r *Request) Answer {
		if r.Text == "stall" {
			return Answer{Fault: FaultStall}
		}
		return Answer{Text: strings.Repeat("much text ", 1<<15)}
	}})
	require.NoError(t, err)
	for _, input := range []string{"stall", "flood"} {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(l.BaseURL(), "http://"), "/v1"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		r := request(t, l, http.MethodPost, "/v1/responses", body(t, map[string]any{"stream": true, "input": input}))
		require.NoError(t, r.Write(conn))
	}
	for _, input := range []string{"stall", "flood"} {
		if _, err := l.Await(t.Context(), func(r Request) bool { return r.Text == input }); err != nil {
			t.Fatal(err)
		}
	}
	assert.NoError(t, l.Close())
	for _, r := range l.Requests() {
		assert.Truef(t, r.Ended && !r.HungUp, "%s: ended %v, hung up %v", r.Text, r.Ended, r.HungUp)
	}
	assert.NoError(t, l.Close(), "again does no harm")
}

func TestGateHoldsAStreamBetweenPieces(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := faulty(t, Answer{Text: fourWords, Gate: gate, GateAfter: 2})
	response, err := client.Do(request(t, l, http.MethodPost, "/v1/responses", body(t, map[string]any{"stream": true})))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	if _, err := l.Await(t.Context(), func(r Request) bool { return r.Sent == "one two " }); err != nil {
		t.Fatal(err)
	}
	close(gate)
	raw, err := io.ReadAll(bufio.NewReader(response.Body))
	require.NoError(t, err)
	assert.Equal(t, fourWords, deltas(events(t, raw)), "text")
}

func TestDirectives(t *testing.T) {
	t.Parallel()
	main := func(recent, current string) *Request {
		r := &Request{Kind: KindReply, Text: headRecent + "\nUser: " + recent + "\n\n" + headCurrent + "\n" + current}
		_, r.Current = parsePrompt(r.Text)
		return r
	}
	fold := &Request{Kind: KindSummary, Current: "[[offline:429]] [[offline-fold:none]]"}
	for _, c := range []struct {
		request *Request
		want    Answer
	}{
		{main("", "Hi [[offline:429]]"), Answer{Fault: Fault429, FaultAfter: 2}},
		{main("", "Hi [[offline:429=2]]"), Answer{Fault: Fault429, FaultAfter: 2, RetryAfter: "2"}},
		{main("", "[[offline:slow=200ms]] [[offline:cut=7]]"), Answer{Fault: FaultCut, FaultAfter: 7, RetryAfter: "7", PieceDelay: 200 * time.Millisecond}},
		{main("", "[[offline:hang]]"), Answer{Fault: FaultHang, FaultAfter: 2}},
		{main("", "[[offline:latency=1s]]"), Answer{Latency: time.Second}},
		{main("[[offline:429]]", "Hi"), Answer{}},
		{main("", "[[offline-fold:none]]"), Answer{}},
		{fold, Answer{Fault: FaultNone, FaultAfter: 2}},
	} {
		if got := directed(c.request); !assert.ObjectsAreEqual(c.want, got) {
			t.Errorf("%q: %+v, want %+v", c.request.Current, got, c.want)
		}
	}
}

func TestADirectiveWorksOverHTTPAndIsNotEchoed(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	response, _ := ask(t, l, body(t, map[string]any{"input": "My cat is Tom. [[offline:429=1]]"}))
	assert.Truef(t, response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Retry-After") == "1",
		"%d %v", response.StatusCode, response.Header)
	_, raw := ask(t, l, body(t, map[string]any{"input": "My cat is Tom. [[offline:slow=1ms]]"}))
	assert.NotContainsf(t, text(t, raw), "[[", "echoed: %s", raw)
}
