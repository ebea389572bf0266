package offline

import (
	"net/http"
	"strconv"
	"unicode/utf8"
)

// eventWriter writes server-sent events with one buffer for all of them: benchmarks pull tens of
// thousands of deltas per second through it.
type eventWriter struct {
	w      http.ResponseWriter
	flush  func() error
	buffer []byte
	number int
	eol    string
	// split writes and flushes each byte alone.
	split bool
}

func newEventWriter(w http.ResponseWriter, fault Fault) *eventWriter {
	out := &eventWriter{
		w:      w,
		flush:  http.NewResponseController(w).Flush,
		buffer: make([]byte, 0, 512),
		eol:    "\n",
		split:  fault == FaultSplit,
	}
	if fault == FaultCRLF {
		out.eol = "\r\n"
	}
	return out
}

// emit writes one event: its type, its number and further fields, which begin with a comma.
func (o *eventWriter) emit(kind string, fields ...[]byte) error {
	b := append(o.buffer[:0], "event: "...)
	b = append(b, kind...)
	b = append(b, o.eol...)
	b = append(b, `data: {"type":"`...)
	b = append(b, kind...)
	b = append(b, `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(o.number), 10)
	for _, field := range fields {
		b = append(b, field...)
	}
	b = append(b, '}')
	b = append(b, o.eol...)
	b = append(b, o.eol...)
	o.buffer = b
	o.number++
	return o.write(b)
}

func (o *eventWriter) write(b []byte) error {
	if !o.split {
		_, err := o.w.Write(b)
		return err
	}
	for i := range b {
		if _, err := o.w.Write(b[i : i+1]); err != nil {
			return err
		}
		if err := o.flush(); err != nil {
			return err
		}
	}
	return nil
}

// deltaWriter sends pieces without building JSON anew: only the number and the text change.
type deltaWriter struct {
	head, tail, text []byte
	rawAt            int // the piece that is sent as bytes that are no UTF-8, -1 for none
}

func newDelta(g *generation) *deltaWriter {
	d := &deltaWriter{
		head:  append(g.place(), `,"delta":`...),
		tail:  []byte(`,"logprobs":[]`),
		rawAt: -1,
	}
	if g.answer.Fault == FaultInvalidUTF8 {
		d.rawAt = min(g.answer.FaultAfter, len(g.pieces)-1)
	}
	return d
}

func (d *deltaWriter) send(out *eventWriter, n int, piece string) error {
	d.text = appendJSONString(d.text[:0], piece)
	if n == d.rawAt {
		d.text = append(d.text[:0], `"`+invalidBytes+`"`...)
	}
	if err := out.emit("response.output_text.delta", d.head, d.text, d.tail); err != nil {
		return err
	}
	return out.flush()
}

// appendJSONString appends text as a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendJSONString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xF])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
