package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// How often a call is repeated that failed before the server accepted it, the first wait in between, which doubles, and
// the longest that a server may ask for.
const (
	maxRetries    = 2
	firstRetry    = 500 * time.Millisecond
	maxRetryDelay = 5 * time.Second
)

// maxErrorBody is the part of an error's body, in bytes, that is read.
const maxErrorBody = 64 << 10

// refusal is an answer that is an error. One without the API's own error, such as a proxy's, has its status and perhaps a message.
type refusal struct {
	status                     int
	header                     http.Header
	code, kind, param, message string
}

// Error returns all but the message, which may quote the prompt.
func (r *refusal) Error() string {
	return fmt.Sprintf("status %d, code %s, type %s, param %s", r.status, word(r.code), word(r.kind), word(r.param))
}

func (r *refusal) known() *permanentRefusal { return knownRefusal(r.status, r.code, r.kind) }

// post sends a body as JSON to a path of the API, and again up to so many times where that makes sense. The caller closes
// the response. A refused call's error is a *refusal.
func post(ctx context.Context, client *http.Client, settings Settings, path string, body any, retries int) (*http.Response, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	for wait := firstRetry; ; wait *= 2 {
		response, err := postOnce(ctx, client, settings, path, encoded)
		if err == nil || retries == 0 || ctx.Err() != nil {
			return response, err
		}
		pause, again := retryPause(err, wait)
		if !again {
			return nil, err
		}
		retries--
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func postOnce(ctx context.Context, client *http.Client, settings Settings, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(settings.BaseURL, "/")+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	var sent sentBody
	defer sent.Store(nil)
	sent.Store(&body)
	request.Body, _ = sent.open()
	request.GetBody, request.ContentLength = sent.open, int64(len(body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if settings.APIKey != "" {
		request.Header.Set("Authorization", "Bearer "+settings.APIKey)
	}
	response, err := client.Do(request)
	if err != nil || response.StatusCode < http.StatusMultipleChoices {
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil {
		return nil, err
	}
	failed := gjson.GetBytes(said, "error")
	field := func(name string) string { return failed.Get(name).String() }
	message := cmp.Or(field("message"), gjson.GetBytes(said, "message").String(), gjson.GetBytes(said, "detail").String())
	return nil, &refusal{response.StatusCode, response.Header, field("code"), field("type"), field("param"), message}
}

// sentBody is a body that can be read from its start, as net/http does when a connection it kept was closed, until the
// response has begun. net/http holds the request until the response ends, which for a reply takes minutes, and the prompt
// would be most of a running reply's memory.
type sentBody struct{ atomic.Pointer[[]byte] }

func (s *sentBody) open() (io.ReadCloser, error) {
	body := s.Load()
	if body == nil {
		return nil, http.ErrBodyReadAfterClose
	}
	opened := &openedBody{}
	opened.Store(bytes.NewReader(*body))
	return opened, nil
}

// openedBody releases the body once it is read to its end or closed.
type openedBody struct{ atomic.Pointer[bytes.Reader] }

func (o *openedBody) Read(p []byte) (int, error) {
	body := o.Load()
	if body == nil {
		return 0, io.EOF
	}
	n, err := body.Read(p)
	if err != nil {
		_ = o.Close()
	}
	return n, err
}

func (o *openedBody) Close() error {
	o.Store(nil)
	return nil
}

// retryPause returns how long to wait before a failed call is repeated, and whether it is. The server decides where it
// says so; a connection that broke before there was an answer is always tried again.
func retryPause(err error, wait time.Duration) (pause time.Duration, again bool) {
	wait -= rand.N(wait / 4)            //nolint:gosec // it only keeps many servers from asking at the same time
	refused, answered := err.(*refusal) //nolint:errorlint // of postOnce
	if !answered {
		return wait, true
	}
	if asked := refused.header.Get("X-Should-Retry"); asked == "false" || asked != "true" && !refused.passes() {
		return 0, false
	}
	after := refused.header.Get("Retry-After")
	seconds, err := strconv.ParseFloat(after, 64)
	if at, no := http.ParseTime(after); no == nil {
		seconds, err = max(0, time.Until(at).Seconds()), nil
	}
	if err == nil && seconds >= 0 {
		return time.Duration(seconds * float64(time.Second)), seconds <= maxRetryDelay.Seconds()
	}
	return wait, true
}

// passes reports whether a refusal may be over soon, other than a used up quota, which OpenAI sends with the status of a
// rate limit.
func (r *refusal) passes() bool {
	switch r.status {
	case http.StatusRequestTimeout, http.StatusConflict:
		return true
	case http.StatusTooManyRequests:
		return r.known() == nil
	}
	return r.status >= http.StatusInternalServerError
}
