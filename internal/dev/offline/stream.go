package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	if _, err := w.Write(mustJSON(g.object(status))); err != nil {
		return errGone
	}
	return nil
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
	out.emit("response.output_item.added", object{"output_index": 0, "item": g.message(statusInProgress)})
	out.emit("response.content_part.added", g.ofPart(object{"part": part("")}))
	out.flush()
	ended, err := out.sendText()
	if !ended && err == nil {
		out.emit("response.output_text.done", g.ofPart(object{"text": g.text, "logprobs": []any{}}))
		out.emit("response.content_part.done", g.ofPart(object{"part": part(g.text)}))
		out.emit("response.output_item.done", object{"output_index": 0, "item": g.message(g.status())})
		out.emit("response."+g.status(), object{"response": g.object(g.status())})
		out.flush()
	}
	if err == nil && out.err != nil {
		return errGone // a failed write has no other cause
	}
	return err
}

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
	sent := 0
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
		o.emit("response.output_text.delta", o.ofPart(object{"delta": o.pieces[n], "logprobs": []any{}}))
		if o.flush(); o.err != nil {
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

// ofPart says that an event's fields are of the message's only part.
func (g *generation) ofPart(fields object) object {
	fields["item_id"], fields["output_index"], fields["content_index"] = g.item, 0, 0
	return fields
}

// emit writes one event with its type and number.
func (o *eventWriter) emit(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, o.number
	o.number++
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, "event: %s\ndata: %s\n\n", kind, mustJSON(fields))
	}
}

func (o *eventWriter) flush() {
	if o.err == nil {
		o.err = o.control.Flush()
	}
}
