package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

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

const pathMCP = "/mcp"

func toolRoutes() []route {
	message := object{
		"description": "One message of JSON-RPC 2.0, or several.",
		"oneOf":       []object{{"type": "object"}, {"type": "array", "items": object{"type": "object"}}},
	}
	// Only POST: without sessions there is nothing to listen to (GET) nor to end (DELETE). Clients know what 405 means.
	return []route{{
		method: http.MethodPost, path: pathMCP, id: "callTools", content: object{mediaJSON: object{"schema": message}},
		answers: object{
			"200": answer("Messages of JSON-RPC, as server-sent events.", object{mediaEventStream: object{"schema": object{"type": "string"}}}),
			"202": answer("Notifications were taken.", nil),
		},
		limits: []limit{(*Server).limitOrigin, (*Server).limitLarge}, endpoint: endpoint{serve: (*Server).postMCP},
	}}
}

// postMCP passes a request to Config.Tools, which speaks the protocol. The body and the message rate are limited here.
func (s *Server) postMCP(c echo.Context) error {
	body, err := s.readBody(c, maxMessage)
	if err != nil {
		return err
	}
	if values(body) > maxToolValues {
		return fault.New(fault.BadRequest, fmt.Sprintf("The body holds more than %d JSON values.", maxToolValues))
	}
	request := c.Request().WithContext(c.Request().Context())
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	liftDeadline(c)
	out := &toolWriter{eventWriter: newEventWriter(c.Response())}
	out.Header().Set(headerBuffering, "no")
	defer out.endPings()
	begin := sync.OnceFunc(func() { // with the headers that the library has set by then
		if _, err := out.Write(ping); err == nil {
			out.keepAlive(s.config.PingInterval, func() {})
		}
	})
	s.config.Tools.ServeMCP(out, request, principal(c), func() (func(), error) { return s.admitTool(c, begin) })
	return out.refusal()
}

// toolWriter passes the library's answer on, but not a refusal in plain text: that is answered as every error is.
type toolWriter struct {
	*eventWriter

	refused int // the refusal's status; 0 for none
	reason  strings.Builder
}

// WriteHeader begins the answer, unless it is such a refusal.
func (w *toolWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest && w.Header().Get(echo.HeaderContentType) != mediaJSON {
		w.refused = status
		return
	}
	w.eventWriter.WriteHeader(status)
}

// Write writes one event, or a refusal's reason.
func (w *toolWriter) Write(event []byte) (int, error) {
	if w.refused != 0 {
		return w.reason.Write(event)
	}
	return w.eventWriter.Write(event)
}

func (w *toolWriter) refusal() error {
	reason := strings.TrimSpace(w.reason.String())
	switch {
	case w.refused == 0:
		return nil
	case w.refused >= http.StatusInternalServerError:
		return errors.New("mcp: " + reason)
	}
	return fault.New(fault.BadRequest, "This is no request of the Model Context Protocol: "+reason)
}

// admitTool admits a tool's message to the model, for which it begins the stream, or refuses it: messages and streams of
// tools count like any others.
func (s *Server) admitTool(c echo.Context, beginStream func()) (release func(), err error) {
	if err := s.takeMessage(c); err != nil {
		return nil, err
	}
	free, err := s.streams.acquire(principal(c).UserID, "replies")
	if err != nil {
		return nil, err
	}
	s.config.Metrics.OpenStreams.Inc()
	beginStream()
	return func() {
		s.config.Metrics.OpenStreams.Dec()
		free()
	}, nil
}
