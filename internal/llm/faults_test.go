package llm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Every fault of the model has a typed error, and no call is repeated once the model began to answer.
func TestOfflineFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer offline.Answer
		idle   time.Duration
		want   fault.Code
		text   string // the text received before
		asked  int
	}{
		{name: "401", answer: offline.Answer{Fault: offline.Fault401}, want: fault.UpstreamFailed, asked: 1},
		{name: "429", answer: offline.Answer{Fault: offline.Fault429}, want: fault.UpstreamOverloaded, asked: 3},
		{name: "429, much later again", answer: offline.Answer{Fault: offline.Fault429, RetryAfter: "60"}, want: fault.UpstreamOverloaded, asked: 1},
		{name: "500", answer: offline.Answer{Fault: offline.Fault500, RetryAfter: "0.01"}, want: fault.UpstreamFailed, asked: 3},
		{name: "503", answer: offline.Answer{Fault: offline.Fault503, RetryAfter: "0.01"}, want: fault.UpstreamOverloaded, asked: 3},
		{name: "stall before the headers", answer: offline.Answer{Fault: offline.FaultStall}, idle: shortIdle, want: fault.UpstreamTimeout, asked: 1},
		{name: "hang in the middle", answer: offline.Answer{Fault: offline.FaultHang, FaultAfter: 2}, idle: shortIdle, want: fault.UpstreamTimeout,
			text: "one two ", asked: 1},
		{name: "reset before a word", answer: offline.Answer{Fault: offline.FaultCut}, want: fault.UpstreamFailed, asked: 1},
		{name: "ended without a last event", answer: offline.Answer{Fault: offline.FaultEndEarly, FaultAfter: 3}, want: fault.UpstreamFailed,
			text: "one two three ", asked: 1},
		{name: "response.failed", answer: offline.Answer{Fault: offline.FaultFailed, FaultAfter: 2}, want: fault.UpstreamFailed, text: "one two ", asked: 1},
		{name: "error event", answer: offline.Answer{Fault: offline.FaultErrorEvent, FaultAfter: 2}, want: fault.UpstreamFailed, text: "one two ", asked: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.answer.Text = fourWords
			server := model(t, always(c.answer))
			got := read(t.Context(), client(t, server.BaseURL(), c.idle), nil)
			wantFault(t, got.err, c.want)
			assert.Truef(t, got.text == c.text && got.result.FinishReason == "", "heard %q, result %+v", got.text, got.result)
			assert.Len(t, server.Requests(), c.asked, "calls")
		})
	}
}

// A reset may overtake text that was sent before it, so only the error is checked.
func TestResetInTheMiddle(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: fourWords, Fault: offline.FaultCut, FaultAfter: 2}))
	got := read(t.Context(), client(t, server.BaseURL(), 0), nil)
	wantFault(t, got.err, fault.UpstreamFailed)
	assert.Truef(t, slices.Contains([]string{"", "one ", "one two "}, got.text) && len(server.Requests()) == 1,
		"heard %q, asked %d times", got.text, len(server.Requests()))
}

func TestForeignFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   fault.Code
		text   string
	}{
		{"a delta that is no JSON", sends(delta(`"a"`), "event: response.output_text.delta\ndata: {\"delta\":\"b\n\n", completedEvent), fault.UpstreamFailed, "a"},
		{"a last event that is no JSON", sends(delta(`"a"`), "event: response.completed\ndata: {\"response\":{\"id\":\n\n"), fault.UpstreamFailed, "a"},
		{"an incomplete event that is no JSON", sends(delta(`"a"`), "event: response.incomplete\ndata: {\"response\n\n"), fault.UpstreamFailed, "a"},
		{"a last event without its empty line", sends(delta(`"a"`), strings.TrimRight(completedEvent, "\n")), fault.UpstreamFailed, "a"},
		{"nothing", sends(), fault.UpstreamFailed, ""},
		{"[DONE] in place of the last event", sends(delta(`"a"`), "data: [DONE]\n\n"), fault.UpstreamFailed, "a"},
		{"an answer that is no stream", answers(http.StatusOK, "application/json", `{"id":"resp_1","status":"completed"}`), fault.UpstreamFailed, ""},
		{"rate limit in the stream", sends(event("response.failed", `,"response":{"error":{"code":"rate_limit_exceeded"}}`)), fault.UpstreamOverloaded, ""},
		{"rate limit as an error event", sends(delta(`"a"`), event("error", `,"code":"rate_limit_exceeded"`)), fault.UpstreamOverloaded, "a"},
		{"rate limit as an error within an event", sends(event("error", `,"error":{"code":"rate_limit_exceeded"}`)), fault.UpstreamOverloaded, ""},
		{"an error event without a code", sends(event("error", ``)), fault.UpstreamFailed, ""},
		{"a proxy's 502", answers(http.StatusBadGateway, "text/html", "<h1>Bad gateway</h1>"), fault.UpstreamFailed, ""},
		{"a proxy's 503", answers(http.StatusServiceUnavailable, "text/html", "<h1>Busy</h1>"), fault.UpstreamOverloaded, ""},
		{"a proxy's 504", answers(http.StatusGatewayTimeout, "text/html", "<h1>Too late</h1>"), fault.UpstreamTimeout, ""},
		{"408", answers(http.StatusRequestTimeout, "application/json", `{"error":{"message":"slow"}}`), fault.UpstreamTimeout, ""},
		{"an error of another shape", answers(http.StatusBadRequest, "application/json", `{"error":"no"}`), fault.UpstreamFailed, ""},
		{"no error body at all", answers(http.StatusForbidden, "", ""), fault.UpstreamFailed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, c.answer)
			got := read(t.Context(), client(t, server.url, 0), nil)
			wantFault(t, got.err, c.want)
			assert.Truef(t, got.text == c.text && got.result.FinishReason == "", "heard %q, result %+v", got.text, got.result)
			assert.EqualValues(t, 1, server.asked.Load(), "calls")
		})
	}
}

// A refusal that waiting does not help is no overload: it is told once, by its name, and never tried again.
func TestRefusalsThatLastAreNamed(t *testing.T) {
	t.Parallel()
	refuses := func(status int, code, kind string) http.HandlerFunc {
		return plainly(status, "application/json", `{"error":{"message":"canary: a prompt","type":"`+kind+`","code":"`+code+`"}}`)
	}
	for _, c := range []struct {
		name    string
		answer  http.HandlerFunc
		message string
		logged  string
	}{
		{"quota", refuses(429, "insufficient_quota", "insufficient_quota"), "quota for the model is used up", `code "insufficient_quota"`},
		{"quota, by its type alone", refuses(429, "", "insufficient_quota"), "quota for the model is used up", "credit is used up"},
		{"quota of a long body", plainly(429, "application/json", `{"error":{"code":"insufficient_quota","message":"`+strings.Repeat("canary ", 20)+`"}}`),
			"quota for the model is used up", "quota"},
		{"billing", refuses(429, "billing_not_active", "billing_not_active"), "quota for the model is used up", "billing_not_active"},
		{"402", plainly(402, "text/html", "canary"), "quota for the model is used up", "status 402"},
		{"quota in the stream", sends(event("error", `,"code":"insufficient_quota","message":"canary"`)), "quota for the model is used up", "insufficient_quota"},
		{"quota in a failed response", sends(event("response.failed", `,"response":{"error":{"code":"insufficient_quota"}}`)),
			"quota for the model is used up", "insufficient_quota"},
		{"key", refuses(401, "invalid_api_key", "invalid_request_error"), "refused this server's key", "OPENAI_API_KEY"},
		{"key of another server", plainly(401, "application/json", `{"detail":"canary"}`), "refused this server's key", "OPENAI_API_KEY"},
		{"model", refuses(404, "model_not_found", "invalid_request_error"), "model is not available", "MODEL_VARIANTS"},
		{"model that the key may not use", refuses(403, "model_not_found", "invalid_request_error"), "model is not available", "MODEL_VARIANTS"},
		{"model of another server", plainly(404, "application/json", `{"error":{"message":"canary","type":"api_error"}}`), "model is not available",
			"OPENAI_BASE_URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, c.answer)
			err := read(t.Context(), client(t, server.url, 0), nil).err
			wantFault(t, err, fault.UpstreamFailed)
			refused, _ := errors.AsType[*fault.Error](err)
			assert.Truef(t, strings.Contains(refused.Message, c.message) && strings.Contains(err.Error(), c.logged) && !strings.Contains(err.Error(), "canary"),
				"%v", err)
			assert.EqualValues(t, 1, server.asked.Load(), "calls")
		})
	}
}

