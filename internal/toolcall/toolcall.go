// Package toolcall calls the server's tools over HTTP. What a tool answers becomes the result of the call; so does the way in which it
// does not answer. A call costs a tool three requests at most, with the same key, so a tool that heeds the key acts once.
//
// Outputs and log lines hold neither a token nor headers, nor the query of an address.
package toolcall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
)

const (
	maxRetries = 2
	maxAnswer  = 1 << 20 // bytes that are read of an answer
	maxError   = 2000    // characters of a tool's own words about its failure
)

// Settings of a Client. All are required except where noted.
type Settings struct {
	Logger  *slog.Logger
	Metrics *metrics.Metrics
	// FirstPause is the wait before the second try, which doubles. Defaults to 500 ms.
	FirstPause time.Duration
}

// Client calls tools. It is safe for concurrent use.
type Client struct {
	settings  Settings
	transport *http.Transport // which follows no redirect: the user's token is for the address in the file alone
}

var _ chat.Runner = (*Client)(nil)

// New returns a client. The caller closes it.
func New(settings Settings) *Client {
	settings.FirstPause = cmp.Or(settings.FirstPause, 500*time.Millisecond)
	return &Client{settings: settings, transport: http.DefaultTransport.(*http.Transport).Clone()}
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Run calls a tool, again where it did not answer, and returns the result. Its call is named by the caller.
func (c *Client) Run(ctx context.Context, tool *chat.ServerTool, call chat.ToolRun) (memory.Part, error) {
	began, tries := time.Now(), 0
	for pause := c.settings.FirstPause; ; pause *= 2 {
		got := c.request(ctx, tool, call)
		if got.err != nil && ctx.Err() != nil {
			return memory.Part{}, ctx.Err()
		}
		tries++
		wait, again := got.retryAfter(pause, tool.Timeout)
		if !again || tries > maxRetries {
			part := got.result(call.Token)
			c.record(ctx, tool, part.Status, got, tries, time.Since(began))
			return part, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return memory.Part{}, ctx.Err()
		}
	}
}

func (c *Client) record(ctx context.Context, tool *chat.ServerTool, status memory.ResultStatus, got answer, tries int, took time.Duration) {
	c.settings.Metrics.ToolCallDuration.WithLabelValues(tool.Name, string(status)).Observe(took.Seconds())
	line := []slog.Attr{
		slog.String("tool", tool.Name), slog.String("status", string(status)), slog.Int("http_status", got.status), slog.Int("tries", tries),
		slog.Int64("duration_ms", took.Milliseconds()),
	}
	if got.err != nil {
		line = append(line, slog.Any("error", got.err)) // of the connection: unlike a client's it does not name the address
	}
	c.settings.Logger.LogAttrs(ctx, slog.LevelInfo, "tool called", line...)
}

// answer is how one request ended: with a whole answer or an error.
type answer struct {
	status int
	header http.Header
	body   []byte
	cut    bool // there was more of the body
	err    error
}

// sameBytes returns the same bytes for the arguments as the model wrote them and as a server reads them after a crash: Postgres gives them back
// with spaces, and in another order, and tools refuse a key that comes with another body.
func sameBytes(arguments json.RawMessage) []byte {
	same, problem := memory.StorableJSON(arguments)
	if problem != "" { // it was not stored in this form
		return arguments
	}
	return same
}

func (c *Client) request(ctx context.Context, tool *chat.ServerTool, call chat.ToolRun) answer {
	ctx, cancel := context.WithTimeout(ctx, tool.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, tool.URL, bytes.NewReader(sameBytes(call.Arguments)))
	if err != nil {
		return answer{err: err}
	}
	for name, value := range tool.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Authorization", "Bearer "+call.Token)
	request.Header.Set("Idempotency-Key", call.Key)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.GetBody = nil // else net/http repeats a request with a key by itself
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return answer{err: err}
	}
	most := min(len(body), maxAnswer)
	return answer{status: response.StatusCode, header: response.Header, body: body[:most], cut: len(body) > most}
}

// retryAfter returns how long to wait before the next try, and whether there is one. A tool that asks for more time than it has for a
// try is not tried again.
func (a *answer) retryAfter(pause, timeout time.Duration) (time.Duration, bool) {
	switch {
	case a.err != nil:
		return pause, true
	case a.status != http.StatusTooManyRequests && a.status < http.StatusInternalServerError:
		return 0, false
	case a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable:
		return pause, true
	}
	asked := a.header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(asked, 10, 31); err == nil {
		pause = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(asked); err == nil {
		pause = max(0, time.Until(at))
	}
	return pause, pause <= timeout
}

// result is the part that the answer becomes.
func (a *answer) result(token string) memory.Part {
	if a.err == nil && a.status >= http.StatusOK && a.status < http.StatusMultipleChoices {
		output, cut := storable(a.body)
		return memory.Part{Type: memory.PartResult, Status: memory.ResultDone, Output: output, Truncated: cut || a.cut}
	}
	failed := struct {
		Error  string `json:"error"`
		Status int    `json:"status,omitempty"`
	}{a.failure(token), a.status}
	output, _ := json.Marshal(failed) // a text and a number
	return memory.Part{Type: memory.PartResult, Status: memory.ResultFailed, Output: output}
}

// failure says why there is no output: in the tool's own words where it blames the call, and in ours where it is broken.
func (a *answer) failure(token string) string {
	switch {
	case errors.Is(a.err, context.DeadlineExceeded):
		return "The tool did not answer in time."
	case a.err != nil:
		return "The connection to the tool failed."
	case a.status >= http.StatusInternalServerError:
		return "The tool is broken."
	case a.status < http.StatusBadRequest:
		return "The tool answered with a redirect, which is not followed."
	}
	said := a.words()
	if said == "" || token != "" && strings.Contains(said, token) {
		return cmp.Or(http.StatusText(a.status), "The tool refused the call.")
	}
	return said
}

// words are what a tool says of its refusal: the text of the body, or of its member error or message.
func (a *answer) words() string {
	var named struct{ Error, Message any }
	_ = json.Unmarshal(a.body, &named) // or it is a text
	said, ok := named.Error.(string)
	if !ok {
		said, ok = named.Message.(string)
	}
	if !ok {
		said = string(a.body)
	}
	said = strings.TrimSpace(plain(said))
	if runes := []rune(said); len(runes) > maxError {
		return string(runes[:maxError]) + "…"
	}
	return said
}

// plain is a text that Postgres can store.
func plain(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// storable returns a body as it is stored: JSON as it is, and another text as a string, as is JSON that cannot be stored or is too long.
func storable(body []byte) (output json.RawMessage, cut bool) {
	if utf8.Valid(body) {
		if stored, problem := memory.StorableJSON(body); problem == "" && len(stored) <= chat.MaxOutput {
			return stored, false
		}
	}
	text := plain(string(body))
	output = quoted(text)
	for keep := chat.MaxOutput; len(output) > chat.MaxOutput; keep -= keep / 8 { // what is escaped takes up to six times its length
		output, cut = quoted(withoutMiddle(text, keep)), true
	}
	return output, cut
}

// withoutMiddle keeps that many bytes of a longer text, and says where others were.
func withoutMiddle(text string, keep int) string {
	const gap = "\n[…]\n"
	half := max(0, min(keep, len(text))-len(gap)) / 2
	return strings.ToValidUTF8(text[:half], "") + gap + strings.ToValidUTF8(text[len(text)-half:], "")
}

func quoted(text string) json.RawMessage {
	encoded, _ := memory.EncodeJSON(text) // never fails for a text
	return encoded
}
