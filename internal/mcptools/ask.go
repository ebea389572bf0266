package mcptools

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

// modelTool is a tool that sends a message to the model. These tools differ only in their texts.
type modelTool struct{ name, instructions string }

var (
	//go:embed instructions/chat.md
	chatInstructions string
	//go:embed instructions/debug.md
	debugInstructions string
	//go:embed instructions/codereview.md
	reviewInstructions string
)

var modelTools = []modelTool{{"chat", chatInstructions}, {"debug", debugInstructions}, {"codereview", reviewInstructions}}

const continues = " Returns a continuation_id: pass it to chat, debug or codereview to go on in the same thread, where what was said and " +
	"the files that were sent are known already."

func (s *Server) addModelTools(to *mcp.Server) {
	for _, tool := range modelTools {
		// The model may be anywhere.
		described := describe(tool.name, mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(true)})
		described.Description += continues
		mcp.AddTool(to, described, func(ctx context.Context, call *mcp.CallToolRequest, in askInput) (*mcp.CallToolResult, askOutput, error) {
			out, err := s.ask(ctx, call, tool, in)
			if err != nil {
				return nil, askOutput{}, failed(err)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.text()}}}, out, nil
		})
	}
}

type askInput struct {
	Prompt         string      `json:"prompt" jsonschema:"What to say: 1 to 32000 characters."`
	ContinuationID *string     `json:"continuation_id,omitempty" jsonschema:"The thread to go on with, as an earlier answer gave it. Without it a new one begins."`
	Revive         bool        `json:"revive,omitempty" jsonschema:"true goes on in a thread that has expired. Without it a new one begins in its place."`
	Files          []fileInput `json:"files,omitempty" jsonschema:"Text files of the prompt: at most 20 of 256 KiB each. The thread keeps them."`
	ModelVariant   *string     `json:"model_variant,omitempty" jsonschema:"Which of the server's model variants answers; by default the first one."`
}

type fileInput struct {
	Path    string `json:"path" jsonschema:"Where the file is, as the prompt speaks of it."`
	Content string `json:"content" jsonschema:"The file's whole text."`
}

type askOutput struct {
	ContinuationID string          `json:"continuation_id" jsonschema:"Pass it on to go on in this thread."`
	MessageID      string          `json:"message_id" jsonschema:"The reply's id."`
	StartedNew     bool            `json:"started_new" jsonschema:"Whether this call began the thread."`
	Note           string          `json:"note,omitempty" jsonschema:"What to know about the thread or the reply, such as that the thread asked for is gone."`
	Reply          string          `json:"reply"`
	FinishReason   string          `json:"finish_reason" jsonschema:"stop, length, content_filter, tool_calls or cancelled"`
	ModelVariant   string          `json:"model_variant"`
	Usage          streaming.Usage `json:"usage" jsonschema:"Tokens of this reply."`
	Memory         any             `json:"memory" jsonschema:"The receipt: what the reply remembered of the thread. Null for a reply that was cancelled."`
}

// text is the result for a model to read. Its last line is always the continuation id.
func (o askOutput) text() string {
	text := o.Reply + "\n\n---\n"
	if o.Note != "" {
		text += "note: " + o.Note + "\n"
	}
	return text + "continuation_id: " + o.ContinuationID
}

// ask sends a message to the model and reads the whole reply.
func (s *Server) ask(ctx context.Context, call *mcp.CallToolRequest, tool modelTool, in askInput) (askOutput, error) {
	release, err := callerOf(ctx).admit(false)
	if err != nil {
		return askOutput{}, err
	}
	defer release()
	reply, note, err := s.begin(ctx, in.message(tool, callerOf(ctx).user), in.ContinuationID)
	if err != nil {
		return askOutput{}, err
	}
	defer reply.Close()
	out := askOutput{
		ContinuationID: reply.Started.ChatID.String(), MessageID: reply.Started.MessageID.String(), ModelVariant: reply.Started.ModelVariant, Note: note,
		StartedNew: note != "" || given(in.ContinuationID) == "",
	}
	// The reply goes on without its client, and so does this call: it holds the user's slot until the reply has ended.
	err = s.read(context.WithoutCancel(ctx), reply, progressOf(call), &out)
	return out, err
}

// message is the message to the model. Its metadata name the program that wrote it: an OAuth client, or this protocol.
func (in askInput) message(tool modelTool, user auth.Principal) chat.Message {
	message := chat.Message{
		Content: in.Prompt, Variant: given(in.ModelVariant), Revive: in.Revive, ToolName: tool.name, ToolInstructions: tool.instructions,
	}
	message.Metadata = map[string]any{chat.ClientID: cmp.Or(user.ClientID, "mcp")}
	for _, file := range in.Files {
		message.Files = append(message.Files, memory.File{Path: file.Path, Content: file.Content})
	}
	return message
}

// given is an optional argument; models like to send an empty one for none.
func given(argument *string) string {
	return strings.TrimSpace(deref(argument))
}

// Notes for a call whose thread cannot be continued, by the code of the error, and for one whose reply is incomplete, by
// its finish reason. Another user's thread is unknown.
const noteMalformed = "The continuation_id is not the id of a thread, so a new thread was started: nothing that was said before is known in it."

