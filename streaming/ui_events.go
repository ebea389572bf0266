package streaming

import (
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// uiEvent is any event of a UI message stream that is no text.
type uiEvent struct {
	Type         string     `json:"type"`
	MessageID    *uuid.UUID `json:"messageId,omitempty"`
	FinishReason string     `json:"finishReason,omitempty"`
	ErrorText    *string    `json:"errorText,omitempty"`
	Metadata     any        `json:"messageMetadata,omitempty"`
}

// The metadata of a UI message: what start says, to which a reader adds what the ending says. Status
// is that of the stored message, and "streaming" until the stream has told how the reply ended: a
// message that keeps it was cut off on the way.
type (
	uiStarted struct {
		Status string `json:"status"`
		Started
	}
	uiCompleted struct {
		Status string `json:"status"`
		*Completed
	}
	// An error event has room for a sentence alone; the code and whether to try again are told here.
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

// uiEnding gives the events for a terminal one. Readers stop at an error event and look at nothing
// after it, so that the metadata comes first.
func uiEnding(end *Terminal) []uiEvent {
	switch {
	case end.Completed != nil:
		return []uiEvent{{
			Type: "finish", FinishReason: uiFinishReason(end.Completed.FinishReason), Metadata: uiCompleted{"complete", end.Completed},
		}}
	case end.Cancelled != nil:
		return []uiEvent{uiMetadata(uiCancelled{"cancelled", end.Cancelled}), {Type: "abort"}}
	default:
		return []uiEvent{uiMetadata(uiFailed{uiFailure(end.Failed), end.Failed}), {Type: "error", ErrorText: &end.Failed.Message}}
	}
}

func uiMetadata(metadata any) uiEvent {
	return uiEvent{Type: "message-metadata", Metadata: metadata}
}

// uiFinishReason spells a finish reason as the protocol does, which refuses any other word.
func uiFinishReason(reason string) string {
	switch reason {
	case "stop", "length", "content_filter":
		return strings.ReplaceAll(reason, "_", "-")
	}
	return "other"
}

func uiFailure(failed *Failed) string {
	if failed.Code == string(fault.Interrupted) {
		return "interrupted"
	}
	return "failed"
}
