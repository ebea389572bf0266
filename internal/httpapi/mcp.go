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
	"github.com/arcoscribe/throughline/internal/memory"
)

// Tools answers requests of the Model Context Protocol.
type Tools interface {
	// ServeMCP answers a request of the user, whose body is complete. It calls admit before each message to the model,
	// on any goroutine. admit refuses the message, or returns a function to call when its reply has ended.
	ServeMCP(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func() (release func(), err error))
}

// maxToolValues is how many JSON values a request to the tools may hold, far more than any needs: decoding each is
// expensive for the library.
const maxToolValues = 10_000

// values counts brackets and commas, which are between one and two per value.
func values(raw []byte) int {
	count := 1
	memory.WalkJSON(raw, func(byte, int) { count++ })
	return count
}

// pathMCP is the address of the tools.
const pathMCP = "/mcp"

func toolRoutes() []route {
	message := object{"description": "One message of JSON-RPC 2.0, or several.", "oneOf": []object{{"type": "object"}, {"type": "array", "items": object{"type": "object"}}}}
	// Only POST: without sessions there is nothing to listen to (GET) nor to end (DELETE). Clients know what 405 means.
	return []route{{
		method: http.MethodPost, path: pathMCP, id: "callTools", tag: "tools", summary: "Use the chats as tools",
		description: "The Model Context Protocol (modelcontextprotocol.io) over streamable HTTP, without sessions. Its clients know what to send; docs/threads.md lists the tools. " +
			"What is wrong with a message of that protocol is answered in that protocol's terms.",
		content: object{mediaJSON: object{"schema": message}},
		answers: object{
			"200": answer("Messages of JSON-RPC, as server-sent events.", object{mediaEventStream: object{"schema": object{"type": "string"}}}),
			"202": answer("Notifications were taken.", nil),
		},
		errors:   []fault.Code{fault.BadRequest, fault.BodyTooLarge, fault.UnsupportedMediaType, fault.OverRequestRateLimit},
		limits:   []limit{(*Server).limitLarge},
		endpoint: endpoint{serve: (*Server).postMCP},
	}}
}

// postMCP passes a request to Config.Tools, which speaks the protocol. The body and the message rate are limited here.
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

// admitTool admits a tool's message to the model, or refuses it: messages and streams of tools count like any others.
func (s *Server) admitTool(c echo.Context, out *toolsWriter) (release func(), err error) {
	user := principal(c).UserID
	if wait := s.messages.take(user, time.Now()); wait > 0 {
		return nil, &fault.Error{Code: fault.OverRequestRateLimit, Message: "Too many messages at once.", RetryAfter: wait}
	}
	slot, err := s.streams.acquire(user)
	if err != nil {
		return nil, err
	}
	s.config.Metrics.OpenStreams.Inc()
	out.keepAlive()
	return func() {
		s.config.Metrics.OpenStreams.Dec()
		slot.release()
	}, nil
}

// toolsWriter is what the protocol's library writes its events to, each with one call of Write. After keepAlive it also
// sends pings, for proxies that close silent streams.
type toolsWriter struct {
	ctx    context.Context //nolint:containedctx // of the request; its end ends the pings
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

// Flush does nothing: Write flushes.
func (w *toolsWriter) Flush() {}

// ping is a comment, which clients ignore.
var ping = []byte(": ping\n\n")

// keepAlive begins the stream, whose headers the library has set by then, and starts the pings.
func (w *toolsWriter) keepAlive() {
	w.once.Do(func() {
		if _, err := w.Write(ping); err == nil {
			w.pings.Go(w.sendPings)
		}
	})
}

func (w *toolsWriter) sendPings() {
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
