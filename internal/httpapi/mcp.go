package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// Tools answers requests of the Model Context Protocol.
type Tools interface {
	// ServeMCP answers a request of the user, whose body is complete. admit is called before each message to
	// the model, by any goroutine: it refuses it or gives what to call when its reply has ended.
	ServeMCP(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func() (leave func(), err error))
}

// maxToolValues is how many JSON values a request to the tools may hold, far more than any needs: the library that
// reads them spends much on each.
const maxToolValues = 10_000

// values counts brackets and commas, which are as many as there are values, or up to twice as many.
func values(raw []byte) int {
	count := 1
	structure(raw, func(byte, int) { count++ })
	return count
}

// pathMCP is where the tools are.
const pathMCP = "/mcp"

// postMCP answers programs that use the conversation as tools. Who they are and what they may send is
// decided here as for everybody else; the protocol is Config.Tools' alone.
func (s *Server) postMCP(c echo.Context) error {
	body, err := s.readBodyUpTo(c, maxMessage)
	if err != nil {
		return err
	}
	if values(body) > maxToolValues {
		return fault.New(fault.BadRequest, fmt.Sprintf("The body holds more than %d JSON values.", maxToolValues))
	}
	request := c.Request().WithContext(c.Request().Context())
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	liftDeadline(c)
	c.Response().Header().Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithCancel(request.Context())
	out := &toolsWriter{ctx: ctx, header: c.Response().Header(), out: newEventWriter(c.Response()), pause: s.config.PingInterval}
	defer out.close(cancel)
	s.config.Tools.ServeMCP(out, request, principal(c), func() (func(), error) { return s.admitTool(c, out) })
	return nil
}

// admitTool lets a tool's message to the model in, or not: its user's messages and streams count, by
// whatever way they come.
func (s *Server) admitTool(c echo.Context, out *toolsWriter) (leave func(), err error) {
	user := principal(c).UserID
	if wait := s.messages.take(user, time.Now()); wait > 0 {
		return nil, &fault.Error{Code: fault.OverRequestRateLimit, Message: "Too many messages at once.", RetryAfter: wait}
	}
	place, err := s.streams.acquire(user)
	if err != nil {
		return nil, err
	}
	s.config.Metrics.OpenStreams.Inc()
	out.keepAlive()
	return func() {
		s.config.Metrics.OpenStreams.Dec()
		place.leave()
	}, nil
}

// toolsWriter is where the protocol's library writes its events, each with one call of Write. While a reply
// is being written it fills the silence with pings, for proxies that take a silent stream for dead.
type toolsWriter struct {
	ctx    context.Context //nolint:containedctx // of the request; it ends the pings
	header http.Header
	pause  time.Duration
	once   sync.Once
	pings  sync.WaitGroup

	mu  sync.Mutex // for out
	out *eventWriter
}

// Header is the answer's.
func (w *toolsWriter) Header() http.Header { return w.header }

// WriteHeader begins the answer.
func (w *toolsWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.response.WriteHeader(status)
}

// Write writes one event and flushes it.
func (w *toolsWriter) Write(event []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(event)
}

// Flush is for the library, which asks for it after each event. Write has done it.
func (w *toolsWriter) Flush() {}

// ping is a comment, which clients skip.
var ping = []byte(": ping\n\n")

// keepAlive begins the stream, whose headers the library has set by then, and fills its silence from now on.
func (w *toolsWriter) keepAlive() {
	w.once.Do(func() {
		if _, err := w.Write(ping); err == nil {
			w.pings.Go(w.fillSilence)
		}
	})
}

func (w *toolsWriter) fillSilence() {
	wait := w.pause
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(wait):
		}
		if wait = w.pause - w.silence(); wait > 0 {
			continue // there was an event in the meantime
		}
		if _, err := w.Write(ping); err != nil {
			return
		}
		wait = w.pause
	}
}

func (w *toolsWriter) silence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.out.last)
}

// close ends the pings.
func (w *toolsWriter) close(cancel context.CancelFunc) {
	cancel()
	w.pings.Wait()
}
