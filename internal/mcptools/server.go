// Package mcptools offers the conversation as tools of the Model Context Protocol (https://modelcontextprotocol.io) to
// editors, desktop assistants and agents. The tools share threads. A thread is a chat like any other, so one tool knows
// the messages of another, on any replica.
//
// Server answers the requests that internal/httpapi passes on.
//
// The protocol's library stays within this package.
package mcptools

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
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
// message to the model, and before each question that may cost a call, of which one request may hold several. admit refuses it
// with a *fault.Error, or returns a function to call when its reply has ended.
func (s *Server) ServeMCP(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func(question bool) (release func(), err error)) {
	c := &caller{user: user, admit: admit, request: r.Context()}
	s.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
}

type caller struct {
	user  auth.Principal
	admit func(question bool) (release func(), err error)
	// request ends when the client goes away, which the library's own contexts do not.
	request context.Context //nolint:containedctx // the library passes it on as a value
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// Keys of log lines.
const (
	keyCode       = "code"
	keyDurationMS = "duration_ms"
	keyError      = "error"
	keyStack      = "stack"
	keyTool       = "tool"
	keyUserID     = "user_id"
)

const methodCallTool = "tools/call"

// answerCalls wraps each tool call: it cancels the call when the client leaves, rewrites failures for the client, and
// logs the call.
func (s *Server) answerCalls(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		call, ok := request.(*mcp.CallToolRequest)
		if method != methodCallTool || !ok {
			return next(ctx, method, request)
		}
		began := time.Now()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(callerOf(ctx).request, cancel)()
		result, err := s.recoverPanic(ctx, next, call)
		failure := rewriteFailure(result)
		if _, protocol := errors.AsType[*jsonrpc.Error](err); err != nil && !protocol {
			failure = failed(err) // such as a result of ours that does not match its schema
		} else if protocol {
			failure = err // such as a tool that does not exist
		}
		s.logCall(ctx, call, began, failure)
		return result, err
	}
}

// recoverPanic turns a tool's panic into an error; with the library alone it would end the process.
func (s *Server) recoverPanic(ctx context.Context, next mcp.MethodHandler, call *mcp.CallToolRequest) (result mcp.Result, err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		s.Logger.LogAttrs(ctx, slog.LevelError, "tool panicked", slog.String(keyTool, toolName(call)), slog.String(keyStack, string(debug.Stack())))
		failed := &mcp.CallToolResult{}
		failed.SetError(fault.Wrap(fault.Internal, "", fault.Panicked(cause)))
		result, err = failed, nil
	}()
	return next(ctx, methodCallTool, call)
}

// rewriteFailure replaces the text of a failed result by explain's, and returns the cause; nil for any other result.
func rewriteFailure(result mcp.Result) error {
	called, ok := result.(*mcp.CallToolResult)
	if !ok || called == nil || called.GetError() == nil {
		return nil
	}
	cause := called.GetError()
	called.Content = []mcp.Content{&mcp.TextContent{Text: explain(toFault(cause))}}
	return cause
}

// toFault returns the error to show. A plain error is the library's, about the arguments, and names the field; our own
// tools return only *fault.Error, see failed.
func toFault(err error) *fault.Error {
	known, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return fault.New(fault.ValidationFailed, "The arguments do not match the tool's schema: "+schemaProblem(err.Error()))
	}
	shown := *known
	if message, ok := toolMessages[known.Code]; ok {
		shown.Message = message
	}
	shown.Details = make(map[string]any, len(known.Details))
	for name, value := range known.Details {
		shown.Details[cmp.Or(argumentNames[name], name)] = value
	}
	return &shown
}

// What the library says of arguments quotes them and has Go's formats. Of it the argument, the rule and the rule's own words
// are told.
var (
	schemaRule  = regexp.MustCompile(`validating /properties/(\w+)(?:/[^:\s]*)?: (\w+): `)
	wrongNames  = regexp.MustCompile(`(missing|unexpected additional) properties \[?("\w{1,64}"(?: "\w{1,64}")*)\]?`)
	schemaLimit = regexp.MustCompile(` (?:than|equal to) (-?\d+)(?:\.0+)?$`)
	wantedType  = regexp.MustCompile(`want "(\w+)"$`)
)

