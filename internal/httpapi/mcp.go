package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	// and before each question that may cost a call, on any goroutine. admit refuses it, or returns a function to call when its reply
	// has ended.
	ServeMCP(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func(question bool) (release func(), err error))
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
	if err := s.admit(c); err != nil { // not told by a tool, in an answer that is none of an error
		return err
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
	s.config.Tools.ServeMCP(out, request, principal(c), func(question bool) (func(), error) {
		if question {
			return func() {}, take(s.questions, c)
		}
		return s.admitTool(c, begin)
	})
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
	if err := take(s.messages, c); err != nil {
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

const (
	// pathMetadata is where clients of a protected resource look for its authorization server (RFC 9728, 3.1);
	// pathToolMetadata is the one of the tools.
	pathMetadata     = "/.well-known/oauth-protected-resource"
	pathToolMetadata = pathMetadata + pathMCP
)

// oauthScope is what a client need ask for. No scope of Supabase Auth opens or closes anything here, and it refuses scopes
// that it does not know; this is its own default.
const oauthScope = "email"

// toolMetadata describes the tools as a protected resource (RFC 9728, 2).
type toolMetadata struct {
	_             struct{} `description:"Where a client of the tools gets its user's token (RFC 9728)."`
	Resource      string   `json:"resource" description:"The address of the tools."`
	AuthServers   []string `json:"authorization_servers" nullable:"false"`
	Scopes        []string `json:"scopes_supported" nullable:"false"`
	BearerMethods []string `json:"bearer_methods_supported" nullable:"false"`
	ResourceName  string   `json:"resource_name"`
}

// discoveryRoutes are two addresses of one document: clients that overlook the header of the 401 try both.
func discoveryRoutes() []route {
	metadata := route{
		method: http.MethodGet, public: true, head: true,
		endpoint: endpoint{serve: (*Server).getToolMetadata, out: typeOf[toolMetadata](), status: http.StatusOK},
	}
	atTools, atRoot := metadata, metadata
	atTools.path, atTools.id = pathToolMetadata, "getToolMetadata"
	atRoot.path, atRoot.id = pathMetadata, "getResourceMetadata"
	return []route{atTools, atRoot}
}

func (s *Server) getToolMetadata(c echo.Context) error {
	if s.config.AuthServer == "" {
		return fault.New(fault.NotFound, "No authorization server is configured: SUPABASE_URL is not set.")
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store") // it may depend on the Host that was asked for
	return writeJSON(c, http.StatusOK, toolMetadata{
		Resource: s.publicURL(c.Request()) + pathMCP, AuthServers: []string{s.config.AuthServer},
		Scopes: []string{oauthScope}, BearerMethods: []string{"header"}, ResourceName: "Throughline",
	})
}

// publicURL is the address of this server as the client sees it. The address in a request is told to its sender alone.
func (s *Server) publicURL(r *http.Request) string {
	if s.config.PublicURL != "" {
		return s.config.PublicURL
	}
	forwarded, _, _ := strings.Cut(r.Header.Get(echo.HeaderXForwardedProto), ",")
	if r.TLS != nil || strings.EqualFold(strings.TrimSpace(forwarded), "https") {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// acceptsClient reports whether a token is good for a route. One that its user gave to an assistant is good for the tools,
// which is what they were asked about.
func (s *Server) acceptsClient(path string, user auth.Principal) bool {
	return user.ClientID == "" || path == pathMCP ||
		slices.Contains(s.config.OAuthAPIClients, user.ClientID) || slices.Contains(s.config.OAuthAPIClients, "*")
}
