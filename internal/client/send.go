package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

// How a message is retried.
const (
	// patience bounds all waits for one message together.
	patience = 5 * time.Minute
	// maxBreaks is the number of broken connections in a row, without new text or parts in between, after which Send gives up.
	maxBreaks = 6
	// firstPause bounds the pause before the first new try. The bound doubles with each try until new text comes, up to
	// maxPause. The pause is random up to it, "full jitter": clients that were cut off together come back one by one.
	// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
	// maxSilence is far above the 15 s between two pings.
	maxSilence = 45 * time.Second
)

var errSilent = errors.New("nothing came for too long")

// Message is a message to send. Only Content is required.
type Message struct {
	ChatID       uuid.UUID // uuid.Nil starts a chat
	Content      string
	ModelVariant string
	// Replaces is the message that is edited or, without Content, gets another reply; uuid.Nil for none. It is refused where the
	// chat does not end with Last.
	Replaces, Last uuid.UUID
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
	Part    func(memory.Part)
	// Waiting is called before a pause and the next try. reason is an *Error when the server asked for the pause.
	Waiting func(reason error, pause time.Duration)
}

// Send sends a message and follows its reply to the end, or until it waits for answers to calls. It resumes after a broken connection and waits when the server
// asks for it. A failed reply is no error: see Reply.End. When ctx ends, the reply goes on on the server.
func (c *Client) Send(ctx context.Context, message Message, listener Listener) (Reply, error) {
	if message.ClientMessageID == uuid.Nil {
		message.ClientMessageID = uuid.New()
	}
	path, body := message.body()
	return c.insist(ctx, Reply{}, message.WaitWhileBusy, listener, func(Reply) request { return request{http.MethodPost, path, body} })
}

// AnswerCall answers a call of a tool for which a reply waits, with a body as the API has it, such as {"approved": true}, and follows
// the reply as Send does. It is the reply that Send or AnswerCall returned.
func (c *Client) AnswerCall(ctx context.Context, reply Reply, callID string, answer map[string]any, listener Listener) (Reply, error) {
	waited := reply.lastID
	reply.End = streaming.Terminal{}
	return c.insist(ctx, reply, false, listener, func(now Reply) request {
		if now.lastID != waited { // the answer is there, and the reply goes on
			return request{http.MethodGet, "/v1/message/" + now.Started.ChatID.String() + "/stream", nil}
		}
		return request{http.MethodPost, "/v1/messages/" + now.Started.MessageID.String() + "/calls/" + url.PathEscape(callID), answer}
	})
}

// request is what asks for a reply's events.
type request struct {
	method, path string
	body         map[string]any
}

