package offline

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"time"
)

// whole answers without a stream, in the time that the stream would have taken.
func (g *generation) whole(w http.ResponseWriter) error {
	if g.answer.Gate != nil {
		if err := receive(g.ctx, g.server, g.answer.Gate); err != nil {
			return err
		}
	}
	if err := g.server.pause(g.ctx, g.answer.PieceDelay*time.Duration(len(g.pieces))); err != nil {
		return err
	}
	status := g.status()
	switch g.answer.Fault {
	case FaultHang:
		return g.server.hang(g.ctx)
	case FaultCut, FaultEndEarly:
		reset(w)
		return nil
	case FaultFailed, FaultErrorEvent:
		status = statusFailed
	default:
		g.recordSent(len(g.text))
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(g.withBadBytes(mustJSON(g.object(status)))); err != nil {
		return errGone
	}
	return nil
}

// withBadBytes puts the bytes of FaultInvalidUTF8 into a text.
func (g *generation) withBadBytes(text []byte) []byte {
	if g.answer.Fault == FaultInvalidUTF8 {
		return bytes.Replace(text, []byte(invalidReplacement), []byte(invalidBytes), 1)
	}
	return text
}

// mustJSON encodes an answer's own structures, so it cannot fail.
func mustJSON(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
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

// stream answers with the event sequence of the Responses API.
func (g *generation) stream(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	out := &eventWriter{generation: g, w: w, control: http.NewResponseController(w)}
	out.emit("response.created", object{"response": g.object(statusInProgress)})
	out.emit("response.in_progress", object{"response": g.object(statusInProgress)})
	out.openItem(0)
	out.flush()
	ended, err := out.sendText()
	if !ended && err == nil {
		out.closeItem(len(g.items)-1, g.status())
		out.emit("response."+g.status(), object{"response": g.object(g.status())})
		out.flush()
	}
	if err == nil && out.err != nil {
		return errGone // a failed write has no other cause
	}
	return err
}

const deltaEvent = "response.output_text.delta"

// eventWriter writes server-sent events. It keeps the first error and writes nothing after it.
type eventWriter struct {
	*generation
	w       http.ResponseWriter
	control *http.ResponseController
	number  int
	err     error
}

// sendText sends the pieces, with the gate and the fault between them. It reports whether a fault ended the stream.
func (o *eventWriter) sendText() (ended bool, err error) {
	due := time.Now() // for the next piece: a slow write does not delay the pieces after it
	sent, current := 0, 0
	for n := range len(o.pieces) + 1 {
		if o.answer.Gate != nil && n == o.answer.GateAfter {
			if err := receive(o.ctx, o.server, o.answer.Gate); err != nil {
				return false, err
			}
		}
		if n == o.answer.FaultAfter {
			if ended, err := o.fail(); ended || err != nil {
				return ended, err
			}
		}
		if n == len(o.pieces) {
			break
		}
		due = due.Add(o.answer.PieceDelay)
		if err := o.server.pause(o.ctx, time.Until(due)); err != nil {
			return false, err
		}
		if n == o.items[current].to {
			o.closeItem(current, statusCompleted)
			current++
			o.openItem(current)
		}
		if o.answer.Fault != FaultNoDeltas && o.answer.Fault != FaultOnlyEnd {
			o.emit(deltaEvent, o.at(current, object{"delta": o.pieces[n], "logprobs": []any{}}))
			o.flush()
		}
		if o.err != nil {
			return false, errGone
		}
		sent += len(o.pieces[n])
		o.recordSent(sent)
	}
	return false, nil
}

// fail plays a fault inside a stream. It reports whether the stream is over.
func (o *eventWriter) fail() (ended bool, err error) {
	switch o.answer.Fault {
	case FaultHang:
		return true, o.server.hang(o.ctx)
	case FaultCut:
		reset(o.w)
	case FaultEndEarly:
	case FaultFailed:
		o.emit("response.failed", object{"response": o.object(statusFailed)})
	case FaultErrorEvent:
		o.emit("error", object{"code": "server_error", "message": "The server had an error while processing your request.", "param": nil})
	default:
		return false, nil
	}
	return true, nil
}

// at says of which item an event's fields are.
func (o *eventWriter) at(number int, fields object) object {
	fields["item_id"], fields["output_index"], fields["content_index"] = o.items[number].id, number, 0
	return fields
}

func (o *eventWriter) openItem(number int) {
	if o.answer.Fault == FaultOnlyEnd {
		return
	}
	o.emit("response.output_item.added", object{"output_index": number, "item": o.items[number].object(statusInProgress)})
	o.emit("response.content_part.added", o.at(number, object{"part": part("")}))
}

func (o *eventWriter) closeItem(number int, status string) {
	if o.answer.Fault == FaultOnlyEnd {
		return
	}
	item := o.items[number]
	o.emit("response.output_text.done", o.at(number, object{"text": item.text, "logprobs": []any{}}))
	o.emit("response.content_part.done", o.at(number, object{"part": part(item.text)}))
	o.emit("response.output_item.done", object{"output_index": number, "item": item.object(status)})
}

// emit writes one event with its type and number; FaultSplit writes and flushes each byte alone.
func (o *eventWriter) emit(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, o.number
	o.number++
	end := "\n"
	if o.answer.Fault == FaultCRLF {
		end = "\r\n"
	}
	payload := mustJSON(fields)
	if kind == deltaEvent {
		payload = o.withBadBytes(payload)
	}
	event := []byte("event: " + kind + end + "data: " + string(payload) + end + end)
	if o.answer.Fault != FaultSplit {
		o.write(event)
		return
	}
	for _, b := range event {
		o.write([]byte{b})
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
