package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is one server-sent event.
type event struct {
	name, id, data string
}

// maxEvent is the largest event in bytes, far above the server's own limits.
const maxEvent = 4 << 20

// errCut means that a stream ended without its terminal event. The reply goes on without us.
var errCut = errors.New("the stream broke off")

var errEventTooLarge = errors.New("a server-sent event is larger than anything the server sends")

// events reads an event stream as the WHATWG HTML standard describes it (section 9.2.6): lines
// end in LF, CR or CRLF, comments and unknown fields are ignored, and so is an event without its blank line at the end.
type events struct {
	lines *bufio.Scanner
	// limit is the largest event in bytes.
	limit int
	// afterCR means that a following LF belongs to the same line end. Waiting for it at once could block.
	afterCR bool
	begun   bool
	lastID  string
}

func newEvents(r io.Reader) *events {
	e := &events{lines: bufio.NewScanner(r), limit: maxEvent}
	e.lines.Buffer(nil, maxEvent)
	e.lines.Split(e.split)
	return e
}

// split is a bufio.SplitFunc for lines. A last line without its end is none.
func (r *events) split(data []byte, _ bool) (advance int, line []byte, err error) {
	if r.afterCR && bytes.HasPrefix(data, []byte("\n")) {
		advance = 1
	}
	if len(data) > 0 {
		r.afterCR = false
	}
	end := bytes.IndexAny(data[advance:], "\r\n")
	if end < 0 {
		return advance, nil, nil
	}
	end += advance
	r.afterCR = data[end] == '\r'
	return end + 1, data[advance:end], nil
}

// next returns the next event. At the end of the stream, also in the middle of an event, the error is errCut.
func (r *events) next() (event, error) {
	var e event
	var data []string
	size := 0
	for r.lines.Scan() {
		line := r.lines.Text()
		if !r.begun {
			r.begun = true
			line = strings.TrimPrefix(line, "\uFEFF") // a byte order mark
		}
		if size += len(line); size > r.limit {
			return event{}, errEventTooLarge
		}
		if line == "" {
			if len(data) > 0 {
				e.id, e.data = r.lastID, strings.Join(data, "\n")
				return e, nil
			}
			e.name, size = "", 0
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			data = append(data, value)
		case "id":
			if !strings.ContainsRune(value, 0) {
				r.lastID = value
			}
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return event{}, errEventTooLarge
	case err != nil:
		return event{}, fmt.Errorf("%w: %w", errCut, err)
	}
	return event{}, errCut
}
