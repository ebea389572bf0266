package streaming

import (
	"encoding/json"
	"fmt"
	"io"
)

// The whole text of a reply is one part of its UI message; uiPart is that part's id.
const uiPart = "text"

const (
	uiTextStart = `data: {"type":"text-start","id":"` + uiPart + `"}` + "\n\n"
	uiDeltaIn   = `data: {"type":"text-delta","id":"` + uiPart + `","delta":`
	uiTextEnd   = `data: {"type":"text-end","id":"` + uiPart + `"}` + "\n\n"
	uiDone      = "data: [DONE]\n\n"
)

// UIEncoder writes the events of one reply as a UI message stream, version 1: what the readers of
// Vercel's AI SDK take (https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol#ui-message-stream-protocol).
// An event is one data line of JSON with neither a name nor an id.
//
// What our own events say beyond the protocol goes into the message's metadata, under the same names:
// all of [Started] with start, of [Completed] with finish, and of [Failed] or [Cancelled] in a
// message-metadata just before error or abort. "status" beside it is the stored message's.
//
// Like [Encoder] it writes what one call is given with one Write, and is used by one goroutine.
type UIEncoder struct {
	w        io.Writer
	speaking bool // the text part has begun
	buf      []byte
}

// NewUIEncoder makes an encoder for the events of one reply.
func NewUIEncoder(w io.Writer) *UIEncoder {
	return &UIEncoder{w: w}
}

// Padding writes the opening comment. It comes before the first event.
func (e *UIEncoder) Padding() error {
	return e.write(padding)
}

// Ping writes a comment that keeps idle connections open.
func (e *UIEncoder) Ping() error {
	return e.write(ping)
}

// Started writes the first event. The text part begins with the first of the text, so that a reply
// that says nothing has no empty part.
func (e *UIEncoder) Started(started Started) error {
	buf, err := appendUI(e.buf[:0], uiStart(started))
	if err != nil {
		return err
	}
	e.buf = buf
	return e.write(buf)
}

// Chunk writes a piece of text, or what the protocol has for the terminal event. Where the text
// begins is told by Started alone: the protocol has no places within it.
func (e *UIEncoder) Chunk(chunk Chunk) error {
	if chunk.End != nil {
		return e.end(chunk.End)
	}
	return e.delta(chunk.Text)
}

// delta is the hot path: no reflection, and no allocation once the buffer has grown.
func (e *UIEncoder) delta(text []byte) error {
	buf := e.buf[:0]
	if !e.speaking {
		e.speaking = true
		buf = append(buf, uiTextStart...)
	}
	buf = append(buf, uiDeltaIn...)
	buf = appendJSONString(buf, text)
	buf = append(buf, "}\n\n"...)
	e.buf = buf
	return e.write(buf)
}

func (e *UIEncoder) end(end *Terminal) error {
	buf := e.buf[:0]
	if e.speaking {
		buf = append(buf, uiTextEnd...)
	}
	for _, event := range uiEnding(end) {
		var err error
		if buf, err = appendUI(buf, event); err != nil {
			return err
		}
	}
	e.buf = append(buf, uiDone...)
	return e.write(e.buf)
}

func (e *UIEncoder) write(data []byte) error {
	if _, err := e.w.Write(data); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}

func appendUI(buf []byte, event uiEvent) ([]byte, error) {
	data, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", event.Type, err)
	}
	return fmt.Appendf(buf, "data: %s\n\n", data), nil
}
