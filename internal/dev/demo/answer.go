package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
)

// answer is the reply to one message, with what it said and how long that took.
type answer struct {
	client.Reply
	text    strings.Builder
	receipt prompt.Receipt // of a whole reply
	// begun is when the message was sent, firstDelta how long the first words took; zero without any.
	begun      time.Time
	firstDelta time.Duration
}

// hear takes the next piece of the text.
func (a *answer) hear(piece string) {
	if a.text.Len() == 0 {
		a.firstDelta = time.Since(a.begun)
	}
	a.text.WriteString(piece)
}

// failure is why the reply is not whole; nil when it is.
func (a *answer) failure() *streaming.Failed {
	if a.End.Cancelled != nil {
		return &streaming.Failed{Code: "cancelled", Message: "Somebody stopped the reply."}
	}
	return a.End.Failed
}

// readReceipt reads what a whole reply remembered.
func (a *answer) readReceipt() error {
	if a.End.Completed == nil {
		return nil
	}
	if err := json.Unmarshal(a.End.Completed.Memory, &a.receipt); err != nil {
		return fmt.Errorf("the receipt cannot be read: %w", err)
	}
	return nil
}
