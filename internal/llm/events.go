package llm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// longestLine bounds what one line of a stream may hold in memory.
const longestLine = 32 << 20

var errLongLine = errors.New("a line of the stream is too long")

// events reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). It is
// ours because it stands in every delta's way: the library's reader makes garbage of each event, which at
// a thousand streams is most of what the server collects. It is used by one goroutine.
type events struct {
	body io.ReadCloser
	read *bufio.Reader
	long []byte // a line that is longer than the buffer
	err  error  // nil at the end of the stream

	// kind and data are the last event's, until the next call of next.
	kind, data []byte
}

func newEvents(body io.ReadCloser) *events {
	const usualEvent = 1 << 10
	return &events{body: body, read: bufio.NewReaderSize(body, usualEvent)}
}

// next reads on to the end of an event that has data. An event that the stream's end cuts off is none.
func (e *events) next() bool {
	e.kind, e.data = e.kind[:0], e.data[:0]
	for {
		line, err := e.line()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				e.err = err
			}
			return false
		}
		if len(line) > 0 {
			e.field(line)
			continue
		}
		if len(e.data) > 0 {
			return true
		}
		e.kind = e.kind[:0]
	}
}

func (e *events) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.kind = append(e.kind[:0], value...)
	case "data":
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	}
}

// line gives the next line without its end, until the next call.
func (e *events) line() ([]byte, error) {
	line, err := e.read.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = e.longLine(line)
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

func (e *events) longLine(begin []byte) ([]byte, error) {
	e.long = append(e.long[:0], begin...)
	for {
		part, err := e.read.ReadSlice('\n')
		e.long = append(e.long, part...)
		switch {
		case !errors.Is(err, bufio.ErrBufferFull):
			return e.long, err
		case len(e.long) > longestLine:
			return nil, errLongLine
		}
	}
}
