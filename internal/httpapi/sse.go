package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/chat"
)

// answerEvents answers with the reply as server-sent events. A failure before the model has accepted the call is an HTTP
// error, a later one an event. A client that leaves or reads too slowly ends its stream, never the reply.
func (s *Server) answerEvents(c echo.Context, reply *chat.Reply, slot *slot, protocol protocol) error {
	ended := false
	defer func() { s.letGo(reply, ended, slot) }()
	liftDeadline(c)
	if err := s.waitOpen(c.Request().Context(), reply); err != nil {
		ended = isFault(err)
		return err
	}
	s.config.Metrics.OpenStreams.Inc()
	defer s.config.Metrics.OpenStreams.Dec()
	ended = s.stream(c, reply, protocol)
	if !ended && c.Request().Context().Err() == nil {
		// Many clients, the AI SDK among them, take a body that ends in order for a whole reply. A broken connection
		// makes them resume.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// waitOpen waits until the model has accepted the call, up to OpenTimeout: clients that get no header for long give up, so
// a slow model's stream begins before that.
func (s *Server) waitOpen(ctx context.Context, reply *chat.Reply) error {
	waiting, cancel := context.WithTimeout(ctx, s.config.OpenTimeout)
	defer cancel()
	err := reply.WaitOpen(waiting)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// stream writes the events and reports whether it reached the terminal one.
func (s *Server) stream(c echo.Context, reply *chat.Reply, protocol protocol) (ended bool) {
	protocol.header(c.Response().Header())
	out := newEventWriter(c.Response())
	out.begin()
	encoder := protocol.encoder(out, reply.Started.MessageID)
	if encoder.Padding() != nil || encoder.Started(reply.Started) != nil {
		return false
	}
	return s.copyEvents(c.Request().Context(), out, encoder, reply)
}

// copyEvents writes chunks as they come and a ping after each PingInterval of silence. It reports whether it reached the
// terminal event; it ends before when the client is gone.
func (s *Server) copyEvents(ctx context.Context, out *eventWriter, encoder encoder, reply *chat.Reply) (ended bool) {
	wait := s.config.PingInterval
	for {
		ended, err := copyFor(ctx, wait, encoder, reply)
		if ended || err != nil {
			return ended
		}
		wait = s.config.PingInterval - time.Since(out.last)
		if wait > 0 {
			continue // there was an event in the meantime
		}
		if encoder.Ping() != nil {
			return false
		}
		wait = s.config.PingInterval
	}
}

// copyFor copies until the terminal event or until the time is over, which is no error. One timer serves all chunks of
// that time, so that a chunk costs no allocation.
func copyFor(ctx context.Context, wait time.Duration, encoder encoder, reply *chat.Reply) (ended bool, err error) {
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		chunk, err := reply.Next(timed)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := encoder.Chunk(chunk); err != nil {
			return false, err
		}
		if chunk.End != nil {
			return true, nil
		}
	}
}

// eventWriter flushes each write. The writer beneath it fails for a client that does not read.
type eventWriter struct {
	response *echo.Response
	control  *http.ResponseController
	last     time.Time // of the latest write
}

func newEventWriter(response *echo.Response) *eventWriter {
	// The controller uses the writer beneath echo's, whose Flush would hide errors.
	return &eventWriter{response: response, control: http.NewResponseController(response.Writer)}
}

// begin sends the headers of a stream of events.
func (w *eventWriter) begin() {
	header := w.response.Header()
	header.Set(echo.HeaderContentType, "text/event-stream; charset=utf-8")
	header.Set(echo.HeaderCacheControl, "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	w.response.WriteHeader(http.StatusOK)
}

// Write writes one event and flushes it.
func (w *eventWriter) Write(event []byte) (int, error) {
	w.last = time.Now()
	n, err := w.response.Write(event)
	if err != nil {
		return n, err
	}
	return n, w.control.Flush()
}
