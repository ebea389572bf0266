package chat

import (
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// The failures of a reply that are not the model's.
var (
	interrupted = Failure{Code: string(fault.Interrupted), Message: "The reply was interrupted. What was said so far is kept."}
	deleted     = Failure{Code: string(fault.MessageNotFound), Message: "The reply was deleted."}
	notAllowed  = Failure{Code: string(fault.ForbiddenByPolicy), Message: "The reply was not stored: the app's own rules do not allow it."}
	notStored   = Failure{Code: string(fault.NotReady), Message: "The reply could not be stored: the database was not available."}
)

// terminalOf returns the terminal event of a reply that has ended.
func terminalOf(stored StoredReply) streaming.Terminal {
	chars := utf8.RuneCountInString(stored.Content)
	switch stored.Status {
	case memory.StatusComplete:
		return completed(stored, chars)
	case memory.StatusCancelled:
		return streaming.Terminal{Cancelled: &streaming.Cancelled{MessageID: stored.MessageID, ContentLength: chars}}
	}
	failure := stored.Metadata.Failure
	if failure == nil {
		failure = &interrupted
	}
	return failed(stored.MessageID, *failure, chars)
}

// terminal returns the terminal event of the reply once it is stored.
func (r *FinishedReply) terminal() streaming.Terminal {
	return terminalOf(StoredReply{ChatID: r.ChatID, MessageID: r.MessageID, Status: r.Status, Content: r.Content, Metadata: r.Metadata})
}

func completed(stored StoredReply, chars int) streaming.Terminal {
	metadata := stored.Metadata
	done := &streaming.Completed{
		MessageID: stored.MessageID, ChatID: stored.ChatID,
		FinishReason: cmp.Or(metadata.FinishReason, "stop"), // rows that another program wrote have none
		ModelVariant: metadata.ModelVariant, ContentLength: chars, Memory: json.RawMessage("null"),
	}
	if metadata.Usage != nil {
		done.Usage = *metadata.Usage
	}
	if receipt, err := json.Marshal(metadata.Memory); err == nil {
		done.Memory = receipt
	}
	return streaming.Terminal{Completed: done}
}

func failed(messageID uuid.UUID, failure Failure, chars int) streaming.Terminal {
	return streaming.Terminal{Failed: &streaming.Failed{
		MessageID: messageID, Code: failure.Code, Message: failure.Message, Retryable: fault.Retryable(fault.Code(failure.Code)),
		ContentLength: chars, RetryAfter: failure.RetryAfter,
	}}
}

// statusOf returns the status of a reply with that terminal event.
func statusOf(end streaming.Terminal) memory.Status {
	switch {
	case end.Completed != nil:
		return memory.StatusComplete
	case end.Cancelled != nil:
		return memory.StatusCancelled
	case end.Failed.Code == interrupted.Code:
		return memory.StatusInterrupted
	}
	return memory.StatusFailed
}