// plainly answers without a word on whether to repeat the call.
func plainly(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// A rate limit is still repeated and still an overload, though its body is read to tell it from a quota.
func TestRateLimitIsStillRepeated(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "0.01")
		plainly(429, "application/json", `{"error":{"code":"rate_limit_exceeded","message":"`+strings.Repeat("x", maxErrorBody)+`"}}`)(w, r)
	})
	wantFault(t, read(t.Context(), client(t, server.url, 0), nil).err, fault.UpstreamOverloaded)
	assert.EqualValues(t, maxRetries+1, server.asked.Load(), "calls")
}

// A server of one's own may need no key.
func TestNoKeyIsSentWithoutOne(t *testing.T) {
	t.Parallel()
	sent := make(chan []string, 1)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Values("Authorization")
		sends(delta(`"a"`), completedEvent)(w, r)
	})
	c := New(Settings{BaseURL: server.url, IdleTimeout: time.Minute})
	t.Cleanup(c.Close)
	got := read(t.Context(), c, nil)
	assert.Truef(t, got.err == nil && got.text == "a", "%q, %v", got.text, got.err)
	assert.Empty(t, <-sent, "sent")
}

func TestNoServerListens(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	away.Close()
	wantFault(t, read(t.Context(), client(t, away.URL, 0), nil).err, fault.UpstreamFailed)
}

func TestConnectionClosedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	})
	wantFault(t, read(t.Context(), client(t, server.url, 0), nil).err, fault.UpstreamFailed)
	assert.EqualValues(t, maxRetries+1, server.asked.Load(), "calls")
}

// A call is repeated only before the model answers.
func TestRetriesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]offline.Answer{
		"503 twice": {Fault: offline.Fault503, RetryAfter: "0.01"}, "429 twice, unexplained": {Fault: offline.Fault429},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := model(t, testkit.InOrder(failure, failure, offline.Answer{}))
			got := read(t.Context(), client(t, server.BaseURL(), 0), nil)
			asked := len(server.Requests())
			assert.Truef(t, got.err == nil && got.text != "" && asked == maxRetries+1, "%q, %v, asked %d times", got.text, got.err, asked)
		})
	}
}

// The server decides how soon a refused call is made again, if at all; where it does not say, its status does.
func TestWhenCallsAreRepeated(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		status               int
		code, should, after  string
		again                bool
		atLeast, atMostAfter time.Duration
	}{
		{status: 408, again: true, atLeast: firstRetry * 3 / 4, atMostAfter: firstRetry},
		{status: 409, after: "0.5", again: true, atLeast: firstRetry, atMostAfter: firstRetry},
		{status: 429, after: "5", again: true, atLeast: maxRetryDelay, atMostAfter: maxRetryDelay},
		{status: 429, after: "5.1"}, {status: 429, after: "Inf"}, {status: 429, after: "1e300"},
		{status: 429, after: soon, again: true, atLeast: time.Second, atMostAfter: 3 * time.Second},
		{status: 429, after: "Wed, 21 Oct 2065 07:28:00 GMT"},
		{status: 503, after: "Wed, 21 Oct 2015 07:28:00 GMT", again: true},
		{status: 503, after: "-1", again: true, atLeast: firstRetry * 3 / 4, atMostAfter: firstRetry},
		{status: 503, after: "NaN", again: true, atLeast: firstRetry * 3 / 4, atMostAfter: firstRetry},
		{status: 429, code: "insufficient_quota"}, {status: 400}, {status: 307}, {status: 500, should: "false"},
		{status: 400, should: "true", again: true, atLeast: firstRetry * 3 / 4, atMostAfter: firstRetry},
	} {
		header := http.Header{"X-Should-Retry": {c.should}, "Retry-After": {c.after}}
		pause, again := retryPause(&refusal{status: c.status, code: c.code, header: header}, firstRetry)
		assert.Equalf(t, c.again, again, "%+v", c)
		assert.Truef(t, !again || pause >= c.atLeast && pause <= c.atMostAfter, "%+v: %v", c, pause)
	}
}

