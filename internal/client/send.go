package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

// How a message is tried again.
const (
	// patience is how long all waiting for one message may take together.
	patience = 5 * time.Minute
	// breaks is how often in a row a connection may break before the server counts as gone.
	breaks     = 6
	firstBreak = 250 * time.Millisecond
	// leastPause is before a busy chat is asked again, and the least whatever the server says.
	leastPause = 250 * time.Millisecond
	// maxSilence is far above the 15 s between two pings.
	maxSilence = 45 * time.Second
)

var errSilent = errors.New("nothing came for too long")

// Message is what is sent. Content alone is required.
type Message struct {
	ChatID       uuid.UUID // uuid.Nil starts a chat
	Content      string
	ModelVariant string
	// ClientMessageID makes sending it again harmless; made here when it is uuid.Nil.
	ClientMessageID uuid.UUID
	// WaitWhileBusy waits for the reply that still runs in the chat, as the server asks to wait elsewhere. Otherwise
	// the message is refused with generation_in_progress.
	WaitWhileBusy bool
}

// Listener hears what comes of a message, all on one goroutine. Each of its functions may be nil.
type Listener struct {
	Started func(streaming.Started)
	Text    func(string)
	// Waiting tells of a pause before the next try, and why: an *Error where the server asked for it.
	Waiting func(reason error, pause time.Duration)
}

// Send sends a message and follows its reply to the end. A connection that breaks is taken up where it
// broke, a server that asks to wait is waited for. A reply that failed is no error: see Reply.End. When ctx
// ends the reply goes on without us.
func (c *Client) Send(ctx context.Context, message Message, hear Listener) (Reply, error) {
	if message.ClientMessageID == uuid.Nil {
		message.ClientMessageID = uuid.New()
	}
	var reply Reply
	var waited time.Duration
	for broke := 0; ; {
		before := reply.lastID
		err := c.attempt(ctx, message, &reply, hear)
		if err == nil || ctx.Err() != nil {
			return reply, errors.Join(err, ctx.Err())
		}
		if broke++; reply.lastID != before {
			broke = 0
		}
		pause, again := c.pauseAfter(err, broke, message.WaitWhileBusy)
		if _, refused := errors.AsType[*Error](err); refused {
			broke = 0 // it is there
		}
		if waited += pause; !again || waited > patience {
			return reply, err
		}
		if hear.Waiting != nil {
			hear.Waiting(err, pause)
		}
		if err := c.pause(ctx, pause); err != nil {
			return reply, err
		}
	}
}

// pauseAfter tells how long to wait before the same request is sent again, if it is worth it.
func (c *Client) pauseAfter(err error, broke int, waitWhileBusy bool) (pause time.Duration, again bool) {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.pause(waitWhileBusy)
	}
	if _, wrong := errors.AsType[*contractError](err); wrong || !c.answered.Load() {
		return 0, false
	}
	return firstBreak << min(broke, breaks), broke < breaks
}

func (e *Error) pause(waitWhileBusy bool) (pause time.Duration, again bool) {
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return max(e.RetryAfter, leastPause), true
	case e.Code == fault.GenerationInProgress:
		return leastPause, waitWhileBusy
	}
	return 0, false
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

// body is the message as the API reads it.
func (m Message) body() (path string, body map[string]any) {
	body = map[string]any{"content": m.Content, "client_message_id": m.ClientMessageID}
	if m.ModelVariant != "" {
		body["model_variant"] = m.ModelVariant
	}
	if m.ChatID == uuid.Nil {
		return "/v1/message/first", body
	}
	body["chat_id"] = m.ChatID
	return "/v1/message", body
}

// attempt sends the message once and follows the reply as far as the connection goes.
func (c *Client) attempt(ctx context.Context, message Message, reply *Reply, hear Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	path, body := message.body()
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	headers := []string{"Accept", "text/event-stream"}
	if reply.lastID != "" {
		headers = append(headers, "Last-Event-ID", reply.lastID)
	}
	response, err := c.send(ctx, http.MethodPost, path, nil, bytes.NewReader(encoded), headers...)
	if err != nil {
		return reply.unlessFailed(err)
	}
	defer func() { _ = response.Body.Close() }() // read as far as it was of use
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "text/event-stream" {
		return broken("the content type is %q", response.Header.Get("Content-Type"))
	}
	watched := &watched{in: response.Body, most: c.silence, silence: time.AfterFunc(c.silence, func() { cancel(errSilent) })}
	defer watched.silence.Stop()
	return reply.follow(newEvents(watched), hear)
}

// watched hangs up when nothing, not even a ping, has come for long.
type watched struct {
	in      io.Reader
	most    time.Duration
	silence *time.Timer
}

func (w *watched) Read(into []byte) (int, error) {
	n, err := w.in.Read(into)
	w.silence.Reset(w.most)
	return n, err
}
