package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/chat"
)

// answerEvents answers with the reply as server-sent events. Until the model accepted the call a
// failure is an HTTP error; afterwards it is an event, and whatever goes wrong here only ends the copy.
func (s *Server) answerEvents(c echo.Context, reply *chat.Reply, place *place, protocol protocol) error {
	ended := false
	defer func() { s.letGo(reply, ended, place) }()
	liftDeadline(c)
	if err := s.waitOpen(c.Request().Context(), reply); err != nil {
		ended = isFault(err)
		return err
	}
	s.config.Metrics.OpenStreams.Inc()
	defer s.config.Metrics.OpenStreams.Dec()
	ended = s.stream(c, reply, protocol)
	if !ended && c.Request().Context().Err() == nil {
		// A body that ends in order looks like a whole reply to many clients, the AI SDK among them; a
		// connection that breaks makes them come back.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// waitOpen waits for the model's first sign, but not for ever: a client that gets no header for long
// gives up, so a slow model's stream begins without it.
func (s *Server) waitOpen(ctx context.Context, reply *chat.Reply) error {
	waiting, cancel := context.WithTimeout(ctx, s.config.OpenTimeout)
	defer cancel()
	err := reply.WaitOpen(waiting)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// stream writes the events and tells whether the terminal one was reached.
func (s *Server) stream(c echo.Context, reply *chat.Reply, protocol protocol) (ended bool) {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "text/event-stream; charset=utf-8")
	header.Set(echo.HeaderCacheControl, "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	protocol.header(header)
	c.Response().WriteHeader(http.StatusOK)

	out := newEventWriter(c.Response())
	encoder := protocol.encoder(out, reply.Started.MessageID)
	if encoder.Padding() != nil || encoder.Started(reply.Started) != nil {
		return false
	}
	return s.copyEvents(c.Request().Context(), out, encoder, reply)
}

// copyEvents writes chunks as they come and a ping after each PingInterval of silence, and tells
// whether the terminal event was reached. It ends early when the client is gone.
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

// copyFor copies until the terminal event or until the time is over, which is no error. There is one
// timer for all chunks of that time, so that a chunk costs no allocation.
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

// eventWriter sends each write on its way at once. The writer beneath it gives up on a client that does not take it.
type eventWriter struct {
	response *echo.Response
	control  *http.ResponseController
	last     time.Time // of the latest write
}

func newEventWriter(response *echo.Response) *eventWriter {
	// The controller works on the writer beneath echo's, whose Flush would swallow errors.
	return &eventWriter{response: response, control: http.NewResponseController(response.Writer)}
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
