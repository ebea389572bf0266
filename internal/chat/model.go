package chat

import (
	"context"

	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Model is the main model.
type Model interface {
	// Stream asks for a reply. It returns once the model accepted the call; until then it may try
	// again. A refusal is a *fault.Error with an upstream code.
	Stream(ctx context.Context, request ModelRequest) (ModelStream, error)
}

// ModelRequest is one call of the main model.
type ModelRequest struct {
	Model        string
	Instructions string
	// Input is the whole prompt, one input of the user's role.
	Input string
	// ChatID keys the provider's prompt cache.
	ChatID uuid.UUID
	// UserID is sent as a hash, for the provider's abuse detection.
	UserID uuid.UUID
}

// ModelStream is a reply while it comes. Used as: for s.Next() { s.Delta() }; s.Err(); s.Close().
type ModelStream interface {
	// Next waits for more text; false at the end, whatever the reason.
	Next() bool
	// Delta is the text that the last Next brought.
	Delta() string
	// Err is nil only after the model's own terminal event; otherwise a *fault.Error.
	Err() error
	// Result is complete once Next returned false and Err is nil.
	Result() ModelResult
	Close() error
}

// ModelResult is what the model reported at the end.
type ModelResult struct {
	// Model is the exact model that answered.
	Model        string
	ResponseID   string
	FinishReason string // stop, length or content_filter
	Usage        streaming.Usage
}
