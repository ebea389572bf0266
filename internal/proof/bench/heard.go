package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/proof/stack"
)

// heard is what a client has put together of one reply, over as many connections as it took.
type heard struct {
	text   []byte
	chars  int
	last   string // id of the latest event
	began  bool   // message.started has come
	deltas int    // since the latest connection
	first  time.Time
	twice  int    // characters that came again
	end    string // the terminal event's name
	code   string // and its code, when it is a failure
}

// listen reads events until enough says so or the reply has ended. A connection that breaks off is an error.
func (h *heard) listen(body io.Reader, enough func() bool) error {
	h.deltas, h.first = 0, time.Time{}
	lines := bufio.NewReader(body)
	var e stack.Event
	for h.end == "" && !enough() {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("no terminal event: %w", err)
		}
		if len(line) > 1 {
			e.Add(bytes.TrimSuffix(line, []byte("\n")))
			continue
		}
		if err := h.take(e); err != nil {
			return err
		}
		e = stack.Event{}
	}
	return nil
}

// never is for who listens to the end.
func never() bool { return false }

func (h *heard) take(e stack.Event) error {
	if e.Data == nil {
		return nil // a comment
	}
	var said struct {
		Offset int
		Delta  string
		Code   string
	}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return err
	}
	h.last = e.ID
	switch e.Name {
	case "message.started":
		h.began = true
	case "content.delta":
		return h.add(said.Offset, said.Delta)
	case "completion", "message.failed", "message.cancelled":
		h.end, h.code = e.Name, said.Code
	default:
		return fmt.Errorf("an event %q", e.Name)
	}
	return nil
}

func (h *heard) add(offset int, delta string) error {
	if offset > h.chars {
		return fmt.Errorf("characters %d to %d are missing", h.chars, offset)
	}
	if h.deltas == 0 {
		h.first = time.Now()
	}
	h.deltas++
	h.twice += h.chars - offset
	h.text = append(h.text, delta...)
	h.chars += utf8.RuneCountInString(delta)
	return nil
}

// finish reads on to the end on a new connection, and gives the time from before it was made until the
// first missing characters were there; 0 when none were missing.
func (h *heard) finish(ctx context.Context, p endpoint, a asking) (time.Duration, error) {
	began := time.Now()
	c, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	body, err := c.send(a.resume(h.last))
	if err != nil {
		return 0, err
	}
	err = h.listen(body, never)
	if h.first.IsZero() {
		return 0, err
	}
	return h.first.Sub(began), err
}

// messageOf is the message that an event id names.
func messageOf(eventID string) string {
	message, _, _ := strings.Cut(eventID, ":")
	return message
}
