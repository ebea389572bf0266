package offline

import (
	"fmt"
	"net/http"
	"time"
)

// wire tells an answer as one of the APIs streams it.
type wire interface {
	begin()
	// added tells of an item; of one that is no message, all but its end.
	added(at int, item *output)
	piece(at int, item *output, text string)
	done(at int, item *output)
	// failed tells of a fault that is an event.
	failed(fault Fault)
	end()
}

// stream answers with the event sequence of the request's API.
func (g *generation) stream(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	out := &eventWriter{generation: g, w: w, control: http.NewResponseController(w)}
	out.wire = &responsesWire{eventWriter: out}
	if g.request.API == APIChat {
		out.wire = &chatWire{eventWriter: out}
	}
	out.wire.begin()
	ended, err := out.tell()
	if !ended && err == nil {
		out.wire.end()
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
	wire    wire
	w       http.ResponseWriter
	control *http.ResponseController
	err     error

	due         time.Time // of the next piece: a slow write does not delay the pieces after it
	sent, bytes int       // pieces, and their size
}

// tell sends the items, with the gate and the fault between the pieces of text. It reports whether a fault ended the stream.
func (o *eventWriter) tell() (ended bool, err error) {
	o.due = time.Now()
	for at, item := range o.items {
		o.wire.added(at, item)
		o.flush()
		for _, text := range item.pieces {
			if ended, err := o.stop(); ended || err != nil {
				return ended, err
			}
			if err := o.say(at, item, text); err != nil {
				return false, err
			}
		}
		if item.kind != kindMessage {
			o.wire.done(at, item)
		}
		if at == len(o.items)-1 {
			if ended, err := o.stop(); ended || err != nil {
				return ended, err
			}
		}
		if item.kind == kindMessage {
			o.wire.done(at, item)
		}
	}
	return false, nil
}

// stop waits for the gate or plays the fault if their turn has come. It reports whether the stream is over.
func (o *eventWriter) stop() (ended bool, err error) {
	if o.answer.Gate != nil && o.sent == o.answer.GateAfter {
		o.flush()
		if err := receive(o.ctx, o.server, o.answer.Gate); err != nil {
			return false, err
		}
	}
	if o.sent == o.answer.FaultAfter {
		return o.fail()
	}
	return false, nil
}

// say sends the next piece when it is due.
func (o *eventWriter) say(at int, item *output, text string) error {
	o.due = o.due.Add(o.answer.PieceDelay)
	if err := o.server.pause(o.ctx, time.Until(o.due)); err != nil {
		return err
	}
	o.wire.piece(at, item, text)
	if o.flush(); o.err != nil {
		return errGone
	}
	o.sent++
	o.bytes += len(text)
	o.recordSent(o.bytes)
	return nil
}

// fail plays a fault inside a stream. It reports whether the stream is over.
func (o *eventWriter) fail() (ended bool, err error) {
	switch o.answer.Fault {
	case FaultHang:
		o.flush()
		return true, o.server.hang(o.ctx)
	case FaultCut:
		o.flush()
		reset(o.w)
	case FaultEndEarly:
	case FaultFailed, FaultErrorEvent:
		o.wire.failed(o.answer.Fault)
	default:
		return false, nil
	}
	return true, nil
}

// write writes a part of the stream.
func (o *eventWriter) write(format string, args ...any) {
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, format, args...)
	}
}

func (o *eventWriter) flush() {
	if o.err == nil {
		o.err = o.control.Flush()
	}
}
