package transfer

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/memory"
)

// Store is Postgres. Each call acts as the user and is one transaction.
type Store interface {
	Pages
	// Snapshot calls read with everything of the user as it is at this moment, whatever is written meanwhile. When something
	// has been changed or deleted by the end, it returns fault.NotReady.
	Snapshot(ctx context.Context, user auth.Principal, read func(Snapshot) error) error
	// ImportSettings takes over settings where the user has chosen none.
	ImportSettings(ctx context.Context, user auth.Principal, settings bundle.AccountSettings) error
	// ImportAccountMemories writes what is not remembered yet, all or nothing. Where long-term memory is off that is nothing.
	ImportAccountMemories(ctx context.Context, user auth.Principal, memories []NewMemory) (imported int, err error)
	// Import writes one chat or nothing of it. It calls write when the chat is new and rolls back when that fails. When
	// the user already has the chat, under its original id or the new one, it returns that id and false.
	Import(ctx context.Context, user auth.Principal, chat NewChat, write func(Rows) error) (chatID uuid.UUID, imported bool, err error)
	// ExportChat returns the chat and the seq of its last message, or fault.ChatExpired.
	ExportChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (chat bundle.Chat, lastSeq int64, err error)
}

// Pages reads chats in pages of any length; an empty page is the end. When the chat has been deleted meanwhile, it returns
// fault.ChatNotFound, so that no export ends early unnoticed.
type Pages interface {
	// ExportMessages returns messages after one seq and up to another, without running replies.
	ExportMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, after, last int64) ([]bundle.Message, error)
	// ExportFiles returns the contents that messages up to last bring, after that of a hash ("" for the first page).
	ExportFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, after string, last int64) ([]bundle.File, error)
	// ExportFile returns one content.
	ExportFile(ctx context.Context, user auth.Principal, chatID uuid.UUID, sha256 string) (bundle.File, error)
	// ExportMemories returns what was remembered of messages up to last, after a memory (nil for the first page), with its
	// sources in the chat.
	ExportMemories(ctx context.Context, user auth.Principal, chatID uuid.UUID, after *bundle.Memory, last int64) ([]bundle.Memory, error)
	// ExportTopics returns the chat's topics after a number, each with its turns up to a message.
	ExportTopics(ctx context.Context, user auth.Principal, chatID uuid.UUID, after int, last int64) ([]NumberedTopic, error)
	// ExportRevisions returns the brief's changes after a version.
	ExportRevisions(ctx context.Context, user auth.Principal, chatID uuid.UUID, after int64) ([]bundle.Revision, error)
}

// Snapshot is everything of a user at one moment. It lives as long as the function that gets it.
type Snapshot interface {
	Pages
	// Account returns who the user is.
	Account(ctx context.Context) (bundle.Account, error)
	// Chats returns a page after a chat (nil for the first), expired ones too.
	Chats(ctx context.Context, after *bundle.Chat) ([]AccountChat, error)
	// Memories, Entities and Relationships return a page after one of them; nil or "" for the first.
	Memories(ctx context.Context, after *bundle.Memory) ([]bundle.Memory, error)
	Entities(ctx context.Context, after string) ([]bundle.Entity, error)
	Relationships(ctx context.Context, after string) ([]bundle.Relationship, error)
}

// AccountChat is a chat of an account, and the seq of its last message.
type AccountChat struct {
	bundle.Chat
	LastSeq int64
}

// MemoryUse is what an account holds of a memory beside its file of memories: how it was used, and its history.
type MemoryUse struct {
	ID           uuid.UUID
	LastAccessed *time.Time
	AccessCount  int
	History      []bundle.MemoryRevision
}

// NumberedTopic is a topic and its number in the chat.
type NumberedTopic struct {
	bundle.Topic
	Number int
}

// Rows writes the rows of the chat that is being imported, some hundred at once.
type Rows interface {
	Files(files []bundle.File, tokens []int) error
	Messages(messages []NewMessage) error
	// SystemPrompt gives the chat its instructions.
	SystemPrompt(content string) error
	// Memories come after the messages that they were said in. What is remembered in these words already gets the sources.
	Memories(memories []NewMemory) error
	// Topics come after the messages of their turns.
	Topics(topics []bundle.Topic) error
	// Read says that nothing of the chat is to be read for memories: they come with the file.
	Read() error
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
