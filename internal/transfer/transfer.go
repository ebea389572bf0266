// Package transfer exports chats page by page and imports files of any format that bundle reads. It declares the [Store]
// that Postgres implements. For any size of a chat or a file, only a page or a few hundred records are in memory.
package transfer

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// Keys of log lines.
const (
	keyBytes      = "bytes"
	keyChats      = "chats"
	keyDurationMS = "duration_ms"
	keyFormat     = "format"
	keyMessages   = "messages"
	keySkipped    = "skipped"
	keyUserID     = "user_id"
)

// importsAtOnce is how many imports one process checks and writes at the same time. Each may need some 50 MB, for the ids
// of a file of very many messages.
const importsAtOnce = 4

// Config of a Service. Store and Logger are required.
type Config struct {
	Store  Store
	Logger *slog.Logger
	// ChatDefaults are the settings of chats from files that have none, which are those of other programs.
	ChatDefaults memory.ChatDefaults
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// TempDir is the directory of files that are being imported. Defaults to the system's.
	TempDir string
}

// Service exports and imports. It is safe for concurrent use.
type Service struct {
	Config
	imports, accounts *semaphore.Weighted
}

// New returns a service.
func New(config Config) *Service {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Service{Config: config, imports: semaphore.NewWeighted(importsAtOnce), accounts: semaphore.NewWeighted(accountsAtOnce)}
}

// Store is Postgres. Each call acts as the user and is one transaction, except where it is said otherwise.
type Store interface {
	// ExportChat returns the chat with its parts, or fault.ChatExpired.
	ExportChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (bundle.Chat, Parts, error)
	// Snapshot calls read with everything of the user as it is at this moment, despite writes meanwhile. When something
	// has been changed or deleted by the end, it returns fault.NotReady.
	Snapshot(ctx context.Context, user auth.Principal, read func(Snapshot) error) error
	// ImportSettings takes over settings where the user has chosen none.
	ImportSettings(ctx context.Context, user auth.Principal, settings bundle.AccountSettings) error
	// ImportAccountMemories writes the memories that are new, some hundred in a transaction: what was cut off can be sent again.
	// full is how many are left out because the user has as many as may be. Where long-term memory is off, nothing is written.
	ImportAccountMemories(ctx context.Context, user auth.Principal, memories []NewMemory) (imported, full int, err error)
	// Import writes one chat or nothing of it. When the chat is new it calls write, which passes all rows to add, and rolls back
	// when that fails. When the user already has the chat, under its original id or the new one, it returns that id and false.
	Import(ctx context.Context, user auth.Principal, chat NewChat, write func(add Add) error) (chatID uuid.UUID, imported bool, err error)
}

// Add writes rows of a chat. full is how many of their memories are left out because the user has as many as may be.
type Add = func(Rows) (full int, err error)

// Parts read what belongs to a chat, up to the message that was its last. Each reads page after page, every page in a
// transaction, and passes each record on. When the chat has been deleted meanwhile, it returns fault.ChatNotFound, and when a
// message of it has been edited or deleted, or another version chosen, fault.NotReady.
type Parts interface {
	// Messages are without running replies.
	Messages(ctx context.Context, take func(bundle.Record) error) error
	// Files are the contents that the messages bring. File returns one of them.
	Files(ctx context.Context, take func(bundle.Record) error) error
	File(ctx context.Context, sha256 string) (bundle.File, error)
	// Memories are the memories made of the messages, with its sources in the chat.
	Memories(ctx context.Context, take func(bundle.Record) error) error
	// Topics have the turns up to the last message.
	Topics(ctx context.Context, take func(bundle.Record) error) error
	// Revisions are the brief's changes.
	Revisions(ctx context.Context, take func(bundle.Record) error) error
}

// Snapshot is everything of a user at one moment. It lives as long as the function that gets it.
type Snapshot interface {
	// Account returns who the user is.
	Account(ctx context.Context) (bundle.Account, error)
	// Chats passes each chat on with its parts, expired ones too.
	Chats(ctx context.Context, take func(bundle.Chat, Parts) error) error
	Memories(ctx context.Context, take func(bundle.Record) error) error
	Entities(ctx context.Context, take func(bundle.Record) error) error
	Relationships(ctx context.Context, take func(bundle.Record) error) error
}

// Rows are some hundred rows of the chat that is being imported, with the size of each file in tokens. Files are written before
// the messages that name them.
type Rows struct {
	Files  []bundle.File
	Tokens []int
	// SystemPrompt gives the chat its instructions, unless it is "".
	SystemPrompt string
	// Messages have their new ids, and the tokens that a prompt would show of them.
	Messages []bundle.Message
	// Memories come after the messages that they were said in. A memory that has these words already gets the sources.
	Memories []NewMemory
	// Topics come after the messages of their turns.
	Topics []bundle.Topic
	// Read says that nothing of the chat is to be read for memories: they come with the file.
	Read bool
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
