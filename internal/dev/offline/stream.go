package offline

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"time"
)

// stream answers with the event sequence of the Responses API.
func (g *generation) stream(w http.ResponseWriter) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	out := newEventWriter(w, g.answer.Fault)
	g.sendOpening(out)
	ended, err := g.sendText(out)
	if !ended && err == nil {
		g.sendClosing(out)
	}
	if err == nil && out.err != nil {
		return errGone // a failed write has no other cause
	}
	return err
}

// sendText sends the pieces, with the gate and the fault between them. It reports whether a fault ended the stream.
func (g *generation) sendText(out *eventWriter) (ended bool, err error) {
	var due time.Time // of the next piece: a slow write does not delay the pieces after it
	sent := 0
	current := 0 // the item
	for n := range len(g.pieces) + 1 {
		if g.answer.Gate != nil && n == g.answer.GateAfter {
			if err := g.server.wait(g.ctx, g.answer.Gate); err != nil {
				return false, err
			}
		}
		if n == g.answer.FaultAfter {
			if ended, err := g.fail(out); ended || err != nil {
				return ended, err
			}
		}
		if n == len(g.pieces) {
			break
		}
		if n == 0 {
			due = time.Now()
		}
		due = due.Add(g.answer.PieceDelay)
		if err := g.server.pause(g.ctx, time.Until(due)); err != nil {
			return false, err
		}
		if n == g.items[current].to {
			g.closeItem(out, current, statusCompleted)
			current++
			g.openItem(out, current)
		}
		if g.sendDelta(out, g.items[current], g.pieces[n]); out.err != nil {
			return false, errGone
		}
		sent += len(g.pieces[n])
		g.recordSent(sent)
	}
	return false, nil
}

func (g *generation) sendDelta(out *eventWriter, item *item, piece string) {
	if g.answer.Fault == FaultNoDeltas || g.answer.Fault == FaultOnlyEnd {
		return
	}
	delta := field("delta", piece)
	if g.answer.Fault == FaultInvalidUTF8 && piece == invalidReplacement {
		delta = bytes.Replace(delta, []byte(invalidReplacement), []byte(invalidBytes), 1)
	}
	out.emit("response.output_text.delta", item.part, delta, noLogprobs)
	out.flush()
}

// fail plays a fault inside a stream. It reports whether the stream is over.
func (g *generation) fail(out *eventWriter) (ended bool, err error) {
	switch g.answer.Fault {
	case FaultHang:
		return true, g.server.wait(g.ctx, nil)
	case FaultCut:
		reset(out.w)
	case FaultEndEarly:
	case FaultFailed:
		out.emit("response.failed", field("response", g.object(statusFailed)))
	case FaultErrorEvent:
		out.emit("error", []byte(`,"code":"server_error","message":"The server had an error while processing your request.","param":null`))
	default:
		return false, nil
	}
	return true, nil
}

// reset breaks the connection: the caller sees a reset, not a clean end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // not HTTP/1.1: the server's own way to break off
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close would be a clean one; should it fail, the body is still cut
	}
	_ = conn.Close()
}

// sendOpening sends the events before the text, in one flush.
func (g *generation) sendOpening(out *eventWriter) {
	started := field("response", g.object(statusInProgress))
	out.emit("response.created", started)
	out.emit("response.in_progress", started)
	g.openItem(out, 0)
	out.flush()
}

func (g *generation) openItem(out *eventWriter, number int) {
	if g.answer.Fault == FaultOnlyEnd {
		return
	}
	item := g.items[number]
	out.emit("response.output_item.added", item.place, field("item", item.object(statusInProgress)))
	out.emit("response.content_part.added", item.part, field("part", part("")))
}

func (g *generation) closeItem(out *eventWriter, number int, status string) {
	if g.answer.Fault == FaultOnlyEnd {
		return
	}
	item := g.items[number]
	out.emit("response.output_text.done", item.part, field("text", item.text), noLogprobs)
	out.emit("response.content_part.done", item.part, field("part", part(item.text)))
	out.emit("response.output_item.done", item.place, field("item", item.object(status)))
}

// sendClosing sends the events after the text; the terminal one is last.
func (g *generation) sendClosing(out *eventWriter) {
	status := g.status()
	g.closeItem(out, len(g.items)-1, status)
	out.emit("response."+status, field("response", g.object(status)))
	out.flush()
}

var noLogprobs = []byte(`,"logprobs":[]`)

// field is one field of an event, as emit takes it.
func field(name string, value any) []byte {
	return append([]byte(`,"`+name+`":`), mustJSON(value)...)
}

// eventWriter writes server-sent events. It keeps the first error and writes nothing after it. One buffer serves all
// events: benchmarks pull tens of thousands of deltas per second through it.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  []byte
	number  int
	eol     string
	// split writes and flushes each byte alone.
	split bool
	err   error
}

func newEventWriter(w http.ResponseWriter, fault Fault) *eventWriter {
	out := &eventWriter{w: w, control: http.NewResponseController(w), eol: "\n", split: fault == FaultSplit}
	if fault == FaultCRLF {
		out.eol = "\r\n"
	}
	return out
}

// emit writes one event: its type, its number and further fields, each of which begins with a comma.
func (o *eventWriter) emit(kind string, fields ...[]byte) {
	b := append(o.buffer[:0], "event: "+kind+o.eol+`data: {"type":"`+kind+`","sequence_number":`...)
	b = strconv.AppendInt(b, int64(o.number), 10)
	for _, field := range fields {
		b = append(b, field...)
	}
	b = append(b, "}"+o.eol+o.eol...)
	o.buffer = b
	o.number++
	if !o.split {
		o.write(b)
		return
	}
	for i := range b {
		o.write(b[i : i+1])
		o.flush()
	}
}

func (o *eventWriter) write(b []byte) {
	if o.err == nil {
		_, o.err = o.w.Write(b)
	}
}

func (o *eventWriter) flush() {
	if o.err == nil {
		o.err = o.control.Flush()
	}
}
