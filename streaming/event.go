// Package streaming carries one reply from the goroutine that writes it to the clients that read it: the
// events of the protocol, the relay between one writer and many readers, and the encodings as server-sent
// events (ours, and the AI SDK's). It knows nothing of HTTP handlers, models or Postgres.
package streaming

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// The names of a stream's events. None is error, open, close or message: the usual React Native client uses
// those itself.
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
	// MessageID is the assistant's message.
	MessageID    uuid.UUID `json:"message_id" description:"The assistant's message, which is being written."`
	ModelVariant string    `json:"model_variant" description:"The model variant that answers."`
	// Resumed reports that this reader did not start the reply.
	Resumed bool `json:"resumed" description:"Whether this reader did not start the reply."`
	// Offset is where this stream begins, in characters (Unicode code points) of the reply.
	Offset int `json:"offset" description:"Where this stream begins, in characters (Unicode code points) of the reply."`
}

// Delta is the next piece of a reply's text.
type Delta struct {
	MessageID uuid.UUID `json:"message_id"`
	// Offset counts the characters of the reply before this piece.
	Offset int    `json:"offset" description:"Characters of the reply before this piece."`
	Delta  string `json:"delta"`
}

// Usage is the tokens of one model call, as the model reported them.
type Usage struct {
	InputTokens int `json:"input_tokens"`
	// CachedTokens is the part of InputTokens that came from the provider's prompt cache.
	CachedTokens int `json:"cached_tokens" description:"Those of input_tokens that the provider had in its prompt cache."`
	OutputTokens int `json:"output_tokens"`
}

// Completed ends a stream whose reply is complete and stored.
type Completed struct {
	MessageID    uuid.UUID `json:"message_id"`
	ChatID       uuid.UUID `json:"chat_id"`
	FinishReason string    `json:"finish_reason" enum:"stop,length,content_filter"`
	ModelVariant string    `json:"model_variant"`
	Usage        Usage     `json:"usage"`
	// ContentLength counts the characters (Unicode code points) of the whole reply.
	ContentLength int `json:"content_length"`
	// Memory is the receipt: how much of the chat the model was shown, and in which form.
	Memory json.RawMessage `json:"memory" description:"The receipt; null for a reply that was stored without one."`
}

// Failed ends a stream whose reply failed. The text until then is stored.
type Failed struct {
	MessageID uuid.UUID `json:"message_id"`
	Code      string    `json:"code"`
	Message   string    `json:"message"`
	// Retryable reports whether sending the message again may succeed.
	Retryable bool `json:"retryable" description:"Whether sending the message again, as a new one, may succeed."`
	// ContentLength counts the characters that are stored. After a crash a client may have a few more.
	ContentLength int `json:"content_length" description:"Characters (Unicode code points) that are stored. After a crash a reader may have a few more."`
	// RetryAfter is for the header of a response that is not a stream; 0 if it is unknown.
	RetryAfter time.Duration `json:"-"`
}

// Cancelled ends a stream that the user stopped. The text until then is stored.
type Cancelled struct {
	MessageID     uuid.UUID `json:"message_id"`
	ContentLength int       `json:"content_length" description:"Characters (Unicode code points) that were said."`
}

// Terminal is the last event of a stream: exactly one of its fields is set.
type Terminal struct {
	Completed *Completed
	Failed    *Failed
	Cancelled *Cancelled
}

// Name returns the event's name on the wire.
func (t Terminal) Name() string {
	name, _ := t.event()
	return name
}

func (t Terminal) event() (name string, payload any) {
	switch {
	case t.Completed != nil:
		return EventCompleted, t.Completed
	case t.Cancelled != nil:
		return EventCancelled, t.Cancelled
	default:
		return EventFailed, t.Failed
	}
}
