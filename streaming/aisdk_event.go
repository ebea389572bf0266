package streaming

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// uiEvent is an event of a UI message stream, other than its text and steps. A pointer is a string that clients require even
// when it is empty.
type uiEvent struct {
	Type      string     `json:"type"`
	MessageID *uuid.UUID `json:"messageId,omitempty"`

	ID    string  `json:"id,omitempty"`
	Delta *string `json:"delta,omitempty"`

	ApprovalID       string          `json:"approvalId,omitempty"`
	ToolCallID       string          `json:"toolCallId,omitempty"`
	ToolName         string          `json:"toolName,omitempty"`
	InputTextDelta   *string         `json:"inputTextDelta,omitempty"`
	Input            json.RawMessage `json:"input,omitempty"`
	Output           json.RawMessage `json:"output,omitempty"`
	ProviderExecuted bool            `json:"providerExecuted,omitempty"`
	Dynamic          bool            `json:"dynamic,omitempty"`

	SourceID string  `json:"sourceId,omitempty"`
	URL      *string `json:"url,omitempty"`
	Title    string  `json:"title,omitempty"`

	FinishReason string  `json:"finishReason,omitempty"`
	ErrorText    *string `json:"errorText,omitempty"`
	Metadata     any     `json:"messageMetadata,omitempty"`
}

// uiPart returns the protocol's events for a part. An approval has none: version 6 of the SDK takes tool-approval-response
// for a broken stream, and the app that approved knows it.
func uiPart(chunk Chunk) []uiEvent {
	part := chunk.Part
	switch part.Type {
	case memory.PartReasoning:
		id := "reasoning-" + strconv.Itoa(chunk.Index)
		return []uiEvent{{Type: "reasoning-start", ID: id}, {Type: "reasoning-delta", ID: id, Delta: &part.Text}, {Type: "reasoning-end", ID: id}}
	case memory.PartCall:
		return uiCall(part, chunk.Answer)
	case memory.PartResult:
		return []uiEvent{uiResult(part)}
	case memory.PartSource:
		return []uiEvent{{Type: "source-url", SourceID: "source-" + strconv.Itoa(chunk.Index), URL: &part.URL, Title: part.Title}}
	}
	return nil
}

// uiCall returns the events of a call. Tools are dynamic, which an app need not declare to its chat. "Executed by the
// provider" means: not by the app.
//
// An app runs its own tool when a call's input is "available", so of a call that has its result the input is left
// "streaming", whole, until the result follows. Only an open call asks for approval, and a denied one, because its state
// in a UI message names the approval.
func uiCall(call, answer *memory.Part) []uiEvent {
	start := uiEvent{
		Type: "tool-input-start", ToolCallID: call.CallID, ToolName: call.Name, ProviderExecuted: call.Run == memory.RunServer, Dynamic: true,
	}
	if answer != nil && call.Run == memory.RunClient {
		arguments := string(call.Arguments)
		return []uiEvent{start, {Type: "tool-input-delta", ToolCallID: call.CallID, InputTextDelta: &arguments}}
	}
	available := start
	available.Type, available.Input = "tool-input-available", call.Arguments
	events := []uiEvent{start, available}
	if isTrue(call.Approval) && (answer == nil || answer.Type == memory.PartApproval && !isTrue(answer.Approved)) {
		events = append(events, uiEvent{Type: "tool-approval-request", ApprovalID: call.CallID, ToolCallID: call.CallID})
	}
	return events
}

func isTrue(b *bool) bool { return b != nil && *b }

func uiResult(result *memory.Part) uiEvent {
	switch result.Status {
	case memory.ResultDone:
		return uiEvent{Type: "tool-output-available", ToolCallID: result.CallID, Output: result.Output, Dynamic: true}
	case memory.ResultDenied:
		return uiEvent{Type: "tool-output-denied", ToolCallID: result.CallID}
	}
	text := uiErrorText(result)
	return uiEvent{Type: "tool-output-error", ToolCallID: result.CallID, ErrorText: &text, Dynamic: true}
}

// uiErrorText says why a call has no output: in the tool's words if it failed and has some.
func uiErrorText(result *memory.Part) string {
	switch result.Status {
	case memory.ResultExpired:
		return "The call was not answered in time."
	case memory.ResultSkipped:
		return "The conversation went on without the call."
	}
	var output struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(result.Output, &output); err != nil || output.Error == "" {
		return string(result.Output)
	}
	return output.Error
}

// The metadata of a UI message. Clients merge that of the ending into that of the start. Status is
// "streaming" until the ending replaces it with the stored message's status: a message that still has
// "streaming" after its stream was cut off on the way.
type (
	uiStarted struct {
		Status string `json:"status"`
		Started
	}
	uiCompleted struct {
		Status string `json:"status"`
		*Completed
	}
	uiAwaiting struct {
		Status string `json:"status"`
		*Awaiting
	}
	uiFailed struct {
		Status string `json:"status"`
		*Failed
	}
	uiCancelled struct {
		Status string `json:"status"`
		*Cancelled
	}
)

func uiStart(started Started) uiEvent {
	return uiEvent{Type: "start", MessageID: &started.MessageID, Metadata: uiStarted{"streaming", started}}
}

// uiEnding returns the protocol's events for a terminal one. Clients ignore everything after an error event,
// which itself has room for a sentence only, so the metadata comes first.
func uiEnding(end *Terminal) []uiEvent {
	const metadata = "message-metadata"
	switch {
	case end.Completed != nil:
		reason := uiFinishReason(end.Completed.FinishReason)
		return []uiEvent{{Type: "finish", FinishReason: reason, Metadata: uiCompleted{"complete", end.Completed}}}
	case end.Awaiting != nil:
		return []uiEvent{{Type: "finish", FinishReason: "tool-calls", Metadata: uiAwaiting{"awaiting", end.Awaiting}}}
	case end.Cancelled != nil:
		return []uiEvent{
			{Type: metadata, Metadata: uiCancelled{"cancelled", end.Cancelled}},
			{Type: "abort"},
		}
	default:
		return []uiEvent{
			{Type: metadata, Metadata: uiFailed{uiFailedStatus(end.Failed), end.Failed}},
			{Type: "error", ErrorText: &end.Failed.Message},
		}
	}
}

// uiFinishReason spells a finish reason as the protocol does. Clients refuse any other word.
func uiFinishReason(reason string) string {
	switch reason {
	case "stop", "length", "content_filter":
		return strings.ReplaceAll(reason, "_", "-")
	}
	return "other"
}

func uiFailedStatus(failed *Failed) string {
	if failed.Code == string(fault.Interrupted) {
		return "interrupted"
	}
	return "failed"
}
