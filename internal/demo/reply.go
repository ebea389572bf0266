package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// reply is what came of one message, over as many connections as it took.
type reply struct {
	started   streaming.Started
	text      strings.Builder
	length    int // of text, in characters
	deltas    int
	lastID    string // of the last event, to go on from
	completed *streaming.Completed
	failed    *streaming.Failed
	receipt   memory.Receipt
	// begun is when the message was sent, firstDelta how long the first words took; zero without any.
	begun      time.Time
	firstDelta time.Duration
}

// contractError is a stream that does not keep to the contract. To ask again would not help.
type contractError struct{ text string }

func (e *contractError) Error() string { return "the stream breaks the contract: " + e.text }

func broken(format string, args ...any) error { return &contractError{fmt.Sprintf(format, args...)} }

// errCut is a stream that ended without its last event: the reply goes on without us.
var errCut = errors.New("the stream ended before its last event")

// follow reads one connection's events to the terminal one. onText is called with each piece of text.
func (r *reply) follow(body io.Reader, onText func(string)) error {
	events := newEventReader(body)
	for first := true; ; first = false {
		e, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return errCut
		case errors.Is(err, errEventTooLarge):
			return broken("%v", err)
		case err != nil:
			return fmt.Errorf("%w: %w", errCut, err)
		case first && e.name != streaming.EventStarted:
			return broken("it begins with %q", e.name)
		case !first && e.name == streaming.EventStarted:
			return broken("it begins twice")
		}
		ended, err := r.take(e, onText)
		if ended || err != nil {
			return err
		}
		r.lastID = e.id
	}
}

// take applies one event and tells whether it was the terminal one.
func (r *reply) take(e event, onText func(string)) (ended bool, err error) {
	switch e.name {
	case streaming.EventStarted:
		return false, r.start(e)
	case streaming.EventDelta:
		return false, r.grow(e, onText)
	case streaming.EventCompleted:
		return true, r.complete(e)
	case streaming.EventFailed:
		r.failed = &streaming.Failed{}
		return true, decode(e, r.failed)
	case streaming.EventCancelled:
		r.failed = &streaming.Failed{Code: "cancelled", Message: "Somebody stopped the reply."}
		return true, nil
	}
	return false, broken("there is no event %q", e.name)
}

func (r *reply) start(e event) error {
	var started streaming.Started
	if err := decode(e, &started); err != nil {
		return err
	}
	if r.started.MessageID != uuid.Nil && started.MessageID != r.started.MessageID {
		return broken("the same message is answered by another reply")
	}
	if started.Offset != r.length {
		return broken("the stream begins at character %d, not at %d", started.Offset, r.length)
	}
	r.started = started
	return r.checkID(e, strconv.Itoa(r.length))
}

func (r *reply) grow(e event, onText func(string)) error {
	var delta streaming.Delta
	if err := decode(e, &delta); err != nil {
		return err
	}
	if delta.Offset != r.length {
		return broken("a delta at character %d follows character %d", delta.Offset, r.length)
	}
	if r.deltas == 0 {
		r.firstDelta = time.Since(r.begun)
	}
	r.deltas++
	r.length += utf8.RuneCountInString(delta.Delta)
	r.text.WriteString(delta.Delta)
	onText(delta.Delta)
	return r.checkID(e, strconv.Itoa(r.length))
}

func (r *reply) complete(e event) error {
	var completed streaming.Completed
	if err := decode(e, &completed); err != nil {
		return err
	}
	if completed.ContentLength != r.length {
		return broken("%d characters came of a reply of %d", r.length, completed.ContentLength)
	}
	if err := json.Unmarshal(completed.Memory, &r.receipt); err != nil {
		return broken("the receipt: %v", err)
	}
	r.completed = &completed
	return r.checkID(e, "end")
}

// checkID compares an event's id with the place in the text that it must name.
func (r *reply) checkID(e event, place string) error {
	if want := r.started.MessageID.String() + ":" + place; e.id != want {
		return broken("%s has id %q, not %q", e.name, e.id, want)
	}
	return nil
}

func decode(e event, into any) error {
	if err := json.Unmarshal([]byte(e.data), into); err != nil {
		return broken("%s: %v", e.name, err)
	}
	return nil
}
