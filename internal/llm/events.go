package llm

import (
	"bufio"
	"bytes"
	"io"
)

const (
	usualEvent  = 1 << 10
	longestLine = 8 << 20 // a longer line of a stream, or event, is an error
)

// byteOrderMark may precede the first line, and is no part of it.
var byteOrderMark = []byte("\uFEFF")

// eventReader reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). The
// library's reader allocates for each event, which with a thousand streams would be most of the server's garbage.
// It is used by one goroutine.
type eventReader struct {
	body  io.Closer
	lines *bufio.Scanner
	// alive is called at the end of each event and of each comment: servers send comments while a model thinks. Less
	// than a line is no sign of life.
	alive func()

	// kind and data are those of the last event, valid until the next call of next.
	kind, data []byte
	begun      bool // a line was read
	tooLong    bool // the last event is
}

func newEventReader(body io.ReadCloser, alive func()) *eventReader {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, usualEvent), longestLine)
	lines.Split(wholeLine)
	return &eventReader{body: body, lines: lines, alive: alive}
}

// wholeLine is bufio.ScanLines without a last line that the end of the stream cut off.
func wholeLine(data []byte, _ bool) (advance int, token []byte, err error) {
	return bufio.ScanLines(data, false)
}

// next reads up to the end of an event that has data. It returns false at the end of the stream, also within an
// event, and when the stream breaks, which err reports.
func (r *eventReader) next() bool {
	r.kind, r.data = r.kind[:0], r.data[:0]
	for !r.tooLong && r.lines.Scan() {
		switch line := r.line(); {
		case len(line) == 0:
			r.alive()
			if len(r.data) > 0 {
				return true
			}
			r.kind = r.kind[:0]
		case line[0] == ':':
			r.alive()
		default:
			r.addField(line)
		}
	}
	return false
}

func (r *eventReader) line() []byte {
	line := r.lines.Bytes()
	if !r.begun {
		r.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return line
}

func (r *eventReader) addField(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		r.kind = append(r.kind[:0], value...)
	case "data":
		r.tooLong = len(r.data)+len(value) > longestLine
		if len(r.data) > 0 {
			r.data = append(r.data, '\n')
		}
		r.data = append(r.data, value...)
	}
}

// err returns why the stream broke, nil at its end.
func (r *eventReader) err() error {
	if r.tooLong {
		return bufio.ErrTooLong
	}
	return r.lines.Err()
}
