package streaming

import (
	"bufio"
	"bytes"
	"io"
)

// EventReader reads server-sent events as the WHATWG HTML standard describes them (section 9.2.6): lines end in LF, CR or CRLF,
// comments and unknown fields are ignored, and so is an event without its blank line at the end. It allocates nothing for an
// event: with a thousand streams of models that would be most of the server's garbage. It is used by one goroutine.
type EventReader struct {
	// Alive, unless it is nil, is called at the end of each event and of each comment: servers send comments while a model
	// thinks. Less than a line is no sign of life.
	Alive func()
	// Name and Data are those of the last event, and ID is the last one told. They are valid until the next call of Next.
	Name, Data, ID []byte

	lines    *bufio.Scanner
	longest  int
	searched int  // bytes of the line, in vain for its end
	afterCR  bool // a following LF belongs to the same line end; waiting for it at once could block
	begun    bool // a line was read
	tooLong  bool // the last event is
}

// NewEventReader returns a reader of events of at most so many bytes.
func NewEventReader(from io.Reader, longest int) *EventReader {
	const usual = 1 << 10
	r := &EventReader{lines: bufio.NewScanner(from), longest: longest}
	r.lines.Buffer(make([]byte, 0, usual), longest)
	r.lines.Split(r.split)
	return r
}

// split is a bufio.SplitFunc for lines. A last line without its end is none.
func (r *EventReader) split(data []byte, _ bool) (advance int, line []byte, err error) {
	if r.afterCR && bytes.HasPrefix(data, []byte("\n")) {
		advance = 1
	}
	if len(data) > 0 {
		r.afterCR = false
	}
	from := max(advance, r.searched)
	end := bytes.IndexAny(data[from:], "\r\n")
	if end < 0 {
		r.searched = len(data) - advance
		return advance, nil, nil
	}
	end += from
	r.searched, r.afterCR = 0, data[end] == '\r'
	return end + 1, data[advance:end], nil
}

// Next reads up to the end of an event that has data. It returns false at the end of the stream, also within an event, and
// when the stream breaks, which Err reports.
func (r *EventReader) Next() bool {
	r.Name, r.Data = r.Name[:0], r.Data[:0]
	for size := 0; !r.tooLong && r.lines.Scan(); {
		line := r.lines.Bytes()
		if !r.begun {
			r.begun = true
			line = bytes.TrimPrefix(line, []byte("\uFEFF")) // a byte order mark
		}
		size += len(line)
		r.tooLong = size > r.longest
		switch {
		case len(line) == 0:
			r.isAlive()
			if size = 0; len(r.Data) > 0 {
				r.Data = r.Data[:len(r.Data)-1] // without the last line's end
				return true
			}
			r.Name = r.Name[:0]
		case line[0] == ':':
			r.isAlive()
		default:
			r.add(line)
		}
	}
	return false
}

func (r *EventReader) isAlive() {
	if r.Alive != nil {
		r.Alive()
	}
}

func (r *EventReader) add(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		r.Name = append(r.Name[:0], value...)
	case "data":
		r.Data = append(append(r.Data, value...), '\n')
	case "id":
		if !bytes.ContainsRune(value, 0) {
			r.ID = append(r.ID[:0], value...)
		}
	}
}

// Err returns why the stream broke, bufio.ErrTooLong for an event that is too long, nil at its end.
func (r *EventReader) Err() error {
	if r.tooLong {
		return bufio.ErrTooLong
	}
	return r.lines.Err()
}
