// Package client is a Go client of the HTTP API, for the commands that use a running server. It stores nothing.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	// headerTimeout bounds the wait for the headers of an answer; a reply's come within 15 s.
	headerTimeout = 2 * time.Minute
	// maxAnswer is the largest JSON answer in bytes.
	maxAnswer = 64 << 20
)

// Client talks to one server as one user. It is safe for concurrent use. Close it.
type Client struct {
	url, token string
	http       *http.Client
	// answered is true after the first answer. From then on a broken connection is retried; before, the address is wrong.
	answered atomic.Bool
	// silence is the longest time without data on a reply's stream, pings included.
	silence time.Duration
	// jitter returns a random time below a bound.
	jitter func(bound time.Duration) time.Duration
	// pause waits, unless ctx ends first.
	pause func(ctx context.Context, d time.Duration) error
}

// New makes a client. address is the API's base, such as http://127.0.0.1:8080; token is a user's access
// token.
func New(address, token string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headerTimeout
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns // there is only one host
	return &Client{
		url: strings.TrimRight(address, "/"), token: token, http: &http.Client{Transport: transport},
		silence: maxSilence, jitter: rand.N[time.Duration], pause: sleep,
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Reach returns an error when no server answers, ready or not, so that a wrong address is reported before anything
// is sent.
func (c *Client) Reach(ctx context.Context) error {
	response, err := c.send(ctx, http.MethodGet, "/readyz", nil, http.NoBody)
	if _, refused := errors.AsType[*Error](err); refused {
		return nil
	}
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Error is a request that the server refused.
type Error struct {
	Status     int            `json:"-"`
	RetryAfter time.Duration  `json:"-"`
	Code       fault.Code     `json:"code"`
	Message    string         `json:"message"`
	Details    map[string]any `json:"details"`
}

func (e *Error) Error() string {
	text := []string{fmt.Sprintf("%s (%d %s)", e.Message, e.Status, e.Code)}
	if e.Code == fault.ValidationFailed {
		for _, field := range slices.Sorted(maps.Keys(e.Details)) {
			text = append(text, fmt.Sprintf("%s %v", field, e.Details[field]))
		}
	}
	return strings.Join(text, "; ")
}

// IsCode reports whether err is a refusal with this code.
func IsCode(err error, code fault.Code) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Code == code
}

// unreachable is the error of a request that no server answered.
type unreachable struct {
	url string
	err error
}

func (e *unreachable) Error() string {
	return fmt.Sprintf("no server answers at %s; `make run` starts one: %v", e.url, e.err)
}

func (e *unreachable) Unwrap() error { return e.err }

// Call sends a request and returns the answer's JSON, nil when it has none. body is encoded as the request's
// JSON; nil is none.
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body any) (json.RawMessage, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	response, err := c.send(ctx, method, path, query, content)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	if len(answer) == 0 {
		return nil, nil
	}
	if !json.Valid(answer) {
		return nil, errors.New("the answer is no JSON; is this a Throughline server?")
	}
	return answer, nil
}

// Ask is Call with the answer decoded.
func Ask[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (T, error) {
	var into T
	answer, err := c.Call(ctx, method, path, query, body)
	if err == nil && answer != nil {
		err = json.Unmarshal(answer, &into)
	}
	return into, err
}

// send sends a request and returns the answer, or its refusal as an *Error. headers are name, value, name, value …
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body io.Reader, headers ...string) (*http.Response, error) {
	address := c.url + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := c.http.Do(request)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, &unreachable{c.url, err}
	}
	c.answered.Store(true)
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, refusal(response)
	}
	return response, nil
}

// refusal reads and closes the answer to a refused request.
func refusal(response *http.Response) error {
	defer func() { _ = response.Body.Close() }() // read to its end
	e := &Error{Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"))}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // as much as there is
	if json.Unmarshal(body, e) != nil || e.Code == "" {
		e.Code, e.Message = "unknown", "This is no answer of Throughline's."
	}
	return e
}

// retryAfter parses the header in seconds, the form that the server sends; 0 without it. A longer time than the patience
// makes Send give up, however long it is.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(2*patience/time.Second))) * time.Second
}
