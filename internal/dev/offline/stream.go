package offline

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// stream answers with the event sequence of the Responses API.
func (g *generation) stream(w http.ResponseWriter) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	out := newEventWriter(w, g.answer.Fault)
	over, err := g.play(out)
	if err == nil && !over {
		err = g.closing(out)
	}
	if err != nil && !errors.Is(err, errClosing) {
		return errGone // a failed write says nothing else
	}
	return err
}

// play sends the opening and the pieces; true when a fault ended the stream.
func (g *generation) play(out *eventWriter) (bool, error) {
	if err := g.opening(out); err != nil {
		return false, err
	}
	pace := pacer{delay: g.answer.PieceDelay}
	defer pace.stop()
	delta := newDelta(g)
	sent := 0
	for n, piece := range g.pieces {
		if over, err := g.interlude(out, n); over || err != nil {
			return over, err
		}
		if err := pace.wait(g); err != nil {
			return false, err
		}
		if err := delta.send(out, n, piece); err != nil {
			return false, err
		}
		sent += len(piece)
		g.server.journal.progress(g.entry, sent)
	}
	return g.afterPieces(out)
}

// interlude is the gate and the fault before piece n; true when the fault ended the stream.
func (g *generation) interlude(out *eventWriter, n int) (bool, error) {
	if g.answer.Gate != nil && n == g.answer.GateAfter {
		if err := g.server.hold(g.ctx, g.answer.Gate); err != nil {
			return false, err
		}
	}
	if n != g.answer.FaultAfter {
		return false, nil
	}
	return g.fail(out)
}

// afterPieces plays the gate and the fault that were set beyond the last piece.
func (g *generation) afterPieces(out *eventWriter) (bool, error) {
	count := len(g.pieces)
	if g.answer.Gate != nil && g.answer.GateAfter >= count {
		if err := g.server.hold(g.ctx, g.answer.Gate); err != nil {
			return false, err
		}
	}
	if g.answer.FaultAfter < count {
		return false, nil
	}
	return g.fail(out)
}

// fail plays a fault inside a stream; true when the stream is over.
func (g *generation) fail(out *eventWriter) (bool, error) {
	switch g.answer.Fault {
	case FaultHang:
		return true, g.server.hold(g.ctx, nil)
	case FaultCut:
		reset(out.w)
	case FaultEndEarly:
	case FaultFailed:
		return true, out.emit("response.failed", field("response", g.object(statusFailed)))
	case FaultErrorEvent:
		return true, out.emit("error", []byte(`,"code":"server_error","message":"The server had an error while processing your request.","param":null`))
	default:
		return false, nil
	}
	return true, nil
}

// reset breaks the connection so that the caller sees a reset and no clean end.
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

// opening sends the events before the text, in one flush.
func (g *generation) opening(out *eventWriter) error {
	started := field("response", g.object(statusInProgress))
	err := out.emit("response.created", started)
	if err == nil {
		err = out.emit("response.in_progress", started)
	}
	if err == nil {
		err = out.emit("response.output_item.added", []byte(`,"output_index":0`), field("item", g.item(statusInProgress)))
	}
	if err == nil {
		err = out.emit("response.content_part.added", g.place(), field("part", part("")))
	}
	if err == nil {
		err = out.flush()
	}
	return err
}

// closing sends the events after the text; the terminal one is last.
func (g *generation) closing(out *eventWriter) error {
	status := g.status()
	err := out.emit("response.output_text.done", g.place(), field("text", g.text), []byte(`,"logprobs":[]`))
	if err == nil {
		err = out.emit("response.content_part.done", g.place(), field("part", part(g.text)))
	}
	if err == nil {
		err = out.emit("response.output_item.done", []byte(`,"output_index":0`), field("item", g.item(status)))
	}
	if err == nil {
		err = out.emit("response."+status, field("response", g.object(status)))
	}
	if err == nil {
		err = out.flush()
	}
	return err
}

// place says to which part of the output an event belongs.
func (g *generation) place() []byte {
	return []byte(`,"item_id":"` + g.itemID + `","output_index":0,"content_index":0`)
}

func field(name string, value any) []byte {
	return append([]byte(`,"`+name+`":`), mustJSON(value)...)
}

// pacer keeps the pieces on a schedule from the first one on: time lost in a write or to a busy
// machine is caught up with, as with a model that goes on while its caller is slow.
type pacer struct {
	delay time.Duration
	next  time.Time
	timer *time.Timer
}

func (p *pacer) wait(g *generation) error {
	if p.delay <= 0 {
		return nil
	}
	if p.timer == nil {
		p.next, p.timer = time.Now().Add(p.delay), time.NewTimer(p.delay)
		return waitFor(g.ctx, g.server, p.timer.C)
	}
	p.next = p.next.Add(p.delay)
	wait := time.Until(p.next)
	if wait <= 0 {
		return nil
	}
	p.timer.Reset(wait)
	return waitFor(g.ctx, g.server, p.timer.C)
}

func (p *pacer) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
