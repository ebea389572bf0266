package streaming

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

const (
	uiStepStart = `data: {"type":"start-step"}` + "\n\n"
	uiStepEnd   = `data: {"type":"finish-step"}` + "\n\n"
	uiDone      = "data: [DONE]\n\n"
)

// UIEncoder writes the events of one reply as a UI message stream, version 1, which Vercel's AI SDK reads
// (https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol#ui-message-stream-protocol).
// An event is one data line of JSON, without a name or an id.
//
// The fields of our own events that the protocol does not have go into the message's metadata, under the same
// names: all of [Started] with start, of [Completed] or [Awaiting] with finish, and of [Failed] or [Cancelled] in a
// message-metadata just before error or abort. "status" beside it is the stored message's.
//
// The first step of a reply is not marked, so that a reply without tools is its text alone: clients take all before
// the first start-step for a step as well.
//
// Like [Encoder] it makes one Write per call, and is used by one goroutine.
type UIEncoder struct {
	eventWriter
	texts      int // pieces of the reply between its parts, so far: each is a text part of the UI message
	textOpen   bool
	stepOpen   bool
	deltaStart []byte // of a delta event of the open text
}

// NewUIEncoder returns an encoder for the events of one reply.
func NewUIEncoder(w io.Writer) *UIEncoder {
	return &UIEncoder{eventWriter: eventWriter{w: w}}
}

// Started writes the first event. The text part starts with the first text, so that an empty reply has no
// empty part.
func (e *UIEncoder) Started(started Started) error {
	e.buf = e.buf[:0]
	if err := e.add(uiStart(started)); err != nil {
		return err
	}
	return e.flush()
}

// Chunk writes a piece of text, or the protocol's events for a part or the terminal one. The protocol has no
// positions within the reply, so a chunk's are not written.
func (e *UIEncoder) Chunk(chunk Chunk) error {
	e.buf = e.buf[:0]
	switch {
	case chunk.End != nil:
		return e.end(chunk)
	case chunk.Part != nil:
		return e.part(chunk)
	}
	return e.delta(chunk)
}

// delta is the hot path: no reflection, and no allocation once the buffer has grown.
func (e *UIEncoder) delta(chunk Chunk) error {
	if chunk.Step {
		e.startStep()
	}
	if !e.textOpen {
		e.startText()
	}
	buf := append(e.buf, e.deltaStart...)
	buf = appendJSONString(buf, chunk.Text)
	e.buf = append(buf, "}\n\n"...)
	return e.flush()
}

func (e *UIEncoder) part(chunk Chunk) error {
	events := uiPart(chunk)
	if len(events) == 0 {
		return nil
	}
	if chunk.Step {
		e.startStep()
	}
	e.endText()
	if err := e.add(events...); err != nil {
		return err
	}
	return e.flush()
}

// end writes the events for the terminal one. A reply that ends right after results ends with an empty step: a client
// whose last step is nothing but results sends them by itself, which it may have to while the reply waits.
func (e *UIEncoder) end(chunk Chunk) error {
	if chunk.Step && chunk.End.Awaiting == nil {
		e.startStep()
	}
	e.endStep()
	if err := e.add(uiEnding(chunk.End)...); err != nil {
		return err
	}
	e.buf = append(e.buf, uiDone...)
	return e.flush()
}

func (e *UIEncoder) startStep() {
	e.endStep()
	e.stepOpen = true
	e.buf = append(e.buf, uiStepStart...)
}

func (e *UIEncoder) endStep() {
	e.endText()
	if e.stepOpen {
		e.stepOpen = false
		e.buf = append(e.buf, uiStepEnd...)
	}
}

func (e *UIEncoder) startText() {
	e.textOpen = true
	e.texts++
	e.buf = fmt.Appendf(e.buf, "data: {\"type\":\"text-start\",\"id\":%q}\n\n", e.textID())
	e.deltaStart = fmt.Appendf(nil, "data: {\"type\":\"text-delta\",\"id\":%q,\"delta\":", e.textID())
}

func (e *UIEncoder) endText() {
	if e.textOpen {
		e.textOpen = false
		e.buf = fmt.Appendf(e.buf, "data: {\"type\":\"text-end\",\"id\":%q}\n\n", e.textID())
	}
}

// textID is the id of the latest text part.
func (e *UIEncoder) textID() string {
	if e.texts == 1 {
		return "text"
	}
	return "text-" + strconv.Itoa(e.texts)
}

// add appends events to the buffer.
func (e *UIEncoder) add(events ...uiEvent) error {
	for _, event := range events {
		data, err := json.Marshal(event)
		if err != nil {
			return fmt.Errorf("encode %s: %w", event.Type, err)
		}
		e.buf = fmt.Appendf(e.buf, "data: %s\n\n", data)
	}
	return nil
}
