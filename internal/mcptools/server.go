// Package mcptools offers the conversation as tools of the Model Context Protocol (https://modelcontextprotocol.io) to
// editors, desktop assistants and agents. The tools share threads. A thread is a chat like any other, so one tool knows
// what another was told, on any replica.
//
// Server answers the requests that internal/httpapi passes on.
//
// The protocol's library stays within this package.
package mcptools

import (
	"cmp"
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
)

// Chat sends messages and reads replies.
type Chat interface {
	Send(ctx context.Context, user auth.Principal, message chat.Message) (*chat.Reply, error)
	Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *chat.Cursor) (*chat.Reply, error)
}

var _ Chat = (*chat.Service)(nil)

// Config of a Server. Chat, History, Memories, Graph, Recall and Logger are required.
type Config struct {
	Chat     Chat
	History  api.Store
	Memories api.Memories
	Graph    api.Graph
	Recall   api.Recall
	Logger   *slog.Logger
	// Version is shown to clients.
	Version string
	// BusyWait is how long a call waits for the end of another reply in its thread. Defaults to 30 s, half of the usual
	// timeout of clients.
	BusyWait time.Duration
	// ProgressInterval is the shortest time between two progress notifications. Defaults to 200 ms.
	ProgressInterval time.Duration
}

// Server holds the tools. It need not be closed and is safe for concurrent use.
type Server struct {
	Config
	handler http.Handler
}

var (
	//go:embed instructions/server.md
	serverInstructions string
	//go:embed instructions/tools.txt
	toolTexts string
)

// describe returns a tool as tools.txt describes it: its title stands beside the name, its description below.
func describe(name string, hints mcp.ToolAnnotations) *mcp.Tool {
	_, text, _ := strings.Cut(toolTexts, "["+name+"] ")
	text, _, _ = strings.Cut(text, "\n\n")
	title, description, _ := strings.Cut(text, "\n")
	description = strings.Join(strings.Fields(description), " ")
	return &mcp.Tool{Name: name, Title: title, Description: description, Annotations: &hints}
}

// New returns a server.
func New(config Config) *Server {
	config.BusyWait = cmp.Or(config.BusyWait, 30*time.Second)
	config.ProgressInterval = cmp.Or(config.ProgressInterval, 200*time.Millisecond)
	s := &Server{Config: config}
	tools := mcp.NewServer(&mcp.Implementation{Name: "throughline", Title: "Throughline", Version: config.Version}, &mcp.ServerOptions{
		Instructions: serverInstructions,
		// The tools never change while the server runs, so clients need not listen for changes.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	s.addModelTools(tools)
	s.addThreadTools(tools)
	s.addMemoryTools(tools)
	tools.AddReceivingMiddleware(s.answerCalls)
	s.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
		// Without sessions any replica answers any request, a restart ends nothing, and no session id could give one
		// user access to another's session: each request is authenticated by its own token.
		Stateless: true,
		// The caller of ServeMCP has bounded the body.
		MaxRequestBodyBytes: -1,
		// The library's check of the Host header would refuse a reverse proxy on the same machine. The caller of ServeMCP
		// checks the Origin, which tells a page by its name as well.
		DisableLocalhostProtection: true,
	})
	return s
}

// ServeMCP answers a request of the user, whose body is complete and of a bounded size. It calls admit before each
// message to the model, of which one request may hold several. admit refuses the message with a *fault.Error, or returns
// a function to call when its reply has ended.
func (s *Server) ServeMCP(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func() (release func(), err error)) {
	c := &caller{user: user, admit: admit, request: r.Context()}
	s.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
}

// caller is who a request acts for.
type caller struct {
	user  auth.Principal
	admit func() (release func(), err error)
	// request ends when the client goes away, which the library's own contexts do not.
	request context.Context //nolint:containedctx // the library passes it on as a value
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}
