package testkit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/streaming"
)

// httpClient keeps no idle connections, so that nothing of a test outlives it.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// Body is a request's JSON.
type Body map[string]any

// Client is a user of one server's API.
type Client struct {
	T     testing.TB
	Base  string // http://host:port
	Token string
	// HTTP makes the connections; nil for one that keeps none.
	HTTP *http.Client
}

// Answer is a complete answer.
type Answer struct {
	Status int
	Header http.Header
	Text   string
}

// JSON returns the answer's object.
func (a Answer) JSON(t testing.TB) map[string]any {
	var found map[string]any
	err := json.Unmarshal([]byte(a.Text), &found)
	require.Truef(t, err == nil, "%v in %d %q", err, a.Status, a.Text)
	return found
}

// Code returns the code of an error, "" for any other answer.
func (a Answer) Code() string {
	var found struct{ Code string }
	_ = json.Unmarshal([]byte(a.Text), &found) // other text has no code
	return found.Code
}

// Request makes a request. headers are name, value, name, value …
func (c Client) Request(ctx context.Context, method, path string, payload Body, headers ...string) *http.Request {
	text := ""
	if payload != nil {
		raw, err := json.Marshal(payload)
		check(c.T, err)
		text = string(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Base+path, strings.NewReader(text))
	check(c.T, err)
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

// GoFormats are marks of Go's own formats: times, maps, lists, nil, pointers, wrong verbs, %f. No error that a client sees
// has one.
var GoFormats = regexp.MustCompile(` [+-]\d{4} [A-Z]{3,4}\b|map\[|\[[\w-]+( [\w-]+)+\]|<nil>|\b0x[0-9a-f]{6}|&\{|%!|\.0{6}\b`)

// Do sends a request and reads the whole answer.
func (c Client) Do(request *http.Request) Answer {
	answer, err := c.tryDo(request)
	check(c.T, err)
	if answer.Status >= http.StatusBadRequest {
		assert.NotRegexpf(c.T, GoFormats, answer.Text, "%s %s", request.Method, request.URL.Path)
	}
	return answer
}

func (c Client) tryDo(request *http.Request) (Answer, error) {
	response, err := cmp.Or(c.HTTP, httpClient).Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	raw, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, string(raw)}, err
}

// Call sends a request and reads the whole answer.
func (c Client) Call(method, path string, payload Body, headers ...string) Answer {
	return c.Do(c.Request(c.T.Context(), method, path, payload, headers...))
}

// TryCall is Call for goroutines other than the test's own, and for servers that may be gone.
func (c Client) TryCall(method, path string, payload Body, headers ...string) (Answer, error) {
	return c.tryDo(c.Request(c.T.Context(), method, path, payload, headers...))
}

// Cancel cancels the reply that is generated in a chat.
func (c Client) Cancel(chatID string) Answer {
	return c.Call(http.MethodPost, "/v1/message/"+chatID+"/cancel", nil)
}

// longestEvent is longer than any event, in bytes.
const longestEvent = 16 << 20

// TryOpen sends a request and returns the stream of its answer, for any status.
func (c Client) TryOpen(method, path string, payload Body, headers ...string) (*Stream, error) {
	ctx, cancel := context.WithCancel(c.T.Context())
	response, err := cmp.Or(c.HTTP, httpClient).Do(c.Request(ctx, method, path, payload, headers...)) //nolint:bodyclose // the stream closes it
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Stream{Response: response, t: c.T, read: streaming.NewEventReader(response.Body, longestEvent), hangUp: cancel}
	c.T.Cleanup(s.Close)
	return s, nil
}

// Open sends a request and requires a stream.
func (c Client) Open(method, path string, payload Body, headers ...string) *Stream {
	c.T.Helper()
	s, err := c.TryOpen(method, path, payload, headers...)
	check(c.T, err)
	if s.Response.StatusCode != http.StatusOK {
		c.T.Fatalf("%s %s: %s %s", method, path, s.Response.Status, s.Raw())
	}
	return s
}

// MessagePath returns the path of a message and its body there: it continues the chat, or starts one for "".
func MessagePath(chatID string, payload Body) (string, Body) {
	if chatID == "" {
		return "/v1/message/first", payload
	}
	with := Body{"chat_id": chatID}
	maps.Copy(with, payload)
	return "/v1/message", with
}

// Send sends a message and returns the stream of its reply.
func (c Client) Send(chatID string, payload Body, headers ...string) *Stream {
	c.T.Helper()
	path, payload := MessagePath(chatID, payload)
	return c.Open(http.MethodPost, path, payload, headers...)
}

// Resume resumes the stream of a chat's reply. query is "" or begins with a question mark.
func (c Client) Resume(chatID, query string, headers ...string) *Stream {
	c.T.Helper()
	return c.Open(http.MethodGet, ResumePath(chatID, query), nil, headers...)
}

// ResumePath returns the path of the stream of a chat's reply.
func ResumePath(chatID, query string) string { return "/v1/message/" + chatID + "/stream" + query }

// Say sends a message, reads its whole reply and requires that it is complete.
func (c Client) Say(chatID, content string) Said {
	c.T.Helper()
	found := c.Send(chatID, Body{"content": content}).Rest()
	require.Truef(c.T, found.End.Name == Completion, "the reply ended with %s %v", found.End.Name, found.End.Data)
	return found
}

// FreeAddress returns an address that nothing listens at, for other programs, and for servers that come back. Its port is none
// of the ones that the system hands out, so that no connection of another test takes it meanwhile.
func FreeAddress(t testing.TB) string {
	address, err := freeAddress()
	check(t, err)
	return address
}

func freeAddress() (string, error) {
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		listener, err := net.Listen("tcp", address)
		if err == nil {
			_ = listener.Close() // it was only asked whether it is free
			return address, nil
		}
	}
	return "", errors.New("no port is free")
}

// FindBrowser returns the path of Chromium, and ends the test where there is none. Debian's build without windows comes
// first: it takes two thirds of the CPU of the one with them.
func FindBrowser(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium: run scripts/setup test, or apt-get install chromium-headless-shell")
	return ""
}
