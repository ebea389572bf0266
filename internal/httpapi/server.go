// Package httpapi is the HTTP API: routes, middleware, handlers, the one writer of errors and the OpenAPI document. It
// translates requests into calls of other packages and their results into JSON or server-sent events.
//
// Each route is one row of a table, such as chatRoutes: method, path, handler; routes.txt has its texts and errors. The
// router and the document are made of the rows. Struct tags of the request types are read by the decoder of bodies and
// queries (decode.go), by api.Check and by the document (openapi_schemas.go).
//
// A request passes, in this order: request id, access log and metrics, recovery from panics, CORS, the access token, the
// user's limits, the body, the handler. A user who is not served here hears that, whatever else is wrong with the request. Only
// a *fault.Error is shown to the client; any other failure is "internal", and its cause is in the log.
//
// A stream is in our own protocol or in that of Vercel's AI SDK. When its client leaves or reads too slowly, only the
// stream ends: package chat finishes and stores the reply.
//
// Compression (it holds back streams) and TLS are not here. Echo is used for routing alone, and no other package imports
// it.
package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// Chat sends messages and reads replies.
type Chat interface {
	Send(ctx context.Context, user auth.Principal, message chat.Message) (*chat.Reply, error)
	Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *chat.Cursor) (*chat.Reply, error)
	Cancel(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat.Stopped, error)
	AnswerCall(ctx context.Context, user auth.Principal, answer chat.CallAnswer) (*chat.Reply, error)
	ClaimCall(ctx context.Context, user auth.Principal, claim chat.CallAnswer) (time.Time, error)
	PreviewPrompt(ctx context.Context, user auth.Principal, chatID uuid.UUID, query chat.PreviewQuery) (chat.PromptPreview, error)
}

var _ Chat = (*chat.Service)(nil)

// Config of a Server. Chat, History, Memories, Extracts, Recall, Topics, Rewriter, Graph, Accounts, Transfer, Tools, Auth, Logger and
// Metrics are required.
type Config struct {
	Chat     Chat
	History  api.Store
	Memories api.Memories
	Extracts api.Extractor
	Recall   api.Recall
	Topics   api.Topics
	Rewriter api.Rewriter
	Graph    api.Graph
	Accounts api.Accounts
	Transfer *transfer.Service
	Auth     *auth.Verifier
	Logger   *slog.Logger
	Metrics  *metrics.Metrics
	// Ready reports whether the server is ready, with public details for /readyz. It has readyTimeout.
	// Nil means always ready.
	Ready Ready
	// Isolated returns an error while no request of a user may be answered. Nil means always.
	Isolated func(context.Context) error
	// Admit returns why a user is not served here. The transactions that name the user ask, too. Nil means that all are.
	Admit func(context.Context, auth.Principal) error
	// Cell is sent with every answer; "" for no cells.
	Cell string
	// Version is shown at /, /healthz and in the OpenAPI document.
	Version string
	// ChatDefaults are the settings of new chats.
	ChatDefaults memory.ChatDefaults
	// MessagesPerMinute is what one user may send, with a burst of the same size, and how many other requests may ask a model; 0 for
	// no limit.
	MessagesPerMinute int
	// MaxStreamsPerUser limits a user's open streams and running replies together; 0 for no limit.
	MaxStreamsPerUser int
	// CORSOrigins are the origins of web pages that may use the API, such as "https://app.example.com"; "*" means all.
	// Empty means none; native apps need none.
	CORSOrigins []string
	// Tools answers at /mcp.
	Tools Tools
	// AuthServer is the address of the authorization server from which clients of the tools get their users' tokens; "" for
	// none that they could find by themselves.
	AuthServer string
	// PublicURL is the address at which clients reach this server. Defaults to the address in a request.
	PublicURL string
	// OAuthAPIClients are the OAuth clients whose tokens are good for the whole API and not only for the tools; "*" means all.
	OAuthAPIClients []string
	// RiverUI is served at /river/ and below; nil for not at all. It checks access itself.
	RiverUI http.Handler
	// Page is served at /app/ and below; nil for not at all.
	Page http.Handler
	// PingInterval is the silence after which a stream sends a comment. Defaults to 15 s.
	PingInterval time.Duration
	// OpenTimeout is how long a stream waits for the model to accept the call before it begins; until then a failure
	// can be an HTTP status. Defaults to 15 s.
	OpenTimeout time.Duration
	// HeaderTimeout is how long a client may take to send the headers of a request. Defaults to 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout is how long a client may take to send a body; four times that for one over 1 MiB. For an import it is
	// the time for each piece. Defaults to 30 s.
	BodyTimeout time.Duration
	// IdleTimeout is how long an idle connection is kept. Defaults to 2 min.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may take to accept one event, or 64 KiB of any other answer. Defaults to 10 s.
	WriteTimeout time.Duration
}

