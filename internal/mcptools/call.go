package mcptools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/fault"
)

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

// answerCalls is around each call of a tool: the call ends when its client leaves, its failure is told to the
// client in our words, and it is logged.
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
		result, err := s.recovered(ctx, next, call)
		failure := tell(result)
		if _, protocol := errors.AsType[*jsonrpc.Error](err); err != nil && !protocol {
			failure = failed(err) // such as a result of ours that does not match its schema
		} else if protocol {
			failure = err // such as a tool that does not exist
		}
		s.account(ctx, call, began, failure)
		return result, err
	}
}

// recovered makes a tool's error of its panic, which the library would let end the process.
func (s *Server) recovered(ctx context.Context, next mcp.MethodHandler, call *mcp.CallToolRequest) (result mcp.Result, err error) {
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

// tell writes what went wrong into the result of a call that failed, and gives the cause.
func tell(result mcp.Result) error {
	called, ok := result.(*mcp.CallToolResult)
	if !ok || called == nil || called.GetError() == nil {
		return nil
	}
	cause := called.GetError()
	called.Content = []mcp.Content{&mcp.TextContent{Text: explain(toFault(cause))}}
	return cause
}

// toFault gives the error to be told. What the library finds wrong with the arguments is a plain error that
// names the field; our own tools give none but *fault.Error, see failed.
func toFault(err error) *fault.Error {
	known, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return fault.New(fault.ValidationFailed, "The arguments do not match the tool's schema: "+err.Error())
	}
	told := *known
	if message, ok := inWordsOfTools[known.Code]; ok {
		told.Message = message
	}
	told.Details = make(map[string]any, len(known.Details))
	for name, value := range known.Details {
		told.Details[cmp.Or(argumentNames[name], name)] = value
	}
	return &told
}

// What users of tools know by another name than those of the HTTP API.
var (
	inWordsOfTools = map[fault.Code]string{
		fault.ChatNotFound:         "There is no such thread.",
		fault.ChatExpired:          "The thread has expired.",
		fault.GenerationInProgress: "Another reply is being written in this thread. Try again when it has ended.",
		fault.ValidationFailed:     "Some arguments are missing or out of range.",
		fault.Internal:             "Something went wrong on the server's side.",
	}
	argumentNames = map[string]string{"content": "prompt", "chat_id": "continuation_id", "q": "query"}
)

// failed is a tool's error: one that nobody outside may be told about becomes an internal one.
func failed(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return fault.Wrap(fault.Internal, "", err)
}

// explain is a failure for a model and the person behind it: the code, a sentence, and a line for each
// further fact.
func explain(failure *fault.Error) string {
	lines := []string{string(failure.Code) + ": " + failure.Message}
	for name, value := range failure.Details {
		lines = append(lines, fmt.Sprintf("%s: %v", name, value))
	}
	if failure.RetryAfter > 0 {
		lines = append(lines, fmt.Sprintf("retry_after_seconds: %.0f", math.Ceil(failure.RetryAfter.Seconds())))
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// account logs a call. Its arguments and its result are nobody's business.
func (s *Server) account(ctx context.Context, call *mcp.CallToolRequest, began time.Time, failure error) {
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String(keyTool, toolName(call)), slog.String(keyUserID, callerOf(ctx).user.UserID.String()),
		slog.Int64(keyDurationMS, time.Since(began).Milliseconds()),
	}
	if failure != nil {
		code := toFault(failure).Code
		attrs = append(attrs, slog.String(keyCode, string(code)))
		if code == fault.Internal {
			level = slog.LevelError
			attrs = append(attrs, slog.Any(keyError, failure))
		}
	}
	s.Logger.LogAttrs(ctx, level, "tool called", attrs...)
}

// toolName is one of ours: a client may ask for any.
func toolName(call *mcp.CallToolRequest) string {
	if slices.Contains(toolNames, call.Params.Name) {
		return call.Params.Name
	}
	return "unknown"
}