func schemaProblem(said string) string {
	said = strings.ReplaceAll(said, "properties: ", "properties ")
	if names := wrongNames.FindStringSubmatch(said); names != nil {
		return names[1] + " " + strings.NewReplacer(`" "`, ", ", `"`, "").Replace(names[2]) + "."
	}
	found := schemaRule.FindStringSubmatch(said)
	if found == nil {
		return "they cannot be read."
	}
	for _, rule := range []*regexp.Regexp{schemaLimit, wantedType} {
		if limit := rule.FindStringSubmatch(said); limit != nil {
			return found[1] + " is wrong, " + found[2] + ": " + limit[1] + "."
		}
	}
	return found[1] + " is wrong: " + found[2] + "."
}

// Messages and field names that differ from the HTTP API's.
var (
	toolMessages = map[fault.Code]string{
		fault.ChatNotFound:         "There is no such thread. list_threads shows those there are.",
		fault.ChatExpired:          "The thread has expired. chat, debug or codereview with revive: true goes on in it.",
		fault.MemoryNotFound:       "There is no such memory. list_memories shows those there are.",
		fault.GenerationInProgress: "Another reply is being written in this thread. Try again when it has ended.",
		fault.ValidationFailed:     "Some arguments are missing or out of range.",
		fault.UnknownModelVariant:  "There is no such model_variant. Choose one of these, or leave it out.",
		fault.Internal:             "Something went wrong on the server's side. Try again; its log has the cause.",
	}
	argumentNames = map[string]string{"content": "prompt", "chat_id": "continuation_id", "q": "query"}
)

// failed wraps an error that may not be shown as fault.Internal.
func failed(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return fault.Wrap(fault.Internal, "", err)
}

// explain is the text of a failure: the code, a sentence, and a line for each detail.
func explain(failure *fault.Error) string {
	lines := []string{string(failure.Code) + ": " + failure.Message}
	for name, value := range failure.Details {
		lines = append(lines, name+": "+inWords(value))
	}
	if failure.RetryAfter > 0 {
		lines = append(lines, fmt.Sprintf("retry_after_seconds: %.0f", math.Ceil(failure.RetryAfter.Seconds())))
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// inWords writes a detail as JSON has it, but texts without quotation marks and lists with commas.
func inWords(value any) string {
	encoded, _ := json.Marshal(value) // HTTP answers with the same
	var decoded any
	_ = json.Unmarshal(encoded, &decoded)
	switch known := decoded.(type) {
	case string:
		return known
	case []any:
		var words []string
		for _, one := range known {
			words = append(words, inWords(one))
		}
		return strings.Join(words, ", ")
	}
	return string(encoded)
}

// logCall logs a call without its arguments and result.
func (s *Server) logCall(ctx context.Context, call *mcp.CallToolRequest, began time.Time, failure error) {
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String(keyTool, toolName(call)), slog.String(keyUserID, callerOf(ctx).user.UserID.String()),
		slog.Int64(keyDurationMS, time.Since(began).Milliseconds()),
	}
	if failure != nil {
		code := toFault(failure).Code
		attrs = append(attrs, slog.String(keyCode, string(code)))
		// Of a policy, only the cause names the rule that the app's owner wrote.
		if level = (map[fault.Code]slog.Level{fault.Internal: slog.LevelError, fault.ForbiddenByPolicy: slog.LevelWarn})[code]; level != slog.LevelInfo {
			attrs = append(attrs, slog.Any(keyError, failure))
		}
	}
	s.Logger.LogAttrs(ctx, level, "tool called", attrs...)
}

// toolName is the tool's name, or "unknown" for a name that a client made up.
func toolName(call *mcp.CallToolRequest) string {
	if described := describe(call.Params.Name, mcp.ToolAnnotations{}); described.Title == "" {
		return "unknown"
	}
	return call.Params.Name
}
