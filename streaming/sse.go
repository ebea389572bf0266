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

// iOS hands nothing of a text body to the app before about 512 bytes have come, so every stream
// begins with a comment that is longer than any such threshold we know of.
const paddingSize = 1024

var (
	padding = []byte(":" + strings.Repeat(" ", paddingSize) + "\n\n")
	ping    = []byte(": ping\n\n")
)

// Encoder writes the events of one reply as server-sent events: LF line ends, one data line of JSON
// per event, and an id that is a place in the text. The id is an event's last line: some readers take
// it at once, and one that was cut off in mid event must not have the place without the text. It reuses
// one buffer and writes each event with one Write. It is used by one goroutine.
type Encoder struct {
	w         io.Writer
	messageID uuid.UUID
	// Both are constant for a stream, so they are formatted once.
	deltaIn []byte // beginning of a delta, up to its offset
	idLine  []byte // "\nid: <message id>:"
	buf     []byte
}

// NewEncoder makes an encoder for the events of the given assistant message.
func NewEncoder(w io.Writer, messageID uuid.UUID) *Encoder {
	return &Encoder{
		w:         w,
		messageID: messageID,
		deltaIn:   fmt.Appendf(nil, "event: %s\ndata: {\"message_id\":%q,\"offset\":", EventDelta, messageID),
		idLine:    fmt.Appendf(nil, "\nid: %s:", messageID),
	}
}

// Padding writes the opening comment. It comes before the first event.
func (e *Encoder) Padding() error {
	return e.write(padding)
}

// Ping writes a comment that keeps idle connections open.
func (e *Encoder) Ping() error {
	return e.write(ping)
}

// Started writes the first event.
func (e *Encoder) Started(started Started) error {
	return e.event(strconv.Itoa(started.Offset), EventStarted, started)
}

// Chunk writes a piece of text or the terminal event.
func (e *Encoder) Chunk(chunk Chunk) error {
	if chunk.End != nil {
		return e.event("end", chunk.End.Name(), chunk.End.payload())
	}
	return e.delta(chunk.Offset, chunk.Text)
}

// delta is the hot path: no reflection, and no allocation once the buffer has grown.
func (e *Encoder) delta(offset int, text []byte) error {
	buf := append(e.buf[:0], e.deltaIn...)
	buf = strconv.AppendInt(buf, int64(offset), 10)
	buf = append(buf, `,"delta":`...)
	buf = appendJSONString(buf, text)
	buf = append(buf, '}')
	buf = append(buf, e.idLine...)
	buf = strconv.AppendInt(buf, int64(offset+utf8.RuneCount(text)), 10)
	buf = append(buf, "\n\n"...)
	e.buf = buf
	return e.write(buf)
}

func (e *Encoder) event(place, name string, payload any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	e.buf = fmt.Appendf(e.buf[:0], "event: %s\ndata: %s%s%s\n\n", name, data, e.idLine, place)
	return e.write(e.buf)
}

func (e *Encoder) write(data []byte) error {
	if _, err := e.w.Write(data); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}

// appendJSONString appends text as a JSON string (RFC 8259, section 7). Control characters are
// escaped, so the result never holds a line break; text must be valid UTF-8, which a Relay sees to.
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
