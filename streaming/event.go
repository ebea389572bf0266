// Package streaming carries one reply from the goroutine that writes it to the clients that read it:
// the events of the protocol, the relay between one writer and many readers, and the encoding as
// server-sent events. It knows nothing of HTTP handlers, models or Postgres.
package streaming

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// The events of a stream. None is called error, open, close or message: the usual React Native
// client keeps those names for itself.
const (
	EventStarted   = "message.started"
	EventDelta     = "content.delta"
	EventCompleted = "completion"
	EventFailed    = "message.failed"
	EventCancelled = "message.cancelled"
)

// Started is the first event of every stream.
type Started struct {
	ChatID        uuid.UUID `json:"chat_id"`
	UserMessageID uuid.UUID `json:"user_message_id"`
	// MessageID is the assistant's message: the one that is being written.
	MessageID    uuid.UUID `json:"message_id"`
	ModelVariant string    `json:"model_variant"`
	// Resumed tells that this reader did not start the reply.
	Resumed bool `json:"resumed"`
	// Offset is where this stream begins, in characters (Unicode code points) of the reply.
	Offset int `json:"offset"`
}

// Delta is the next piece of a reply's text.
type Delta struct {
	MessageID uuid.UUID `json:"message_id"`
	// Offset counts the characters of the reply before this piece.
	Offset int    `json:"offset"`
	Delta  string `json:"delta"`
}

// Usage counts the tokens of one model call as the model reported them.
type Usage struct {
	InputTokens int `json:"input_tokens"`
	// CachedTokens are those of InputTokens that the provider had in its prompt cache.
	CachedTokens int `json:"cached_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// Completed ends a stream whose reply is whole and stored.
type Completed struct {
	MessageID    uuid.UUID `json:"message_id"`
	ChatID       uuid.UUID `json:"chat_id"`
	FinishReason string    `json:"finish_reason" enum:"stop,length,content_filter"`
	ModelVariant string    `json:"model_variant"`
	Usage        Usage     `json:"usage"`
	// ContentLength counts the characters (Unicode code points) of the whole reply.
	ContentLength int `json:"content_length"`
	// Memory is the receipt: what the reply remembered.
	Memory json.RawMessage `json:"memory"`
}

// Failed ends a stream whose reply broke off. What was said until then is stored.
type Failed struct {
	MessageID uuid.UUID `json:"message_id"`
	Code      string    `json:"code"`
	Message   string    `json:"message"`
	// Retryable tells whether sending the message again may succeed.
	Retryable bool `json:"retryable"`
	// ContentLength counts the characters that are stored. After a crash a reader may have a few more.
	ContentLength int `json:"content_length"`
	// RetryAfter goes into the header of an answer that is no stream; 0 where nothing is known.
	RetryAfter time.Duration `json:"-"`
}

// Cancelled ends a stream that somebody stopped. What was said until then is stored.
type Cancelled struct {
	MessageID     uuid.UUID `json:"message_id"`
	ContentLength int       `json:"content_length"`
}

// Terminal is the last event of a stream: exactly one of its fields is set.
type Terminal struct {
	Completed *Completed
	Failed    *Failed
	Cancelled *Cancelled
}

// Name is the event's name on the wire.
func (t Terminal) Name() string {
	switch {
	case t.Completed != nil:
		return EventCompleted
	case t.Cancelled != nil:
		return EventCancelled
	default:
		return EventFailed
	}
}

func (t Terminal) payload() any {
	switch {
	case t.Completed != nil:
		return t.Completed
	case t.Cancelled != nil:
		return t.Cancelled
	default:
		return t.Failed
	}
}