var (
	threadNotes = map[fault.Code]string{
		fault.ChatNotFound: "There is no thread with this continuation_id, so a new one was started: nothing that was said before is known in it.",
		fault.ChatExpired: "The thread with this continuation_id has expired, so a new one was started: nothing that was said before is known in it. " +
			"To go on in the old one, send its continuation_id again with revive: true.",
	}
	replyNotes = map[string]string{
		"cancelled":      "The reply was stopped before its end.",
		"length":         "The reply was cut off at the model's limit of length.",
		"content_filter": "The provider's filter cut the reply off.",
	}
)

// begin sends the message to its thread, or to a new one with a note when there is none to continue.
func (s *Server) begin(ctx context.Context, message chat.Message, continuation *string) (*chat.Reply, string, error) {
	thread := given(continuation)
	if thread == "" {
		reply, err := s.send(ctx, message)
		return reply, "", err
	}
	note := noteMalformed
	if id, err := parseThread(thread); err == nil && id != uuid.Nil { // chat starts a new chat for uuid.Nil
		message.ChatID = id
		reply, err := s.send(ctx, message)
		if note = threadNotes[fault.CodeOf(err)]; note == "" {
			return reply, "", err
		}
		message.ChatID = uuid.Nil
	}
	reply, err := s.send(ctx, message)
	return reply, note, err
}

// busyPause is the wait between two attempts to send to a busy thread when there is no reply to wait for: it has just
// ended, or its lease is about to expire.
const busyPause = 100 * time.Millisecond

// send sends the message. While another reply is being written in the thread, it waits up to BusyWait for its end.
func (s *Server) send(ctx context.Context, message chat.Message) (*chat.Reply, error) {
	waiting, cancel := context.WithTimeout(ctx, s.BusyWait)
	defer cancel()
	for {
		if ctx.Err() != nil { // the client is gone, and nothing was sent yet
			return nil, fault.Wrap(fault.Interrupted, "The call was given up before the message was sent.", ctx.Err())
		}
		reply, err := s.Chat.Send(ctx, callerOf(ctx).user, message)
		if fault.CodeOf(err) != fault.GenerationInProgress || waiting.Err() != nil {
			return reply, err
		}
		s.awaitRunning(waiting, message.ChatID)
	}
}

// awaitRunning waits for the end of the reply that a thread is busy with, however it ends; the next attempt to send
// shows the result.
func (s *Server) awaitRunning(ctx context.Context, chatID uuid.UUID) {
	running, err := s.Chat.Resume(ctx, callerOf(ctx).user, chatID, nil)
	if err == nil {
		defer running.Close()
		_, err = running.Wait(ctx)
	}
	if err == nil {
		return
	}
	select {
	case <-time.After(busyPause):
	case <-ctx.Done():
	}
}

func (s *Server) read(ctx context.Context, reply *chat.Reply, notify func(context.Context, streaming.Chunk), out *askOutput) error {
	var text strings.Builder
	for {
		chunk, err := reply.Next(ctx)
		if err != nil {
			return replyFailed(out, fault.ShuttingDown, "The server is restarting. The reply is stored when it is whole: get_thread shows it.", 0)
		}
		text.Write(chunk.Text)
		notify(ctx, chunk)
		if chunk.End != nil {
			out.Reply = text.String()
			return out.end(*chunk.End)
		}
	}
}

func (o *askOutput) end(end streaming.Terminal) error {
	switch {
	case end.Completed != nil:
		o.FinishReason, o.Usage, o.Memory = end.Completed.FinishReason, end.Completed.Usage, end.Completed.Memory
	case end.Awaiting != nil:
		o.FinishReason = "tool_calls"
		o.Note = strings.TrimSpace(o.Note + " " + waitsFor(end.Awaiting.Open))
	case end.Cancelled != nil:
		o.FinishReason = "cancelled"
	default:
		return replyFailed(o, fault.Code(end.Failed.Code), end.Failed.Message+" The prompt is stored: go on with this continuation_id, and do not send "+
			"it again.", end.Failed.RetryAfter)
	}
	o.Note = strings.TrimSpace(o.Note + " " + replyNotes[o.FinishReason])
	return nil
}

// waitsFor tells of calls that only the user's app can answer: a program that uses these tools has no part in them.
func waitsFor(open []streaming.OpenCall) string {
	names := make([]string, len(open))
	for i, call := range open {
		names[i] = call.Name
	}
	return "The reply waits for the user, who answers these calls in the app: " + strings.Join(names, ", ") + ". Another prompt goes on without them."
}

// replyFailed is the error of a failed reply. It has the thread's id, because the thread holds the prompt all the same.
func replyFailed(o *askOutput, code fault.Code, message string, retryAfter time.Duration) error {
	details := map[string]any{"continuation_id": o.ContinuationID, "message_id": o.MessageID}
	if o.Note != "" {
		details["note"] = o.Note
	}
	return &fault.Error{Code: code, Message: message, Details: details, RetryAfter: retryAfter}
}

// progressInterval is the shortest time between two progress notifications.
const progressInterval = 200 * time.Millisecond

// progressOf returns what notifies a client that asked for it of the length of a reply while that is written, but not of
// each piece. The end is in the result.
func progressOf(call *mcp.CallToolRequest) func(ctx context.Context, chunk streaming.Chunk) {
	token := call.Params.GetProgressToken()
	var notified time.Time
	return func(ctx context.Context, chunk streaming.Chunk) {
		if token == nil || chunk.End != nil || time.Since(notified) < progressInterval {
			return
		}
		notified = time.Now()
		chars := chunk.Offset + utf8.RuneCount(chunk.Text)
		err := call.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(chars), Message: fmt.Sprintf("%d characters", chars),
		})
		if err != nil {
			token = nil // the client is gone
		}
	}
}