// Server holds the handlers. It need not be closed and is safe for concurrent use.
type Server struct {
	config    Config
	handler   http.Handler
	messages  *rateLimiter
	questions *rateLimiter
	streams   *streamLimiter
	large     *streamLimiter // of bodies
	openAPI   func() []byte  // made when first asked for: no start waits for it
}

// New returns a server.
func New(config Config) *Server {
	config.PingInterval = cmp.Or(config.PingInterval, 15*time.Second)
	config.OpenTimeout = cmp.Or(config.OpenTimeout, 15*time.Second)
	config.HeaderTimeout = cmp.Or(config.HeaderTimeout, 10*time.Second)
	config.BodyTimeout = cmp.Or(config.BodyTimeout, 30*time.Second)
	config.IdleTimeout = cmp.Or(config.IdleTimeout, 2*time.Minute)
	config.WriteTimeout = cmp.Or(config.WriteTimeout, 10*time.Second)
	s := &Server{
		config:    config,
		messages:  newRateLimiter(config.MessagesPerMinute, "messages"),
		questions: newRateLimiter(config.MessagesPerMinute, "questions"),
		streams:   newStreamLimiter(config.MaxStreamsPerUser, "max_streams"),
		large:     newStreamLimiter(config.MaxStreamsPerUser, "max_large"),
		openAPI:   sync.OnceValue(func() []byte { return openAPIDocument(config.Version) }),
	}
	s.handler = s.router()
	return s
}

func (s *Server) router() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.writeError
	e.Use(s.observe, s.recoverPanic, allowDiscovery())
	if len(s.config.CORSOrigins) > 0 {
		e.Use(allowOrigins(s.config.CORSOrigins))
	}

	for _, r := range routes() {
		s.mount(e, r)
	}
	mountBelow(e, "/river", s.config.RiverUI)
	mountBelow(e, "/app", s.config.Page)
	return e
}

// mountBelow serves a path and everything below it, with a slash at its end.
func mountBelow(e *echo.Echo, path string, handler http.Handler) {
	if handler == nil {
		return
	}
	e.GET(path, func(c echo.Context) error { return c.Redirect(http.StatusTemporaryRedirect, path+"/") })
	e.Any(path+"/*", echo.WrapHandler(handler))
}

const (
	// maxHeader bounds a request's first line and headers together, in bytes; net/http adds 4 KiB to it. An access token
	// has some 2 KiB, and it is not yet checked when the headers are read.
	maxHeader = 64 << 10
	// maxPiece is the part of an answer, in bytes, for which a client may take Config.WriteTimeout.
	maxPiece = 64 << 10
)

// HTTPServer returns a server for the handler, with limits on connections. The caller starts it and shuts it down.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.config.HeaderTimeout,
		ReadTimeout:       s.config.BodyTimeout, // handlers that read a body restart it
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
		// No WriteTimeout: it would cut streams. A patientWriter bounds each piece of each answer.
	}
}

// patientWriter allows a client Config.WriteTimeout for each piece of an answer: a client that does not read holds neither
// a goroutine nor a connection, and one that reads slowly gets all of a long answer. It replaces the deadline of the
// connection's previous request.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	set     time.Time // of the latest deadline
}

var _ http.ResponseWriter = (*patientWriter)(nil)

func newPatientWriter(to http.ResponseWriter, timeout time.Duration) *patientWriter {
	w := &patientWriter{ResponseWriter: to, control: http.NewResponseController(to), timeout: timeout}
	w.moveDeadline()
	return w
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer.
func (w *patientWriter) WriteHeader(status int) {
	w.moveDeadline()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes one piece after the other.
func (w *patientWriter) Write(answer []byte) (int, error) {
	written := 0
	for {
		w.moveDeadline()
		n, err := w.ResponseWriter.Write(answer[written:min(written+maxPiece, len(answer))])
		written += n
		if err != nil || written >= len(answer) {
			return written, err
		}
	}
}

// moveDeadline extends the deadline, but not for each event of a fast reply: that would cost as much as encoding it.
func (w *patientWriter) moveDeadline() {
	if now := time.Now(); now.Sub(w.set) > w.timeout/16 {
		w.set = now
		_ = w.control.SetWriteDeadline(now.Add(w.timeout)) // recorders have none
	}
}

// withoutBody drains the body that a request should not have, while there is still a deadline for it: net/http would wait
// for its end when the answer begins, and the routes that stream have no deadline by then.
func (s *Server) withoutBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		n, err := io.Copy(io.Discard, io.LimitReader(c.Request().Body, maxBody+1))
		switch {
		case err != nil:
			return bodyBroken(c.Request(), err)
		case n > maxBody:
			return bodyTooLarge(maxBody)
		}
		return next(c)
	}
}

