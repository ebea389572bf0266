package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/proof/stack"
	"github.com/arcoscribe/throughline/streaming"
)

// heard is what a client has put together of one reply, over as many connections as it took.
type heard struct {
	gauges *gauges
	asked  time.Time // when the message was first sent
	// elsewhere: it is read from another replica than the one that generates it.
	elsewhere bool
	joins     bool // another replica was asked for it before, and may generate it

	started streaming.Started
	text    []byte
	chars   int
	words   int // whole ones, the stamp among them
	stamp   stamp
	last    string // id of the latest event
	first   time.Duration
	end     string // the terminal event's name, "" as long as there is none
	code    string // and its code, when it is a failure
	memory  receipt
}

// receipt is what a reply was given to remember, in tokens and turns.
type receipt struct {
	Brief   int `json:"brief_tokens"`
	Bridge  int `json:"bridge_tokens"`
	Tail    int `json:"tail_tokens"`
	Dropped int `json:"dropped_turns"`
}

// errCut is a stream that ended without its terminal event.
var errCut = errors.New("no terminal event")

// listen reads events until enough says so or the reply has ended. It gives the time at which the first text of this
// connection came, zero when none did.
func (h *heard) listen(ctx context.Context, body io.Reader, enough func() bool) (firstText time.Time, err error) {
	lines := bufio.NewReader(body)
	var e stack.Event
	for h.end == "" && !enough() {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return firstText, errors.Join(errCut, err, ctx.Err())
		}
		if len(line) > 1 {
			e.Add(bytes.TrimSuffix(line, []byte("\n")))
			continue
		}
		if err := h.take(e, firstText.IsZero()); err != nil {
			return firstText, err
		}
		if e.Name == streaming.EventDelta && firstText.IsZero() {
			firstText = time.Now()
		}
		e = stack.Event{}
	}
	return firstText, nil
}

// take applies one event. opening: no text came on this connection yet, so that what comes may be late by the time
// for which nobody listened.
func (h *heard) take(e stack.Event, opening bool) error {
	if e.Data == nil {
		return nil // a comment
	}
	h.last = e.ID
	switch e.Name {
	case streaming.EventStarted:
		err := json.Unmarshal(e.Data, &h.started)
		h.elsewhere = h.elsewhere || h.joins && h.started.Resumed
		return err
	case streaming.EventDelta:
		return h.grow(e.Data, opening)
	case streaming.EventCompleted:
		var done struct {
			Length int     `json:"content_length"`
			Memory receipt `json:"memory"`
		}
		if err := json.Unmarshal(e.Data, &done); err != nil {
			return err
		}
		if h.end, h.memory = e.Name, done.Memory; done.Length != h.chars {
			return fmt.Errorf("%d characters came of a reply of %d", h.chars, done.Length)
		}
	case streaming.EventFailed, streaming.EventCancelled:
		var failed streaming.Failed
		if err := json.Unmarshal(e.Data, &failed); err != nil {
			return err
		}
		h.end, h.code = e.Name, failed.Code
	}
	return nil // an event that nobody here knows is passed over
}

func (h *heard) grow(data []byte, opening bool) error {
	now := time.Now()
	var delta streaming.Delta
	if err := json.Unmarshal(data, &delta); err != nil {
		return err
	}
	if delta.Offset != h.chars {
		return fmt.Errorf("a delta at character %d follows character %d", delta.Offset, h.chars)
	}
	began := h.chars == 0
	h.text = append(h.text, delta.Delta...)
	h.chars += utf8.RuneCountInString(delta.Delta)
	words := strings.Count(delta.Delta, " ")
	h.words += words
	if began {
		return h.begin(now, opening)
	}
	if !opening {
		h.lag(now, words)
	}
	h.gauges.words.Add(int64(words))
	return nil
}

// begin reads the stamp, which comes first.
func (h *heard) begin(now time.Time, opening bool) error {
	word, _, _ := strings.Cut(string(h.text), " ")
	var err error
	if h.stamp, err = readStamp(word); err != nil {
		return err
	}
	h.first = now.Sub(h.asked) - replyLatency - h.stamp.pace
	h.gauges.words.Add(int64(h.words))
	if opening && !h.started.Resumed {
		h.gauges.first.add(h.first)
	}
	return nil
}

// lag counts how late the latest words are.
func (h *heard) lag(now time.Time, words int) {
	lag := &h.gauges.lag
	if h.elsewhere {
		lag = &h.gauges.lagElsewhere
	}
	for n := h.words - words; n < h.words; n++ {
		lag.add(now.Sub(h.stamp.due(n)))
	}
}

// never is for who listens to the end.
func never() bool { return false }