// Texts and key are for the configured server only: no call follows a redirect.
func TestNoCallFollowsARedirect(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, sends(delta(`"a"`), completedEvent))
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.url, status) })
		wantFault(t, read(t.Context(), client(t, server.url, 0), nil).err, fault.UpstreamFailed)
		_, err := client(t, server.url, 0).Summarize(t.Context(), inlineCall())
		wantFault(t, err, fault.UpstreamFailed)
		assert.EqualValues(t, 2, server.asked.Load(), "calls")
	}
	assert.Zero(t, elsewhere.asked.Load(), "calls elsewhere")
}

// The idle timeout starts with the call, so it includes retries and their pauses.
func TestIdleTimeoutBoundsTheRetries(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Fault: offline.Fault429, RetryAfter: "5"}))
	got := read(t.Context(), client(t, server.BaseURL(), 3*time.Second), nil) // the first call has to arrive within it
	wantFault(t, got.err, fault.UpstreamTimeout)
	assert.Len(t, server.Requests(), 1, "calls")
}

func TestRetryAfterIsPassedOn(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"60": time.Minute, "": 0, "-5": 0, "Wed, 21 Oct 2065 07:28:00 GMT": 0, "soon": 0} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", header)
			answers(http.StatusTooManyRequests, "application/json", `{"error":{"code":"rate_limit_exceeded"}}`)(w, r)
		})
		got := read(t.Context(), client(t, server.url, 0), nil)
		overloaded, ok := errors.AsType[*fault.Error](got.err)
		assert.Truef(t, ok && overloaded.RetryAfter == want, "%q: %v", header, got.err)
	}
}

var errLeaves = errors.New("the caller leaves")

func TestCallerCancels(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]offline.Answer{
		"before the headers": {Fault: offline.FaultStall},
		"in the middle":      {Text: fourWords, Fault: offline.FaultHang, FaultAfter: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := model(t, always(answer))
			ctx, cancel := context.WithCancelCause(t.Context())
			heard := func() { cancel(errLeaves) }
			if answer.Fault == offline.FaultStall {
				heard = nil
				go func() {
					_, _ = server.Await(ctx, func(offline.Request) bool { return true })
					cancel(errLeaves)
				}()
			}
			got := read(ctx, client(t, server.BaseURL(), 0), heard)
			wantFault(t, got.err, fault.UpstreamFailed)
			assert.Truef(t, errors.Is(got.err, errLeaves) && len(server.Requests()) == 1, "asked %d times, %v", len(server.Requests()), got.err)
		})
	}
}

func TestReplyDeadline(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]offline.Answer{
		"before the headers":      {Fault: offline.FaultStall},
		"in a model that goes on": {Text: strings.Repeat("word ", 10_000), PieceDelay: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := model(t, always(answer))
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			got := read(ctx, client(t, server.BaseURL(), 0), nil)
			wantFault(t, got.err, fault.UpstreamTimeout)
			assert.ErrorIsf(t, got.err, context.DeadlineExceeded, "the cause is lost: %v", got.err)
		})
	}
}

// Bytes without a complete event count as silence.
func TestTrickleWithoutAnEventIsSilence(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
				_, _ = io.WriteString(w, ":")
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	got := read(t.Context(), client(t, server.url, shortIdle), nil)
	wantFault(t, got.err, fault.UpstreamTimeout)
}

