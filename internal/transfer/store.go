package transfer

import (
	"context"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/memory"
)

// Store is Postgres. Each call acts as the user and is one transaction. It reads a chat in pages of any length; an empty
// page is the end. When the chat has been deleted meanwhile, it returns fault.ChatNotFound, so that no export ends early
// unnoticed.
type Store interface {
	// Import writes one chat or nothing of it. It calls write when the chat is new and rolls back when that fails. When
	// the user already has the chat, under its original id or the new one, it returns that id and false.
	Import(ctx context.Context, user auth.Principal, chat NewChat, write func(Rows) error) (chatID uuid.UUID, imported bool, err error)
	// ExportChat returns the chat and the seq of its last message, or fault.ChatExpired.
	ExportChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat bundle.Chat, lastSeq int64, err error)
	// ExportMessages returns messages after one seq and up to another, without running replies.
	ExportMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, after, last int64) ([]bundle.Message, error)
	// ExportFiles returns the contents that messages up to last bring, after that of a hash ("" for the first page).
	ExportFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, after string, last int64) ([]bundle.File, error)
	// ExportFile returns one content.
	ExportFile(ctx context.Context, user auth.Principal, chatID uuid.UUID, sha256 string) (bundle.File, error)
	// ExportMemories returns what was remembered of messages up to last, after a memory (nil for the first page), with its
	// sources in the chat.
	ExportMemories(ctx context.Context, user auth.Principal, chatID uuid.UUID, after *bundle.Memory, last int64) ([]bundle.Memory, error)
	// ExportRevisions returns the brief's changes after a version.
	ExportRevisions(ctx context.Context, user auth.Principal, chatID uuid.UUID, after int64) ([]bundle.Revision, error)
}

// Rows writes the rows of the chat that is being imported, some hundred at once.
type Rows interface {
	Files(files []bundle.File, tokens []int) error
	Messages(messages []NewMessage) error
	// Memories come after the messages that they were said in. What is remembered in these words already gets the sources.
	Memories(memories []NewMemory) error
}

// NewChat is a chat to be imported, with its dates.
type NewChat struct {
	bundle.Chat
	// ID is its new id. Original is its own id in a bundle, uuid.Nil in other formats.
	ID, Original uuid.UUID
}

func (c *NewChat) setDefaults(defaults memory.ChatDefaults) {
	defaults = defaults.For("")
	c.MemoryStrategy = string(defaults.Strategy)
	if defaults.TTLHours > 0 {
		c.TTLHours = &defaults.TTLHours
	}
	if defaults.MaxTurns > 0 {
		c.MaxTurns = &defaults.MaxTurns
	}
}

// NewMemory is a memory to be imported. ID is the new one, those of its sources are the new ids of messages.
type NewMemory struct {
	bundle.Memory
	ID uuid.UUID
}

// NewMessage is a message to be imported, with its dates. ID, ReplyTo and SupersededBy are the new ids, uuid.Nil for none.
type NewMessage struct {
	bundle.Message
	ID, ReplyTo, SupersededBy uuid.UUID
	Tokens                    int
}
