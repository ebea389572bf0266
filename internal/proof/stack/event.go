package stack

import "bytes"

// Event is one of a reply's server-sent events as it is on the wire, whatever the order of its lines: ours have one line of
// data. For clients that time what they read, and so decode no more than they need.
type Event struct {
	ID, Name string
	Data     []byte // nil for a comment
}

// Add takes a line of the event, without its end.
func (e *Event) Add(line []byte) {
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
