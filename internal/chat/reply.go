package chat

import (
	"context"
	"errors"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

// Reply is one reader of a reply. One goroutine uses it, and closes it.
type Reply struct {
	Started streaming.Started
	reader  *streaming.Reader
	release func() // called by Close; nil for nothing
}

// WaitOpen waits until the model accepts the call, and returns its failure when it does not. It does not wait for a
// reply that this reader did not start: the failure of that one is an event like any other.
func (r *Reply) WaitOpen(ctx context.Context) error {
	if r.Started.Resumed {
		return nil
	}
	end, err := r.reader.WaitOpen(ctx)
	if err != nil || end == nil || end.Failed == nil {
		return err
	}
	return r.fault(end.Failed)
}

// Next waits for more text of the reply or its end. The error is the context's, or streaming.ErrBroken when this server
// stops and the reply continues on another one.
func (r *Reply) Next(ctx context.Context) (streaming.Chunk, error) {
	return r.reader.Next(ctx)
}

// Whole is a reply in one piece.
type Whole struct {
	streaming.Completed
	Content string `json:"content"`
}

// Wait waits for the whole reply. A failed reply is a *fault.Error; a cancelled one has the finish reason "cancelled".
func (r *Reply) Wait(ctx context.Context) (Whole, error) {
	var text []byte
	for {
		chunk, err := r.Next(ctx)
		if errors.Is(err, streaming.ErrBroken) {
			return Whole{}, shuttingDown()
		}
		if err != nil {
			return Whole{}, err
		}
		text = append(text, chunk.Text...)
		if chunk.End != nil {
			return r.whole(string(text), chunk.End)
		}
	}
}

func (r *Reply) whole(content string, end *streaming.Terminal) (Whole, error) {
	switch {
	case end.Completed != nil:
		return Whole{Completed: *end.Completed, Content: content}, nil
	case end.Cancelled != nil:
		return Whole{Content: content, Completed: streaming.Completed{
			MessageID: r.Started.MessageID, ChatID: r.Started.ChatID, ModelVariant: r.Started.ModelVariant,
			FinishReason: "cancelled", ContentLength: end.Cancelled.ContentLength, Memory: []byte("null"),
		}}, nil
	default:
		return Whole{}, r.fault(end.Failed)
	}
}

func (r *Reply) fault(failed *streaming.Failed) error {
	return &fault.Error{Code: fault.Code(failed.Code), Message: failed.Message, RetryAfter: failed.RetryAfter, Details: map[string]any{
		"chat_id": r.Started.ChatID, "user_message_id": r.Started.UserMessageID, "message_id": r.Started.MessageID,
	}}
}

// Close ends the reading. The reply continues without this reader.
func (r *Reply) Close() {
	r.reader.Close()
	if r.release != nil {
		r.release()
	}
}
