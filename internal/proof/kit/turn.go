package kit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/postgres"
)

// ErrRunning is the error of a turn in a chat whose reply is still being generated.
var ErrRunning = errors.New("a reply is running in this chat")

// StartTurn starts a turn in the server's store and returns the reply's id, and how long the store took.
func StartTurn(ctx context.Context, turns *postgres.Turns, owner auth.Principal, chatID uuid.UUID, content string) (reply uuid.UUID, took time.Duration, err error) {
	turn := chat.NewTurn{
		ChatID: chatID, UserMessageID: NewID(), MessageID: NewID(), Content: content, ContentTokens: tokensOf(content),
		ClientMessageID: NewID(), Variant: "arco", Lease: 15 * time.Second, SystemPromptRoom: 1 << 20,
	}
	began := time.Now()
	started, err := turns.StartTurn(ctx, owner, turn)
	took = time.Since(began)
	switch {
	case err != nil:
	case started.Running != uuid.Nil:
		err = ErrRunning
	case !started.Started || len(started.Buffer) == 0:
		err = errors.New("the turn did not start, or found no memory")
	}
	return turn.MessageID, took, err
}

// SaveReply saves a turn's reply in the server's store, and returns how long the store took.
func SaveReply(ctx context.Context, turns *postgres.Turns, owner auth.Principal, chatID, reply uuid.UUID, content string) (took time.Duration, err error) {
	finished := chat.FinishedReply{
		ChatID: chatID, MessageID: reply, Status: memory.StatusComplete, Content: content, Tokens: tokensOf(content),
		Metadata: chat.ReplyMetadata{ModelVariant: "arco", Memory: &prompt.Receipt{TailTurns: 3}},
	}
	began := time.Now()
	saved, err := turns.SaveReply(ctx, owner, finished)
	took = time.Since(began)
	if err == nil && !saved {
		err = errors.New("the reply was not saved")
	}
	return took, err
}

// counted has the token counts of the texts that were sent: there are few of them, and counting is not measured.
var counted sync.Map

func tokensOf(content string) int {
	if tokens, ok := counted.Load(content); ok {
		return tokens.(int)
	}
	tokens := text.Tokens(content)
	counted.Store(content, tokens)
	return tokens
}