// limitLarge bounds how many large bodies of one user are in memory at once, to the number of streams that the user may
// have. A body of unknown length counts as large.
func (s *Server) limitLarge(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if length := c.Request().ContentLength; length >= 0 && length <= maxBody {
			return next(c)
		}
		release, err := s.large.acquire(principal(c).UserID, fmt.Sprintf("requests with bodies over %d MiB or of unknown length", maxBody>>20))
		if err != nil {
			return err
		}
		defer release()
		return next(c)
	}
}

// readyTimeout bounds Config.Ready, so that a load balancer hears "no" soon.
const readyTimeout = 3 * time.Second

func operationRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/healthz", id: "getHealth", public: true, head: true, endpoint: jsonEndpoint((*Server).getHealth)},
		{
			method: http.MethodGet, path: "/readyz", id: "getReadiness", public: true, head: true,
			answers:  object{"200": answer("It can. Further members are details.", object{mediaJSON: object{"schema": schemaRef("Readiness")}})},
			endpoint: endpoint{serve: (*Server).getReadiness},
		},
		{
			method: http.MethodGet, path: "/metrics", id: "getMetrics", public: true,
			answers:  object{"200": answer("The metrics.", object{"text/plain": object{"schema": object{"type": "string"}}})},
			endpoint: endpoint{serve: (*Server).getMetrics},
		},
		{
			method: http.MethodGet, path: "/openapi.json", id: "getOpenAPI", public: true,
			answers:  object{"200": answer("The document.", object{mediaJSON: object{"schema": object{"type": "object"}}})},
			endpoint: endpoint{serve: func(s *Server, c echo.Context) error { return writeRaw(c, http.StatusOK, s.openAPI()) }},
		},
		{method: http.MethodGet, path: "/", id: "getRoot", public: true, endpoint: jsonEndpoint((*Server).getRoot)},
	}
}

type health struct {
	_       struct{} `description:"The state of the process."`
	Status  string   `json:"status" enum:"ok,ready"`
	Version string   `json:"version"`
}

type root struct {
	_         struct{} `description:"What is served here."`
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	OpenAPI   string   `json:"openapi" description:"Where the description of this API is."`
	Page      string   `json:"page,omitempty" description:"Where people talk and see what is remembered, unless it is switched off."`
	Endpoints []string `json:"endpoints" nullable:"false"`
}

// getHealth answers while the process lives, with or without Postgres.
func (s *Server) getHealth(context.Context, auth.Principal, uuid.UUID, none) (health, error) {
	return health{Status: "ok", Version: s.config.Version}, nil
}

// Ready reports in details what there is to know of a process that can serve, or returns why it cannot. In the details of
// such a *fault.Error, waits_for names the parts that are missing.
type Ready func(context.Context) (details map[string]any, err error)

// Answer answers a request for the readiness, with or without the server around it, and returns why it is not there.
func (ready Ready) Answer(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	details, err := ready(ctx)
	var answer any
	status, header := http.StatusOK, w.Header()
	if err == nil {
		all := map[string]any{}
		maps.Copy(all, details)
		all["status"] = "ready"
		answer = all
	} else {
		failure, known := errors.AsType[*fault.Error](err)
		if !known {
			failure = &fault.Error{Code: fault.NotReady, Message: "The server is not ready.", Details: details, Err: err}
		}
		status = statusOf(failure.Code)
		header.Set(echo.HeaderRetryAfter, retryAfter(failure.RetryAfter))
		body := newErrorBody(failure)
		body.Details = maps.Clone(failure.Details)
		body.WaitsFor, _ = failure.Details["waits_for"].([]string)
		delete(body.Details, "waits_for")
		if body.Status = "waiting"; failure.Code == fault.ShuttingDown {
			body.Status = "stopping"
		}
		answer = body
	}
	header.Set(echo.HeaderContentType, mediaJSON)
	header.Set(echo.HeaderCacheControl, "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // a client that left does not care
	return err
}

func (s *Server) getReadiness(c echo.Context) error {
	ready := s.config.Ready
	if ready == nil {
		ready = func(context.Context) (map[string]any, error) { return nil, nil }
	}
	if err := ready.Answer(c.Response(), c.Request()); err != nil {
		s.logFailure(c, c.Response().Status, err)
	}
	return nil
}

func (s *Server) getRoot(context.Context, auth.Principal, uuid.UUID, none) (root, error) {
	found := root{Name: "throughline", Version: s.config.Version, OpenAPI: "/openapi.json"}
	if s.config.Page != nil {
		found.Page = "/app/"
	}
	for _, r := range routes() {
		found.Endpoints = append(found.Endpoints, r.method+" "+r.path)
	}
	return found, nil
}

func (s *Server) getMetrics(c echo.Context) error {
	promhttp.HandlerFor(s.config.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}
