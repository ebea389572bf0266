package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// Chat sends messages and reads replies.
type Chat interface {
	Send(ctx context.Context, user auth.Principal, message chat.Message) (*chat.Reply, error)
	Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *chat.Cursor) (*chat.Reply, error)
	Cancel(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat.StoredReply, error)
	PreviewPrompt(ctx context.Context, user auth.Principal, chatID uuid.UUID, variant, content string) (chat.PromptPreview, error)
}

var _ Chat = (*chat.Service)(nil)

// Config of a Server. Chat, History, Memories, Extracts, Recall, Topics, Rewriter, Graph, Transfer, Tools, Auth, Logger and Metrics are required.
type Config struct {
	Chat     Chat
	History  api.Store
	Memories api.Memories
	Extracts api.Extractor
	Recall   api.Recall
	Topics   api.Topics
	Rewriter api.Rewriter
	Graph    api.Graph
	Transfer *transfer.Service
	Auth     *auth.Verifier
	Logger   *slog.Logger
	Metrics  *metrics.Metrics
	// Ready reports whether the server is ready, with details for /readyz that anybody may see. It has readyTimeout.
	// Nil means always ready.
	Ready func(ctx context.Context) (details map[string]any, err error)
	// Version is shown at /, /healthz and in the OpenAPI document.
	Version string
	// ChatDefaults are the settings of new chats.
	ChatDefaults memory.ChatDefaults
	// MessagesPerMinute is what one user may send, with a burst of the same size; 0 for no limit.
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
	// PublicURL is the address at which clients reach this server. Defaults to what a request says.
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
	config   Config
	handler  http.Handler
	messages *rateLimiter
	streams  *streamLimiter
	large    *streamLimiter // of bodies
	openAPI  []byte
}

// New returns a server. It panics when the OpenAPI document cannot be made, which is a bug in this package.
func New(config Config) *Server {
	config.PingInterval = cmp.Or(config.PingInterval, 15*time.Second)
	config.OpenTimeout = cmp.Or(config.OpenTimeout, 15*time.Second)
	config.HeaderTimeout = cmp.Or(config.HeaderTimeout, 10*time.Second)
	config.BodyTimeout = cmp.Or(config.BodyTimeout, 30*time.Second)
	config.IdleTimeout = cmp.Or(config.IdleTimeout, 2*time.Minute)
	config.WriteTimeout = cmp.Or(config.WriteTimeout, 10*time.Second)
	s := &Server{
		config:   config,
		messages: newRateLimiter(config.MessagesPerMinute),
		streams:  newStreamLimiter(config.MaxStreamsPerUser, "max_streams"),
		large:    newStreamLimiter(config.MaxStreamsPerUser, "max_large"),
		openAPI:  openAPIDocument(config.Version),
	}
	s.handler = s.router()
	return s
}

// Handler returns the handler of all routes.
func (s *Server) Handler() http.Handler {
	return s.handler
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
