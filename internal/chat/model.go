package chat

import (
	"context"

	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Model is the main model.
type Model interface {
	// Stream asks for a reply. It returns once the model has accepted the call, and may retry until then. An error is
	// a *fault.Error with an upstream code.
	Stream(ctx context.Context, request ModelRequest) (ModelStream, error)
}

// ModelRequest is one call of the main model.
type ModelRequest struct {
	Model        string
	Instructions string
	// Input is the whole prompt, as one message of the user's role.
	Input string
	// ChatID is the key of the provider's prompt cache.
	ChatID uuid.UUID
	// UserID is sent as a hash, for the provider's abuse detection.
	UserID uuid.UUID
}

// ModelStream is a streamed reply. Use it as: for s.Next() { s.Delta() }; s.Err(); s.Close().
type ModelStream interface {
	// Next waits for more text. It returns false at the end, whatever the reason.
	Next() bool
	// Delta returns the text of the last Next.
	Delta() string
	// Err returns nil only after the model's own terminal event; otherwise a *fault.Error.
	Err() error
	// Result is complete once Next has returned false and Err nil.
	Result() ModelResult
	Close() error
}

// ModelResult is what the model reports at the end of a reply.
type ModelResult struct {
	// Model is the exact model that answered.
	Model        string
	ResponseID   string
	FinishReason string // stop, length or content_filter
	Usage        streaming.Usage
}