// Errors are logged, so they must not contain what a server quotes of the prompt.
func TestErrorsNeverQuoteThePrompt(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3a-my-diagnosis"
	quoted := fmt.Sprintf(`{"error":{"message":"Invalid input: %s","type":"invalid_request_error","param":"input","code":"invalid_value"}}`, canary)
	for name, answer := range map[string]http.HandlerFunc{
		"refused":               answers(http.StatusBadRequest, "application/json", quoted),
		"not found":             answers(http.StatusNotFound, "application/json", quoted),
		"overloaded":            answers(http.StatusTooManyRequests, "application/json", quoted),
		"broken":                answers(http.StatusInternalServerError, "application/json", quoted),
		"timed out":             answers(http.StatusGatewayTimeout, "application/json", quoted),
		"a page":                answers(http.StatusBadGateway, "text/html", "<pre>"+canary+"</pre>"),
		"an error of one word":  answers(http.StatusBadRequest, "application/json", `{"error":"`+canary+`"}`),
		"a list of errors":      answers(http.StatusBadRequest, "application/json", `{"error":["`+canary+`"]}`),
		"no JSON":               answers(http.StatusOK, "application/json", canary),
		"a page in good order":  answers(http.StatusOK, "text/html", canary),
		"failed":                sends(delta(`"`+canary+`"`), event("response.failed", `,"response":{"error":{"code":"server_error","message":"`+canary+`"}}`)),
		"error event":           sends(event("error", `,"code":"server_error","message":"`+canary+`"`)),
		"a delta that breaks":   sends("event: response.output_text.delta\ndata: {\"delta\":\"" + canary + "\n\n"),
		"an end that breaks":    sends(delta(`"a"`), "event: response.completed\ndata: {\"response\":\""+canary+"\n\n"),
		"ended too early":       sends(delta(`"` + canary + `"`)),
		"a failed whole answer": answers(http.StatusOK, "application/json", `{"status":"failed","error":{"code":"server_error","message":"`+canary+`"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, answer)
			c := client(t, server.url, 0)
			ask := question()
			ask.Input, ask.Instructions = canary, canary
			streamed := readTo(t.Context(), c, ask, nil).err
			_, inline := c.Summarize(t.Context(), brief.Call{Model: "m", Input: canary, Instructions: canary, ChatID: chatID, UserID: userID})
			_, hosted := c.Summarize(t.Context(), brief.Call{Hosted: &brief.HostedPrompt{ID: "pmpt_1", Version: "1"}, Input: canary, ChatID: chatID, UserID: userID})
			for _, err := range []error{streamed, inline, hosted} {
				assert.Error(t, err, "no error")
				shown := everyWayToShow(err)
				assert.Truef(t, !strings.Contains(shown, canary) && !strings.Contains(shown, "sk-test"), "quoted in %s", shown)
			}
		})
	}
}

// A provider can put anything where its codes belong: words of it that are no codes are not in an error, and none is long.
func TestErrorsHoldNoWordsOfTheProvider(t *testing.T) {
	t.Parallel()
	for kind, words := range map[string]string{
		"a sentence": "My Diagnosis is secret", "line ends": "x\\ny: Diagnosis", "a long word": "Diagnosis" + strings.Repeat("a", 200_000),
		"another alphabet": "ДDiagnosis", "a key": "sk-Diagnosis1234",
	} {
		failed := fmt.Sprintf(`{"code":"%[1]s","type":"%[1]s","param":"%[1]s","message":"%[1]s"}`, words)
		for name, answer := range map[string]http.HandlerFunc{
			"refused":        answers(http.StatusBadRequest, "application/json", `{"error":`+failed+`}`),
			"broken":         answers(http.StatusInternalServerError, "application/json", `{"error":`+failed+`}`),
			"failed":         sends(event("response.failed", `,"response":{"error":`+failed+`}`)),
			"error event":    sends(event("error", `,"error":`+failed)),
			"whole, failed":  answers(http.StatusOK, "application/json", `{"status":"failed","error":`+failed+`}`),
			"whole, unknown": answers(http.StatusOK, "application/json", `{"status":"`+words+`"}`),
			"whole, cut":     answers(http.StatusOK, "application/json", `{"status":"incomplete","incomplete_details":{"reason":"`+words+`"}}`),
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := client(t, serve(t, answer).url, 0)
				streamed := readTo(t.Context(), c, question(), nil).err
				_, asked := c.Ask(t.Context(), asking())
				_, folded := c.Summarize(t.Context(), brief.Call{Model: "m", Input: "x", Instructions: "y", ChatID: chatID, UserID: userID})
				require.Error(t, errors.Join(streamed, asked))
				for way, err := range map[string]error{"streamed": streamed, "asked": asked, "folded": folded} {
					if err != nil { // a summary that is cut is one
						assert.LessOrEqualf(t, len(err.Error()), 600, "%s", way)
						assert.Falsef(t, strings.Contains(everyWayToShow(err), "Diagnosis"), "%s: %.600s", way, err)
					}
				}
			})
		}
	}
}

// An error of the connection can hold a header of the provider's.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "//:"+long)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}).url, 0)
	err := readTo(t.Context(), c, question(), nil).err
	require.Error(t, err)
	assert.LessOrEqual(t, len(err.Error()), 600)
}

func everyWayToShow(err error) string {
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Error("failed", slog.Any("error", err))
	slog.New(slog.NewTextHandler(&logged, nil)).Error("failed", "error", err)
	return logged.String() + fmt.Sprintf("%s %v %+v %q", err, err, err, err)
}