// insist asks for a reply's events until it ends.
func (c *Client) insist(ctx context.Context, reply Reply, waitWhileBusy bool, listener Listener, next func(Reply) request) (Reply, error) {
	var waited time.Duration
	astray := false // a try came to a server of another cell; the next one may not
	for tries, broke := 0, 0; ; tries++ {
		length, parts := reply.length, reply.parts
		err := c.attempt(ctx, next(reply), &reply, listener)
		if err == nil || ctx.Err() != nil {
			return reply, errors.Join(err, ctx.Err())
		}
		if reply.length > length || reply.parts > parts {
			tries, broke = 0, 0
		}
		refused, isRefusal := errors.AsType[*Error](err)
		if broke++; isRefusal {
			broke = 0 // the server is there
		}
		pause := c.jitter(min(firstPause<<min(tries, maxBreaks), maxPause))
		if isRefusal {
			pause += refused.RetryAfter
		}
		again := c.passes(err, waitWhileBusy)
		if isRefusal && refused.Code == fault.WrongCell {
			again, astray = !astray, true
		}
		if waited += pause; waited > patience || broke >= maxBreaks || !again {
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

// passes reports whether the same request may succeed later.
func (c *Client) passes(err error, waitWhileBusy bool) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusServiceUnavailable ||
			waitWhileBusy && refused.Code == fault.GenerationInProgress
	}
	_, wrong := errors.AsType[*contractError](err)
	return !wrong && c.answered.Load()
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
	body = map[string]any{"client_message_id": m.ClientMessageID}
	if m.Content != "" || m.Replaces == uuid.Nil {
		body["content"] = m.Content
	}
	if m.ModelVariant != "" {
		body["model_variant"] = m.ModelVariant
	}
	if m.Replaces != uuid.Nil {
		body["replaces"], body["last_message_id"] = m.Replaces, m.Last
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

// attempt asks once and follows the reply until it or the connection ends.
func (c *Client) attempt(ctx context.Context, ask request, reply *Reply, listener Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var content io.Reader = http.NoBody
	if ask.body != nil {
		encoded, err := json.Marshal(ask.body)
		if err != nil {
			return fmt.Errorf("encode the message: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	headers := []string{"Accept", "text/event-stream"}
	if reply.lastID != "" {
		headers = append(headers, "Last-Event-ID", reply.lastID)
	}
	response, err := c.send(ctx, ask.method, ask.path, nil, content, headers...)
	if err != nil {
		return reply.unlessFailed(err)
	}
	defer func() { _ = response.Body.Close() }() // read as far as needed
	if response.StatusCode == http.StatusNoContent {
		return errCut // by a proxy: the server has at least the end to send
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "text/event-stream" {
		return broken("the content type is %q", response.Header.Get("Content-Type"))
	}
	watched := &watched{in: response.Body, most: c.silence, silence: time.AfterFunc(c.silence, func() { cancel(errSilent) })}
	defer watched.silence.Stop()
	return reply.follow(streaming.NewEventReader(watched, maxEvent), listener)
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

// Reply is the reply to a message, over as many connections as it took. End is always set when Send returns no error.
type Reply struct {
	Started streaming.Started
	End     streaming.Terminal
	length  int    // of its text, in characters
	parts   int    // so far
	lastID  string // of the last event, to resume from
}

// contractError is the error of a stream that breaks the API's contract. It is not retried.
type contractError struct{ text string }

func (e *contractError) Error() string { return "the stream breaks the contract: " + e.text }

func broken(format string, args ...any) error { return &contractError{fmt.Sprintf(format, args...)} }

// unlessFailed turns the refusals that mean "the model failed" into a failed reply: the message is stored,
// and the conversation can continue.
func (r *Reply) unlessFailed(err error) error {
	refused, ok := errors.AsType[*Error](err)
	if !ok || refused.Status != http.StatusBadGateway && refused.Status != http.StatusGatewayTimeout {
		return err
	}
	if id, ok := refused.Details["chat_id"].(string); ok && r.Started.ChatID == uuid.Nil {
		r.Started.ChatID, _ = uuid.Parse(id) // the nil id on error
	}
	r.End.Failed = &streaming.Failed{Code: string(refused.Code), Message: refused.Message, Retryable: true}
	return nil
}

// follow reads one connection's events up to the terminal one.
func (r *Reply) follow(from *streaming.EventReader, listener Listener) error {
	for first := true; ; first = false {
		next, err := nextEvent(from)
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			return broken("a server-sent event is larger than anything the server sends")
		case err != nil:
			return err
		case first && next.name != streaming.EventStarted:
			return broken("it begins with %q", next.name)
		case !first && next.name == streaming.EventStarted:
			return broken("it begins twice")
		}
		if err := r.apply(next, listener); err != nil {
			return err
		}
		if r.End != (streaming.Terminal{}) {
			return nil
		}
		r.lastID = next.id
	}
}

// maxEvent is the largest event in bytes, far above the server's own limits.
const maxEvent = 4 << 20

// errCut means that a stream ended without its terminal event. The reply goes on without us.
var errCut = errors.New("the stream broke off")

// event is one server-sent event.
type event struct {
	name, id string
	data     []byte // valid until the next one
}

func nextEvent(from *streaming.EventReader) (event, error) {
	if from.Next() {
		return event{string(from.Name), string(from.ID), from.Data}, nil
	}
	if err := from.Err(); err != nil {
		return event{}, fmt.Errorf("%w: %w", errCut, err)
	}
	return event{}, errCut
}

// apply applies one event. One that cannot be decoded does not set End.
func (r *Reply) apply(next event, listener Listener) (err error) {
	switch next.name {
	case streaming.EventStarted:
		return r.start(next, listener)
	case streaming.EventDelta:
		return r.delta(next, listener)
	case streaming.EventPart:
		return r.part(next, listener)
	case streaming.EventAwaiting:
		return r.await(next)
	case streaming.EventCompleted:
		return r.complete(next)
	case streaming.EventCancelled:
		r.End.Cancelled, err = decode[streaming.Cancelled](next)
	case streaming.EventFailed:
		r.End.Failed, err = decode[streaming.Failed](next)
	}
	return err // nil for an unknown event: a later server may send more
}

func (r *Reply) start(next event, listener Listener) error {
	started, err := decode[streaming.Started](next)
	if err != nil {
		return err
	}
	first := r.Started.MessageID == uuid.Nil
	if !first && started.MessageID != r.Started.MessageID {
		return broken("the same message is answered by another reply")
	}
	// After a crash less may be stored than was received; such a stream begins at its end.
	if started.Offset > r.length {
		return broken("it begins at character %d, not at %d", started.Offset, r.length)
	}
	if started.Parts != r.parts {
		return broken("it begins after %d parts, not after %d", started.Parts, r.parts)
	}
	r.Started = *started
	if err := r.checkID(next, r.position(started.Offset)); err != nil {
		return err
	}
	if first && listener.Started != nil {
		listener.Started(r.Started)
	}
	return nil
}

func (r *Reply) delta(next event, listener Listener) error {
	d, err := decode[streaming.Delta](next)
	if err != nil {
		return err
	}
	if d.Offset != r.length {
		return broken("a delta at character %d follows character %d", d.Offset, r.length)
	}
	r.length += utf8.RuneCountInString(d.Delta)
	if err := r.checkID(next, r.position(r.length)); err != nil {
		return err
	}
	if listener.Text != nil {
		listener.Text(d.Delta)
	}
	return nil
}

func (r *Reply) part(next event, listener Listener) error {
	added, err := decode[streaming.PartAdded](next)
	switch {
	case err != nil:
		return err
	case added.Part == nil:
		return broken("part %d is missing", added.Index)
	case added.Index != r.parts || added.Offset != r.length || added.Part.At != r.length:
		return broken("part %d at character %d, by itself %d, follows %d parts and character %d",
			added.Index, added.Offset, added.Part.At, r.parts, r.length)
	}
	r.parts++
	if err := r.checkID(next, r.position(r.length)); err != nil {
		return err
	}
	if listener.Part != nil {
		listener.Part(*added.Part)
	}
	return nil
}

// await takes the end of a stream whose reply goes on when calls are answered, so its id is a place in the reply.
func (r *Reply) await(next event) error {
	awaiting, err := decode[streaming.Awaiting](next)
	if err != nil {
		return err
	}
	if awaiting.ContentLength != r.length {
		return broken("%d characters came of a reply that waits at %d", r.length, awaiting.ContentLength)
	}
	if err := r.checkID(next, r.position(r.length)); err != nil {
		return err
	}
	r.End.Awaiting = awaiting
	return nil
}

func (r *Reply) complete(next event) error {
	completed, err := decode[streaming.Completed](next)
	if err != nil {
		return err
	}
	if completed.ContentLength != r.length || completed.Parts != r.parts {
		return broken("%d characters and %d parts came of a reply of %d and %d", r.length, r.parts, completed.ContentLength, completed.Parts)
	}
	if err := r.checkID(next, "end"); err != nil {
		return err
	}
	r.End.Completed = completed
	return nil
}

// position is the one of an event that ends at a character, after the parts so far.
func (r *Reply) position(chars int) string {
	if r.parts == 0 {
		return strconv.Itoa(chars)
	}
	return fmt.Sprintf("%d.%d", chars, r.parts)
}

// checkID compares an event's id with the position that it must name.
func (r *Reply) checkID(next event, position string) error {
	if want := r.Started.MessageID.String() + ":" + position; next.id != want {
		return broken("%s has id %q, not %q", next.name, next.id, want)
	}
	return nil
}

// decode decodes an event's data.
func decode[T any](from event) (*T, error) {
	into := new(T)
	if err := json.Unmarshal(from.data, into); err != nil {
		return nil, broken("%s: %v", from.name, err)
	}
	return into, nil
}
