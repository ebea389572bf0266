package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is one server-sent event.
type event struct {
	name, id, data string
}

// maxEvent is the largest event in bytes, far above what the server sends.
const maxEvent = 4 << 20

// errCut means that a stream ended without its terminal event. The reply goes on without us.
var errCut = errors.New("the stream broke off")

var errEventTooLarge = errors.New("a server-sent event is larger than anything the server sends")

// events reads an event stream as the WHATWG HTML standard describes it (section 9.2.6): lines
// end in LF, CR or CRLF, comments and unknown fields are ignored, and so is an event without its blank line at the end.
type events struct {
	in *bufio.Reader
	// limit is the largest event in bytes.
	limit int
	// afterCR means that a following LF belongs to the same line end. Reading it at once could block.
	afterCR bool
	begun   bool
	lastID  string
	line    []byte
}

func newEvents(r io.Reader) *events {
	return &events{in: bufio.NewReader(r), limit: maxEvent}
}

// next returns the next event. At the end of the stream, also in the middle of an event, the error is errCut.
func (r *events) next() (event, error) {
	var e event
	var data strings.Builder
	hasData := false
	for {
		line, err := r.readLine(r.limit - data.Len())
		switch {
		case errors.Is(err, io.EOF):
			return event{}, errCut
		case errors.Is(err, errEventTooLarge):
			return event{}, err
		case err != nil:
			return event{}, fmt.Errorf("%w: %w", errCut, err)
		}
		if line == "" {
			if !hasData {
				e.name = ""
				continue
			}
			e.id, e.data = r.lastID, data.String()
			return e, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			if hasData {
				data.WriteByte('\n')
			}
			hasData = true
			data.WriteString(value)
		case "id":
			if !strings.ContainsRune(value, 0) {
				r.lastID = value
			}
		}
	}
}

// readLine reads a line of at most limit bytes without its end.
func (r *events) readLine(limit int) (string, error) {
	r.line = r.line[:0]
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return "", err
		}
		skip := r.afterCR && c == '\n'
		r.afterCR = c == '\r'
		if skip {
			continue
		}
		if c == '\n' || c == '\r' {
			return r.wholeLine(), nil
		}
		if r.line = append(r.line, c); len(r.line) > limit {
			return "", errEventTooLarge
		}
	}
}

// wholeLine returns the line that was read. A byte order mark at the beginning of the stream is dropped.
func (r *events) wholeLine() string {
	line := string(r.line)
	if !r.begun {
		r.begun = true
		line = strings.TrimPrefix(line, "\uFEFF")
	}
	return line
}
