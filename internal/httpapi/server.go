package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// Chat is what the handlers need of the conversation.
type Chat interface {
	Send(ctx context.Context, user auth.Principal, message chat.Message) (*chat.Reply, error)
	Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *chat.Cursor) (*chat.Reply, error)
	Cancel(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat.StoredReply, error)
	PreviewPrompt(ctx context.Context, user auth.Principal, chatID uuid.UUID, variant string) (chat.PromptPreview, error)
}

// History is what the handlers need of the chats and messages that a user keeps.
type History interface {
	CreateChat(ctx context.Context, user auth.Principal, chat history.NewChat) (history.Chat, error)
	ListChats(ctx context.Context, user auth.Principal, query history.ListQuery) (history.ChatPage, error)
	FindChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (history.Chat, error)
	ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change history.ChatChange) (history.Chat, error)
	DeleteChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) error
	PruneChats(ctx context.Context, user auth.Principal, query history.PruneQuery) (history.Pruned, error)
	ClearChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (history.Cleared, error)
	ListFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, query history.FilesQuery) ([]history.File, error)
	ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query history.MessagesQuery) (history.MessagePage, error)
	ChangeMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, change history.MessageChange) (history.Message, error)
	DeleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error
	Search(ctx context.Context, user auth.Principal, query history.SearchQuery) ([]history.SearchResult, error)
	CountUsage(ctx context.Context, user auth.Principal) (history.Stats, error)
}

// Transfer is what the handlers need to take chats out and in.
type Transfer interface {
	Export(ctx context.Context, user auth.Principal, chatID uuid.UUID) (*transfer.Export, error)
	Import(ctx context.Context, user auth.Principal, body io.Reader, progress func(transfer.Progress)) (transfer.Result, error)
}

// Verifier tells who an Authorization header speaks for. Its refusals are *fault.Error.
type Verifier interface {
	Verify(ctx context.Context, authorizationHeader string) (auth.Principal, error)
}

var (
	_ Chat     = (*chat.Service)(nil)
	_ History  = (*history.Service)(nil)
	_ Transfer = (*transfer.Service)(nil)
	_ Verifier = (*auth.Verifier)(nil)
)

// Config of a Server. Chat, History, Transfer, Tools, Auth, Logger and Metrics are required.
type Config struct {
	Chat     Chat
	History  History
	Transfer Transfer
	Auth     Verifier
	Logger   *slog.Logger
	Metrics  *metrics.Metrics
	// Ready tells whether the server can do its work, with details for /readyz that may be shown to
	// anybody. It gets readyTimeout. Nil means always.
	Ready func(ctx context.Context) (details map[string]any, err error)
	// Version is shown at / and in the OpenAPI document.
	Version string
	// MessagesPerMinute is what one user may send, with a burst of the same size; 0 for no limit.
	MessagesPerMinute int
	// MaxStreamsPerUser limits a user's open streams and running replies together; 0 for no limit.
	MaxStreamsPerUser int
	// CORSOrigins are the web pages that may use the API from a browser, such as
	// "https://app.example.com"; "*" stands for all. Empty means none, which native apps do not mind.
	CORSOrigins []string
	// Tools answers at /mcp.
	Tools Tools
	// RiverUI is served at /river/ and below; nil for not at all. It looks after its own access.
	RiverUI http.Handler
	// PingInterval is the silence after which a stream gets a comment. Defaults to 15 s.
	PingInterval time.Duration
	// OpenTimeout is how long the model's first sign is waited for before the stream begins without
	// it; until then a failure can still be an HTTP status. Defaults to 15 s.
	OpenTimeout time.Duration
	// HeaderTimeout is how long a client may take to send the headers of a request. Defaults to 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout is how long it may take to send a body, four times that for one over 1 MiB; of an import each piece. Defaults to 30 s.
	BodyTimeout time.Duration
	// IdleTimeout is how long a connection is kept on which nothing happens. Defaults to 2 min.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may take to accept one event, or 64 KiB of any other answer.
	// Defaults to 10 s.
	WriteTimeout time.Duration
}

// Server holds the handlers. It has nothing to be closed; it is safe for concurrent use.
type Server struct {
	config   Config
	handler  http.Handler
	messages *rateLimiter
	streams  *streamLimiter
	large    *streamLimiter // of bodies
	openAPI  []byte
}

