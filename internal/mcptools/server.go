// Package mcptools gives programs (editors, desktop assistants, agents) the conversation as tools of the
// Model Context Protocol: https://modelcontextprotocol.io. The tools share threads, and a thread is a chat
// like any other, so what one tool was told the next one knows, on any replica.
//
// Server answers the requests that internal/httpapi lets through. Bridge is the other end of the same wire:
// it gives the tools of a running server to a program that talks to its tools over stdin and stdout. So
// there is one implementation of each tool.
//
// The protocol's library stays within this package.
package mcptools

import (
	"cmp"
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
)

// Chat is what the tools need of the conversation.
type Chat interface {
	Send(ctx context.Context, user auth.Principal, message chat.Message) (*chat.Reply, error)
	Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *chat.Cursor) (*chat.Reply, error)
}

var _ Chat = (*chat.Service)(nil)

// Config of a Server. Chat, History and Logger are required.
type Config struct {
	Chat    Chat
	History History
	Logger  *slog.Logger
	// Version is told to clients.
	Version string
	// BusyWait is how long a call waits for the end of a reply that its thread is busy with. Defaults to 30 s,
	// half of what usual clients wait for a tool.
	BusyWait time.Duration
	// ProgressInterval is the shortest time between two notifications of progress. Defaults to 200 ms.
	ProgressInterval time.Duration
}

// Server holds the tools. It has nothing to be closed; it is safe for concurrent use.
type Server struct {
	Config
	handler http.Handler
}

//go:embed instructions/server.md
var serverInstructions string

// New makes a server.
func New(config Config) *Server {
	config.BusyWait = cmp.Or(config.BusyWait, 30*time.Second)
	config.ProgressInterval = cmp.Or(config.ProgressInterval, 200*time.Millisecond)
	s := &Server{Config: config}
	tools := mcp.NewServer(&mcp.Implementation{Name: "throughline", Title: "Throughline", Version: config.Version}, &mcp.ServerOptions{
		Instructions: serverInstructions,
		// The tools never change while the server runs, so nobody need wait to hear of it.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	s.addModelTools(tools)
	s.addThreadTools(tools)
	tools.AddReceivingMiddleware(s.answerCalls)
	s.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
		// Without sessions any replica answers any request, a restart ends nothing, and there is no session
		// id by which one user could get into what another one began: who asks is what the request's own
		// token says.
		Stateless: true,
		// Whoever calls ServeMCP has bounded the body.
		MaxRequestBodyBytes: -1,
		// The check of the Host header keeps web pages from servers on their reader's machine that need no
		// token. This one needs one that no such page has, and the check would refuse a reverse proxy.
		DisableLocalhostProtection: true,
	})
	return s
}

// ServeMCP answers a request of the user, whose body is complete and of a bounded size. admit is called
// before each message to the model, of which one request may hold several: it refuses the message with a
// *fault.Error, or gives what to call when its reply has ended.
func (s *Server) ServeMCP(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func() (leave func(), err error)) {
	c := &caller{user: user, admit: admit, request: r.Context()}
	s.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
}

// caller is who a request acts for.
type caller struct {
	user  auth.Principal
	admit func() (leave func(), err error)
	// request ends when the client goes away, which the library's own contexts do not.
	request context.Context //nolint:containedctx // it is handed on through the library as a value
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}
