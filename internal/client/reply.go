package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/streaming"
)

// Reply is the reply to a message, over as many connections as it took. End is always set when Send returns no error.
type Reply struct {
	Started streaming.Started
	End     streaming.Terminal
	length  int    // of its text, in characters
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
func (r *Reply) follow(from *events, listener Listener) error {
	for first := true; ; first = false {
		next, err := from.next()
		switch {
		case errors.Is(err, errEventTooLarge):
			return broken("%v", err)
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

// apply applies one event. One that cannot be decoded does not set End.
func (r *Reply) apply(next event, listener Listener) (err error) {
	switch next.name {
	case streaming.EventStarted:
		return r.start(next, listener)
	case streaming.EventDelta:
		return r.delta(next, listener)
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
	r.Started = *started
	if err := r.checkID(next, strconv.Itoa(started.Offset)); err != nil {
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
	if err := r.checkID(next, strconv.Itoa(r.length)); err != nil {
		return err
	}
	if listener.Text != nil {
		listener.Text(d.Delta)
	}
	return nil
}

func (r *Reply) complete(next event) error {
	completed, err := decode[streaming.Completed](next)
	if err != nil {
		return err
	}
	if completed.ContentLength != r.length {
		return broken("%d characters came of a reply of %d", r.length, completed.ContentLength)
	}
	if err := r.checkID(next, "end"); err != nil {
		return err
	}
	r.End.Completed = completed
	return nil
}

// checkID compares an event's id with the position in the text that it must name.
func (r *Reply) checkID(next event, position string) error {
	if want := r.Started.MessageID.String() + ":" + position; next.id != want {
		return broken("%s has id %q, not %q", next.name, next.id, want)
	}
	return nil
}

// decode decodes an event's data.
func decode[T any](from event) (*T, error) {
	into := new(T)
	if err := json.Unmarshal([]byte(from.data), into); err != nil {
		return nil, broken("%s: %v", from.name, err)
	}
	return into, nil
}
