package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// How a message is tried again.
const (
	// patience is how long all waiting for one message may take together.
	patience = 5 * time.Minute
	// maxSilence is far above the 15 s between two pings.
	maxSilence = 45 * time.Second
	// breaks is how often in a row a connection may break before the server counts as gone.
	breaks      = 6
	firstBreak  = 250 * time.Millisecond
	busyWait    = 250 * time.Millisecond
	defaultWait = time.Second
	maxBody     = 1 << 16 // of an error
)

// client sends messages as one user. It is safe for concurrent use.
type client struct {
	url, token string
	http       *http.Client
	// pause waits, unless ctx ends first.
	pause func(ctx context.Context, d time.Duration) error
}

func newClient(url, token string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: maxParallel, ResponseHeaderTimeout: 2 * time.Minute}
	return &client{url: url, token: token, http: &http.Client{Transport: transport}, pause: sleep}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// reach tells whether a server answers at all, so that a wrong address is told before anything is sent.
func (c *client) reach(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/readyz", http.NoBody)
	if err != nil {
		return fmt.Errorf("address of the server: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("no server answers at %s; `make run` starts one: %w", c.url, err)
	}
	return response.Body.Close()
}

// close lets go of idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// message is what is sent. The client message id makes sending it again harmless.
type message struct {
	ChatID          *uuid.UUID `json:"chat_id,omitempty"` // nil starts a chat
	Content         string     `json:"content"`
	ClientMessageID uuid.UUID  `json:"client_message_id"`
}

// apiError is a request that the server refused.
type apiError struct {
	Status     int           `json:"-"`
	RetryAfter time.Duration `json:"-"`
	Code       fault.Code    `json:"code"`
	Message    string        `json:"message"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("the server answers %d %s: %s", e.Status, e.Code, e.Message)
}

// listener hears what happens to a message on its way. Its functions are called from one goroutine.
type listener struct {
	text func(string)
	wait func(code fault.Code, d time.Duration)
}

// say sends a message and reads the reply to its end. A connection that breaks is taken up where it
// broke, a server that asks to wait is waited for. A reply that failed is no error: see failed.
func (c *client) say(ctx context.Context, m message, hear listener) (*reply, error) {
	r := &reply{begun: time.Now()}
	var waited time.Duration
	for broke := 0; ; {
		before := r.lastID
		err := c.attempt(ctx, m, r, hear.text)
		if err == nil || ctx.Err() != nil {
			return r, errors.Join(err, ctx.Err())
		}
		if broke++; r.lastID != before {
			broke = 0
		}
		wait, again := waitAfter(err, broke)
		if refused, ok := errors.AsType[*apiError](err); ok {
			broke = 0
			hear.wait(refused.Code, wait)
		}
		if waited += wait; !again || waited > patience {
			return r, err
		}
		if err := c.pause(ctx, wait); err != nil {
			return r, err
		}
	}
}

// waitAfter tells how long to wait before the same request is sent again, if it is worth it.
func waitAfter(err error, broke int) (wait time.Duration, again bool) {
	if refused, ok := errors.AsType[*apiError](err); ok {
		switch refused.Status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return refused.RetryAfter, true
		case http.StatusConflict:
			return busyWait, refused.Code == fault.GenerationInProgress
		}
		return 0, false
	}
	if _, wrong := errors.AsType[*contractError](err); wrong {
		return 0, false
	}
	return firstBreak << min(broke, breaks), broke < breaks
}

// attempt sends the message once and follows the reply as far as the connection goes.
func (c *client) attempt(ctx context.Context, m message, r *reply, onText func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.post(ctx, m, r.lastID)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read as far as it was of use
	if response.StatusCode != http.StatusOK {
		return r.refused(readError(response))
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "text/event-stream" {
		return broken("the content type is %q", response.Header.Get("Content-Type"))
	}
	watched := &watchedReader{in: response.Body, silence: time.AfterFunc(maxSilence, cancel)}
	defer watched.silence.Stop()
	return r.follow(watched, onText)
}

func (c *client) post(ctx context.Context, m message, lastID string) (*http.Response, error) {
	path := "/v1/message"
	if m.ChatID == nil {
		path = "/v1/message/first"
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the message: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	return c.http.Do(request)
}

// refused turns the refusals that mean "the model failed" into a failed reply: the message is stored,
// and the conversation can go on. Any other is returned.
func (r *reply) refused(e *apiError) error {
	if e.Status != http.StatusBadGateway && e.Status != http.StatusGatewayTimeout {
		return e
	}
	r.failed = &streaming.Failed{Code: string(e.Code), Message: e.Message, Retryable: true}
	return nil
}

func readError(response *http.Response) *apiError {
	e := &apiError{Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"))}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody)) // what did not come cannot be told
	if json.Unmarshal(body, e) != nil || e.Code == "" {
		e.Code, e.Message = "unknown", "this is no answer of Throughline's"
	}
	return e
}

// retryAfter reads the header in seconds, the form that the server sends.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds < 0 {
		return defaultWait
	}
	return time.Duration(seconds) * time.Second
}

// watchedReader hangs up when nothing, not even a ping, has come for long.
type watchedReader struct {
	in      io.Reader
	silence *time.Timer
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.silence.Reset(maxSilence)
	return n, err
}
