package chat

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// How a reply can fail on our side.
var (
	interrupted = Failure{Code: string(fault.Interrupted), Message: "The reply was interrupted. What was said so far is kept."}
	deleted     = Failure{Code: string(fault.MessageNotFound), Message: "The reply was deleted."}
	unstored    = Failure{Code: string(fault.NotReady), Message: "The reply could not be stored: the database was not available."}
)

// terminalOf is the event that the state of a stored reply calls for.
func terminalOf(stored StoredReply) streaming.Terminal {
	chars := utf8.RuneCountInString(stored.Content)
	switch stored.Status {
	case memory.StatusComplete:
		return completed(stored.ChatID, stored.MessageID, stored.Metadata, chars)
	case memory.StatusCancelled:
		return cancelled(stored.MessageID, chars)
	}
	failure := stored.Metadata.Failure
	if failure == nil {
		failure = &interrupted
	}
	return failed(stored.MessageID, *failure, chars)
}

func completed(chatID, messageID uuid.UUID, metadata ReplyMetadata, chars int) streaming.Terminal {
	done := &streaming.Completed{
		MessageID: messageID, ChatID: chatID, FinishReason: metadata.FinishReason,
		ModelVariant: metadata.ModelVariant, ContentLength: chars, Memory: json.RawMessage("null"),
	}
	if done.FinishReason == "" {
		done.FinishReason = "stop" // a row that reached messages by another way
	}
	if metadata.Usage != nil {
		done.Usage = *metadata.Usage
	}
	if receipt, err := json.Marshal(metadata.Memory); err == nil {
		done.Memory = receipt
	}
	return streaming.Terminal{Completed: done}
}

func cancelled(messageID uuid.UUID, chars int) streaming.Terminal {
	return streaming.Terminal{Cancelled: &streaming.Cancelled{MessageID: messageID, ContentLength: chars}}
}

func failed(messageID uuid.UUID, failure Failure, chars int) streaming.Terminal {
	return streaming.Terminal{Failed: &streaming.Failed{
		MessageID: messageID, Code: failure.Code, Message: failure.Message, Retryable: fault.Retryable(fault.Code(failure.Code)),
		ContentLength: chars, RetryAfter: failure.RetryAfter,
	}}
}

// statusOf is what a reply's row says after that event.
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
