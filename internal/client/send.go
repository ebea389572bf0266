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

// How a message is retried.
const (
	// patience bounds all waits for one message together.
	patience = 5 * time.Minute
	// maxBreaks is the number of broken connections in a row after which Send gives up.
	maxBreaks = 6
	// firstPause is the pause after the first broken connection; it doubles with each.
	firstPause = 250 * time.Millisecond
	// minPause is the pause before a busy chat is asked again, and the shortest after any refusal.
	minPause = 250 * time.Millisecond
	// maxSilence is far above the 15 s between two pings.
	maxSilence = 45 * time.Second
)

var errSilent = errors.New("nothing came for too long")

// Message is a message to send. Only Content is required.
type Message struct {
	ChatID       uuid.UUID // uuid.Nil starts a chat
	Content      string
	ModelVariant string
	// Temporary starts a chat of which nothing is remembered in others.
	Temporary bool
	// ClientMessageID makes it safe to send the message again. uuid.Nil makes a new one.
	ClientMessageID uuid.UUID
	// WaitWhileBusy waits for a running reply in the chat. Otherwise the message is refused with
	// generation_in_progress.
	WaitWhileBusy bool
}

// Listener receives the events of a reply, all on one goroutine. Each of its functions may be nil.
type Listener struct {
	Started func(streaming.Started)
	Text    func(string)
	// Waiting is called before a pause and the next try. reason is an *Error when the server asked for the pause.
	Waiting func(reason error, pause time.Duration)
}

// Send sends a message and follows its reply to the end. It resumes after a broken connection and waits when the server
// asks for it. A failed reply is no error: see Reply.End. When ctx ends, the reply goes on on the server.
func (c *Client) Send(ctx context.Context, message Message, listener Listener) (Reply, error) {
	if message.ClientMessageID == uuid.Nil {
		message.ClientMessageID = uuid.New()
	}
	var reply Reply
	var waited time.Duration
	for broke := 0; ; {
		before := reply.lastID
		err := c.attempt(ctx, message, &reply, listener)
		if err == nil || ctx.Err() != nil {
			return reply, errors.Join(err, ctx.Err())
		}
		if broke++; reply.lastID != before {
			broke = 0
		}
		pause, again := c.pauseAfter(err, broke, message.WaitWhileBusy)
		if _, refused := errors.AsType[*Error](err); refused {
			broke = 0 // the server is there
		}
		if waited += pause; !again || waited > patience {
			return reply, err
		}
		if listener.Waiting != nil {
			listener.Waiting(err, pause)
		}
		if err := c.pause(ctx, pause); err != nil {
			return reply, err
		}
	}
}

// pauseAfter returns how long to wait before the same request is sent again, and whether to send it again.
func (c *Client) pauseAfter(err error, broke int, waitWhileBusy bool) (pause time.Duration, again bool) {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.pause(waitWhileBusy)
	}
	if _, wrong := errors.AsType[*contractError](err); wrong || !c.answered.Load() {
		return 0, false
	}
	return firstPause << min(broke, maxBreaks), broke < maxBreaks
}

func (e *Error) pause(waitWhileBusy bool) (pause time.Duration, again bool) {
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return max(e.RetryAfter, minPause), true
	case e.Code == fault.GenerationInProgress:
		return minPause, waitWhileBusy
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

// body returns the path and the JSON of the message.
func (m Message) body() (path string, body map[string]any) {
	body = map[string]any{"content": m.Content, "client_message_id": m.ClientMessageID}
	if m.ModelVariant != "" {
		body["model_variant"] = m.ModelVariant
	}
	if m.ChatID == uuid.Nil {
		if m.Temporary {
			body["remember"] = false
		}
		return "/v1/message/first", body
	}
	body["chat_id"] = m.ChatID
	return "/v1/message", body
}

// attempt sends the message once and follows the reply until it or the connection ends.
func (c *Client) attempt(ctx context.Context, message Message, reply *Reply, listener Listener) error {
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
	defer func() { _ = response.Body.Close() }() // read as far as needed
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "text/event-stream" {
		return broken("the content type is %q", response.Header.Get("Content-Type"))
	}
	watched := &watched{in: response.Body, most: c.silence, silence: time.AfterFunc(c.silence, func() { cancel(errSilent) })}
	defer watched.silence.Stop()
	return reply.follow(newEvents(watched), listener)
}

// watched hangs up after a time without data, pings included.
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
