package kit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
)

// Event is one server-sent event of ours, which has one line of data.
type Event struct {
	ID, Name string
	Data     []byte
}

// Events returns the events of a stream, without comments. A stream that ends, however it does, ends with an error.
func Events(body io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := bufio.NewReader(body)
		var e Event
		for {
			line, err := lines.ReadBytes('\n')
			switch {
			case err != nil:
				yield(Event{}, fmt.Errorf("no terminal event: %w", err))
				return
			case len(line) > 1:
				e.add(bytes.TrimSuffix(line, []byte("\n")))
				continue
			case e.Data != nil && !yield(e, nil):
				return
			}
			e = Event{}
		}
	}
}

func (e *Event) add(line []byte) {
	key, value, _ := bytes.Cut(line, []byte(": "))
	switch string(key) {
	case "id":
		e.ID = string(value)
	case "event":
		e.Name = string(value)
	case "data":
		e.Data = value
	}
}
