package kit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/streaming"
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

// Reply is what a client has received of one reply, over as many connections as it took.
type Reply struct {
	Started     streaming.Started
	Text        []byte
	Chars       int    // of Text
	Repeated    int    // characters that came again
	LastEventID string // where to go on
	End         string // the terminal event's name, "" before it
	Code        string // of a failure
	Completed   streaming.Completed
}

// Take applies an event and returns the text that it added, which is empty for all events but deltas. Unknown
// events are ignored.
func (r *Reply) Take(e Event) (delta string, err error) {
	switch e.Name {
	case streaming.EventStarted:
		err = json.Unmarshal(e.Data, &r.Started)
	case streaming.EventDelta:
		delta, err = r.add(e.Data)
	case streaming.EventCompleted:
		err = json.Unmarshal(e.Data, &r.Completed)
	case streaming.EventFailed, streaming.EventCancelled:
		var failed streaming.Failed
		err = json.Unmarshal(e.Data, &failed)
		r.Code = failed.Code
	}
	if err != nil {
		return "", err
	}
	r.LastEventID = e.ID
	switch e.Name {
	case streaming.EventCompleted, streaming.EventFailed, streaming.EventCancelled:
		r.End = e.Name
	}
	return delta, nil
}

func (r *Reply) add(data []byte) (string, error) {
	var delta streaming.Delta
	if err := json.Unmarshal(data, &delta); err != nil {
		return "", err
	}
	if delta.Offset > r.Chars {
		return "", fmt.Errorf("a delta at character %d follows character %d: what is between them is missing", delta.Offset, r.Chars)
	}
	r.Repeated += r.Chars - delta.Offset
	r.Text = append(r.Text, delta.Delta...)
	r.Chars += utf8.RuneCountInString(delta.Delta)
	return delta.Delta, nil
}
