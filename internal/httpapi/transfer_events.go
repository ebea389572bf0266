package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/streaming"
)

// The events of an import.
const (
	eventImportProgress  = "import.progress"
	eventImportCompleted = "import.completed"
	eventImportFailed    = "import.failed"
)

// progressInterval is the shortest time between two events of one phase.
const progressInterval = 250 * time.Millisecond

// importEvents answers with events: progress, and at the end the result or the failure.
func (s *Server) importEvents(c echo.Context, body *importBody) error {
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	out := newEventWriter(c.Response())
	// Without it HTTP/1 reads the whole body before the first event. HTTP/2 is always full duplex.
	_ = out.control.EnableFullDuplex()
	out.begin()
	s.config.Metrics.OpenStreams.Inc()
	defer s.config.Metrics.OpenStreams.Dec()

	giveUp := func() { // for a client that does not read
		cancel()
		_ = body.control.SetReadDeadline(time.Now()) // ends a read that waits for the client
	}
	if streaming.NewEncoder(out, uuid.Nil).Padding() != nil {
		panic(http.ErrAbortHandler)
	}
	out.keepAlive(s.config.PingInterval, giveUp)
	result, err := s.config.Transfer.Import(ctx, principal(c), body, progressEvents(out, giveUp))
	out.endPings()
	switch {
	case ctx.Err() != nil:
		panic(http.ErrAbortHandler)
	case err != nil:
		return s.endFailedImport(c, out, body, err)
	}
	return writeEvent(out, eventImportCompleted, result)
}

// progressEvents writes the first progress of each phase, and then at most one per progressInterval.
func progressEvents(out *eventWriter, giveUp func()) func(transfer.Progress) {
	var phase transfer.Phase
	var last time.Time
	return func(progress transfer.Progress) {
		if progress.Phase == phase && time.Since(last) < progressInterval {
			return
		}
		phase, last = progress.Phase, time.Now()
		if writeEvent(out, eventImportProgress, progress) != nil {
			giveUp()
		}
	}
}

// endFailedImport writes the last event. When the body was not read to its end, it drains some more of it, because most
// clients read an answer only after they have sent everything.
func (s *Server) endFailedImport(c echo.Context, out *eventWriter, body *importBody, cause error) error {
	failure := s.toFault(cause)
	s.logFailure(c, statusOf(failure.Code), cause)
	if err := writeEvent(out, eventImportFailed, newErrorBody(failure)); err != nil {
		return err
	}
	if !body.ended {
		_ = body.control.SetReadDeadline(time.Now().Add(drainTimeout))
		_, _ = io.CopyN(io.Discard, c.Request().Body, maxDrain) // how it ends makes no difference
	}
	return nil
}

func writeEvent(out *eventWriter, name string, payload any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	_, err = fmt.Fprintf(out, "event: %s\ndata: %s\n\n", name, data)
	return err
}
