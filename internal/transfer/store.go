package transfer

import (
	"context"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
)

// Store is Postgres. Each call acts as the user and is one transaction.
type Store interface {
	Source
	// Import writes one chat or nothing of it: write is called when the chat is new, and what it does is undone
	// when it fails. Where the user has the chat already, under its own id or the new one, that is its id.
	Import(ctx context.Context, user auth.Principal, chat NewChat, write func(Rows) error) (chatID uuid.UUID, imported bool, err error)
}

// Source reads a chat in pages, each as long as the store sees fit; an empty one is the end. A chat that is gone
// is a fault.ChatNotFound, so that no export ends early without saying so.
type Source interface {
	// ExportChat gives the chat and the place of its last message; fault.ChatExpired for one that has expired.
	ExportChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat bundle.Chat, lastSeq int64, err error)
	// ExportMessages gives messages after one seq and up to another, without replies that are being written.
	ExportMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, after, last int64) ([]bundle.Message, error)
	// ExportFiles gives what messages up to last bring, after the content of a hash ("" for the first page).
	ExportFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, after string, last int64) ([]bundle.File, error)
	// ExportFile gives one content.
	ExportFile(ctx context.Context, user auth.Principal, chatID uuid.UUID, sha256 string) (bundle.File, error)
	// ExportRevisions gives the brief's changes after a version.
	ExportRevisions(ctx context.Context, user auth.Principal, chatID uuid.UUID, after int64) ([]bundle.Revision, error)
}

// Rows takes the rows of the chat that is being imported, some hundred at once.
type Rows interface {
	Files(files []bundle.File, tokens []int) error
	Messages(messages []NewMessage) error
}

// NewChat is a chat to be imported, with its dates.
type NewChat struct {
	bundle.Chat
	// ID is the one it gets. Original is its own in a bundle, uuid.Nil elsewhere.
	ID, Original uuid.UUID
}

// NewMessage is a message to be imported, with its dates. The ids beside it are those it gets, uuid.Nil for none.
type NewMessage struct {
	bundle.Message
	ID, ReplyTo, SupersededBy uuid.UUID
	Tokens                    int
}
