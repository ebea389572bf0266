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

// runningImport is an import on a goroutine of its own, so that pings are sent while it waits.
type runningImport struct {
	progress chan transfer.Progress
	done     chan struct{}
	// Set when done is closed.
	result transfer.Result
	err    error
}

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

	running := s.startImport(ctx, c, body)
	if err := s.copyProgress(out, running); err != nil {
		cancel()
		_ = body.control.SetReadDeadline(time.Now()) // ends a read that waits for the client
		<-running.done
		panic(http.ErrAbortHandler)
	}
	return s.endImport(c, out, running, body)
}

func (s *Server) startImport(ctx context.Context, c echo.Context, body *importBody) *runningImport {
	running := &runningImport{progress: make(chan transfer.Progress), done: make(chan struct{})}
	user := principal(c)
	go func() {
		defer close(running.done)
		running.result, running.err = s.config.Transfer.Import(ctx, user, body, running.reporter(ctx))
	}()
	return running
}

// reporter passes on the first progress of each phase, and then at most one per progressInterval.
func (r *runningImport) reporter(ctx context.Context) func(transfer.Progress) {
	var phase transfer.Phase
	var last time.Time
	return func(progress transfer.Progress) {
		if progress.Phase == phase && time.Since(last) < progressInterval {
			return
		}
		phase, last = progress.Phase, time.Now()
		select {
		case r.progress <- progress:
		case <-ctx.Done():
		}
	}
}

// copyProgress writes events until the import has ended. It fails when the client does not read.
func (s *Server) copyProgress(out *eventWriter, running *runningImport) error {
	comments := streaming.NewEncoder(out, uuid.Nil)
	if err := comments.Padding(); err != nil {
		return err
	}
	tick := time.NewTicker(s.config.PingInterval)
	defer tick.Stop()
	for {
		var err error
		select {
		case progress := <-running.progress:
			err = writeEvent(out, eventImportProgress, progress)
		case <-tick.C:
			err = comments.Ping()
		case <-running.done:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// endImport writes the last event. When the body was not read to its end, it drains some more of it, because most clients
// read an answer only after they have sent everything.
func (s *Server) endImport(c echo.Context, out *eventWriter, running *runningImport, body *importBody) error {
	if running.err == nil {
		return writeEvent(out, eventImportCompleted, running.result)
	}
	if clientGone(c, running.err) {
		panic(http.ErrAbortHandler)
	}
	failure := s.toFault(running.err)
	s.logFailure(c, statusOf(failure.Code), running.err)
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
