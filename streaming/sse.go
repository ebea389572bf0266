package streaming

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// paddingSize is above every threshold known to us below which a client holds a body back: iOS gives the
// app nothing of a text body before about 512 bytes have come.
const paddingSize = 1024

var (
	padding = []byte(":" + strings.Repeat(" ", paddingSize) + "\n\n")
	ping    = []byte(": ping\n\n")
)

// eventWriter is what both encoders share. Each event is one Write from one buffer, which is used again.
type eventWriter struct {
	w   io.Writer
	buf []byte
}

// Padding writes the opening comment. It comes before the first event.
func (e *eventWriter) Padding() error {
	return e.write(padding)
}

// Ping writes a comment that keeps idle connections open.
func (e *eventWriter) Ping() error {
	return e.write(ping)
}

// flush writes what the buffer holds.
func (e *eventWriter) flush() error {
	return e.write(e.buf)
}

func (e *eventWriter) write(data []byte) error {
	if _, err := e.w.Write(data); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}

// Encoder writes the events of one reply as server-sent events: LF line ends, one data line of JSON per
// event, and an id that is a position in the text. The id is an event's last line: some clients use it as
// soon as they read it, and must not have the position without its text when the connection breaks within
// an event. An Encoder is used by one goroutine.
type Encoder struct {
	eventWriter
	// Both are constant for a stream, so they are formatted once.
	deltaStart []byte // of a delta event, up to its offset
	idStart    []byte // "\nid: <message id>:"
}

// NewEncoder returns an encoder for the events of the given assistant message.
func NewEncoder(w io.Writer, messageID uuid.UUID) *Encoder {
	return &Encoder{
		eventWriter: eventWriter{w: w},
		deltaStart:  fmt.Appendf(nil, "event: %s\ndata: {\"message_id\":%q,\"offset\":", EventDelta, messageID),
		idStart:     fmt.Appendf(nil, "\nid: %s:", messageID),
	}
}

// Started writes the first event.
func (e *Encoder) Started(started Started) error {
	return e.event(strconv.Itoa(started.Offset), EventStarted, started)
}

// Chunk writes a piece of text or the terminal event.
func (e *Encoder) Chunk(chunk Chunk) error {
	if chunk.End != nil {
		name, payload := chunk.End.event()
		return e.event("end", name, payload)
	}
	return e.delta(chunk.Offset, chunk.Text)
}

// delta is the hot path: no reflection, and no allocation once the buffer has grown.
func (e *Encoder) delta(offset int, text []byte) error {
	buf := append(e.buf[:0], e.deltaStart...)
	buf = strconv.AppendInt(buf, int64(offset), 10)
	buf = append(buf, `,"delta":`...)
	buf = appendJSONString(buf, text)
	buf = append(buf, '}')
	buf = append(buf, e.idStart...)
	buf = strconv.AppendInt(buf, int64(offset+utf8.RuneCount(text)), 10)
	e.buf = append(buf, "\n\n"...)
	return e.flush()
}

func (e *Encoder) event(position, name string, payload any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	e.buf = fmt.Appendf(e.buf[:0], "event: %s\ndata: %s%s%s\n\n", name, data, e.idStart, position)
	return e.flush()
}

// appendJSONString appends text as a JSON string (RFC 8259, section 7). Control characters are
// escaped, so the result never holds a line break. The text must be valid UTF-8, which a Relay ensures.
func appendJSONString(buf, text []byte) []byte {
	const hex = "0123456789abcdef"
	buf = append(buf, '"')
	start := 0
	for i, c := range text {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		buf = append(buf, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			buf = append(buf, '\\', c)
		case '\n':
			buf = append(buf, '\\', 'n')
		case '\t':
			buf = append(buf, '\\', 't')
		default:
			buf = append(buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	buf = append(buf, text[start:]...)
	return append(buf, '"')
}