// New makes a server. It panics when the OpenAPI document cannot be made, which is a mistake in this
// package and not in the configuration.
func New(config Config) *Server {
	config.PingInterval = orDefault(config.PingInterval, 15*time.Second)
	config.OpenTimeout = orDefault(config.OpenTimeout, 15*time.Second)
	config.HeaderTimeout = orDefault(config.HeaderTimeout, 10*time.Second)
	config.BodyTimeout = orDefault(config.BodyTimeout, 30*time.Second)
	config.IdleTimeout = orDefault(config.IdleTimeout, 2*time.Minute)
	config.WriteTimeout = orDefault(config.WriteTimeout, 10*time.Second)
	s := &Server{
		config:   config,
		messages: newRateLimiter(config.MessagesPerMinute),
		streams:  newStreamLimiter(config.MaxStreamsPerUser),
		large:    newStreamLimiter(config.MaxStreamsPerUser),
		openAPI:  openAPIDocument(config.Version),
	}
	s.handler = s.routes()
	return s
}

func orDefault(value, otherwise time.Duration) time.Duration {
	if value == 0 {
		return otherwise
	}
	return value
}

// Handler gives the handler of all routes.
func (s *Server) Handler() http.Handler {
	return s.handler
}

func (s *Server) routes() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.writeError
	e.Use(s.observe, s.recoverPanic)
	if len(s.config.CORSOrigins) > 0 {
		e.Use(allowOrigins(s.config.CORSOrigins))
	}

	// No echo.Group: its middleware would turn 405 into 404.
	e.POST("/v1/message/first", s.postFirstMessage, s.authenticate, s.limitMessages, s.limitLarge)
	e.POST("/v1/message", s.postMessage, s.authenticate, s.limitMessages, s.limitLarge)
	e.GET("/v1/message/:chat_id/stream", s.getStream, s.authenticate, s.withoutBody)
	e.POST("/v1/message/:chat_id/cancel", s.postCancel, s.authenticate)

	e.POST("/v1/chats", s.postChat, s.authenticate)
	e.GET("/v1/chats", s.getChats, s.authenticate)
	e.POST("/v1/chats/import", s.postImport, s.authenticate)
	e.GET("/v1/chats/:chat_id/export", s.getExport, s.authenticate, s.withoutBody)
	e.POST("/v1/chats/prune", s.postPrune, s.authenticate)
	e.GET("/v1/chats/:chat_id", s.getChat, s.authenticate)
	e.PATCH("/v1/chats/:chat_id", s.patchChat, s.authenticate)
	e.DELETE("/v1/chats/:chat_id", s.deleteChat, s.authenticate)
	e.POST("/v1/chats/:chat_id/clear", s.postClear, s.authenticate)
	e.GET("/v1/chats/:chat_id/memory", s.getMemory, s.authenticate)
	e.GET("/v1/chats/:chat_id/files", s.getFiles, s.authenticate)
	e.GET("/v1/chats/:chat_id/messages", s.getMessages, s.authenticate)
	e.PATCH("/v1/messages/:message_id", s.patchMessage, s.authenticate)
	e.DELETE("/v1/messages/:message_id", s.deleteMessage, s.authenticate)
	e.GET("/v1/search", s.getSearch, s.authenticate)
	e.GET("/v1/stats", s.getStats, s.authenticate)

	// POST alone: without sessions there is nothing to listen to (GET) nor to end (DELETE), and clients know
	// what 405 means.
	e.POST(pathMCP, s.postMCP, s.authenticate, s.limitLarge)

	lookAt := []string{http.MethodGet, http.MethodHead}
	e.Match(lookAt, "/healthz", s.getHealth)
	e.Match(lookAt, "/readyz", s.getReadiness)
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(s.config.Metrics.Registry, promhttp.HandlerOpts{})))
	e.GET("/openapi.json", s.getOpenAPI)
	e.GET("/", s.getRoot)
	s.mountRiverUI(e)
	return e
}

func (s *Server) mountRiverUI(e *echo.Echo) {
	if s.config.RiverUI == nil {
		return
	}
	e.GET("/river", func(c echo.Context) error { return c.Redirect(http.StatusTemporaryRedirect, "/river/") })
	e.Any("/river/*", echo.WrapHandler(s.config.RiverUI))
}
