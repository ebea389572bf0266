package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/streaming"
)

// The names of events.
const (
	Started    = "message.started"
	Delta      = "content.delta"
	PartAdded  = "part.added"
	Awaiting   = "message.awaiting"
	Completion = "completion"
	Failed     = "message.failed"
	Cancelled  = "message.cancelled"
)

// ErrCut is the error of a stream that ended without a terminal event.
var ErrCut = errors.New("the stream has no terminal event")

// Event is one server-sent event.
type Event struct {
	ID, Name string
	Data     map[string]any
}

// Terminal reports whether the event ends a stream.
func (e Event) Terminal() bool {
	return e.Name == Completion || e.Name == Failed || e.Name == Cancelled || e.Name == Awaiting
}

// Code returns the code of a failure.
func (e Event) Code() string {
	code, _ := e.Data["code"].(string)
	return code
}

// Stream reads the events of one answer and checks the order of each, and that its id is its position in the reply.
type Stream struct {
	Response *http.Response
	// Events, Text and Parts are the ones read so far.
	Events []Event
	Text   string
	Parts  []map[string]any

	t      testing.TB
	text   strings.Builder // builds Text
	chars  int             // of Text
	read   *streaming.EventReader
	hangUp context.CancelFunc
}

// Close hangs up. It may be called more than once.
func (s *Stream) Close() {
	s.hangUp()
	_ = s.Response.Body.Close() // the test has read what it needs
}

// Raw returns the rest, for an answer that is not a stream of events.
func (s *Stream) Raw() string {
	raw, _ := io.ReadAll(s.Response.Body) // as much as there is
	return string(raw)
}

// Next reads one event; io.EOF after the last, ErrCut when the connection broke.
func (s *Stream) Next() (Event, error) {
	if !s.read.Next() {
		if err := s.read.Err(); err != nil {
			return Event{}, fmt.Errorf("%w: %w", ErrCut, err)
		}
		return Event{}, io.EOF
	}
	e := Event{ID: string(s.read.ID), Name: string(s.read.Name)}
	if err := json.Unmarshal(s.read.Data, &e.Data); err != nil {
		return e, err
	}
	return e, s.accept(e)
}

func (s *Stream) accept(e Event) error {
	s.Events = append(s.Events, e)
	if first := len(s.Events) == 1; first != (e.Name == Started) {
		return errors.New("message.started is not the first event, or not the only such")
	}
	if err := s.grow(e); err != nil {
		return err
	}
	if want := s.MessageID() + ":" + s.idAt(e); e.ID != want {
		return fmt.Errorf("the event's id is %s, want %s", e.ID, want)
	}
	return s.acceptEnd(e)
}

// grow adds a text or a part, which must follow all that came before.
func (s *Stream) grow(e Event) error {
	if e.Name != Delta && e.Name != PartAdded {
		return nil
	}
	if offset := number(e.Data, "offset"); offset != s.position() {
		return fmt.Errorf("%s for the place %d at %d", e.Name, offset, s.position())
	}
	if e.Name == Delta {
		delta := e.Data["delta"].(string)
		s.text.WriteString(delta)
		s.Text, s.chars = s.text.String(), s.chars+utf8.RuneCountInString(delta)
		return nil
	}
	part := e.Data["part"].(map[string]any)
	if index := number(e.Data, "index"); index != s.parts() || number(part, "at") != s.position() {
		return fmt.Errorf("part %d with the place %d, after %d parts at %d", index, number(part, "at"), s.parts(), s.position())
	}
	s.Parts = append(s.Parts, part)
	return nil
}

// acceptEnd checks the lengths that a terminal event tells. A stream that began at the end has no text.
func (s *Stream) acceptEnd(e Event) error {
	length, known := e.Data["content_length"].(float64)
	if known && e.Name != Failed && int(length) != s.position() && s.Text != "" {
		return fmt.Errorf("the reply has %v characters, read are %d", length, s.position())
	}
	if e.Name == Completion && number(e.Data, "parts") != s.parts() {
		return fmt.Errorf("the reply has %d parts, read are %d", number(e.Data, "parts"), s.parts())
	}
	return nil
}

// idAt is the position that an event's id has to name.
func (s *Stream) idAt(e Event) string {
	switch {
	case e.Terminal() && e.Name != Awaiting:
		return "end"
	case s.parts() == 0:
		return strconv.Itoa(s.position())
	}
	return fmt.Sprintf("%d.%d", s.position(), s.parts())
}

// position is the number of characters of the reply so far: before the stream, and in it.
func (s *Stream) position() int { return number(s.Events[0].Data, "offset") + s.chars }

// parts is the number of parts so far, likewise.
func (s *Stream) parts() int { return number(s.Events[0].Data, "parts") + len(s.Parts) }

// number returns a member of an object, 0 where there is none.
func number(of map[string]any, name string) int {
	n, _ := of[name].(float64)
	return int(n)
}

func (s *Stream) started(name string) string {
	if len(s.Events) == 0 {
		s.Until(func(e Event) bool { return e.Name == Started })
	}
	return s.Events[0].Data[name].(string)
}

// ChatID returns the chat's id, from the first event.
func (s *Stream) ChatID() string { return s.started("chat_id") }

// MessageID returns the reply's id, from the first event.
func (s *Stream) MessageID() string { return s.started("message_id") }

// LastID returns the id of the latest event.
func (s *Stream) LastID() string { return s.Events[len(s.Events)-1].ID }

// Until reads up to the first event that matches.
func (s *Stream) Until(match func(Event) bool) Event {
	for {
		e, err := s.Next()
		require.Truef(s.t, err == nil, "the stream ended without the event: %v, after %d events", err, len(s.Events))
		if match(e) {
			return e
		}
	}
}

// UntilText reads until the text of this stream is text.
func (s *Stream) UntilText(text string) {
	for s.Text != text {
		e, err := s.Next()
		require.Truef(s.t, err == nil && !e.Terminal() && strings.HasPrefix(text, s.Text),
			"want %.200q, got %.200q, %s, %v", text, s.Text, e.Name, err)
	}
}

// Said is a complete reply.
type Said struct {
	ChatID, MessageID, UserMessageID string
	Start, End                       Event
	Text                             string
}

// Rest reads to the end and requires exactly one terminal event, as the last.
func (s *Stream) Rest() Said {
	found, err := s.TryRest()
	check(s.t, err)
	return found
}

// TryRest is Rest for goroutines other than the test's own. ErrCut means a stream without a terminal event.
func (s *Stream) TryRest() (Said, error) {
	for {
		e, err := s.Next()
		if errors.Is(err, io.EOF) {
			return Said{}, ErrCut
		}
		if err != nil {
			return Said{}, err
		}
		if !e.Terminal() {
			continue
		}
		if extra, err := s.Next(); !errors.Is(err, io.EOF) {
			return Said{}, errors.New("after the terminal event came " + extra.Name)
		}
		start := s.Events[0]
		return Said{
			ChatID: start.Data["chat_id"].(string), MessageID: start.Data["message_id"].(string),
			UserMessageID: start.Data["user_message_id"].(string), Start: start, End: e, Text: s.Text,
		}, nil
	}
}
