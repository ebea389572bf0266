package history

import (
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
)

// Strategies by which a chat is remembered; the first is the default.
var Strategies = []string{string(memory.StrategySummary), string(memory.StrategySimple), string(memory.StrategyHybrid)}

// Limits of what one request asks for. Of a list's limit, 0 stands for its default.
const (
	DefaultChats    = 20
	MaxChats        = 100
	DefaultMessages = 50
	MaxMessages     = 200
	MaxPruneDays    = 36_500 // a hundred years
	// MaxPrunedIDs is how many chats a Pruned names.
	MaxPrunedIDs = 1000
	// MaxFilesContent is how much content of files one answer holds, in bytes.
	MaxFilesContent = 16 << 20
)

// Field is what a change says of one field: nothing at all (not Set), that it has no value (Value is nil),
// or its new value.
type Field[T any] struct {
	Set   bool
	Value *T
}

// To is a Field with a value, None one without.
func To[T any](value T) Field[T] { return Field[T]{Set: true, Value: &value} }

// None takes a field's value away.
func None[T any]() Field[T] { return Field[T]{Set: true} }

// NewChat is a chat to be made. Everything may be left out.
type NewChat struct {
	Title          string
	SystemPrompt   *string
	Metadata       map[string]any
	Tags           []string
	MemoryStrategy string // "" for the default
	// TTLHours and MaxTurns that are not set are those of a tool's chat when ToolName is, and none otherwise.
	TTLHours Field[int]
	MaxTurns Field[int]
	ToolName *string
}

// ChatChange says what becomes of a chat's fields. Taking away gives "", {}, no tags, the default strategy.
type ChatChange struct {
	Title          Field[string]
	SystemPrompt   Field[string]
	Metadata       Field[map[string]any]
	Tags           Field[[]string]
	MemoryStrategy Field[string]
	TTLHours       Field[int]
	MaxTurns       Field[int]
	// Revive brings an expired chat back, for its ttl_hours from now. Without it, such a chat is not changed.
	Revive bool
}

// ListQuery asks for a page of chats.
type ListQuery struct {
	Limit int
	// After is where the page before ended; nil for the first.
	After *Place
	// Tag is one that the chats must have; "" for any or none.
	Tag            string
	IncludeExpired bool
}

// ChatPage is some of a user's chats, and where the next page begins; nil after the last.
type ChatPage struct {
	Chats []Chat
	Next  *Place
}

// MessagesQuery asks for messages of a chat: the newest, or those next to a place. Not both places.
type MessagesQuery struct {
	Limit     int
	BeforeSeq *int64
	AfterSeq  *int64
}

// MessagePage is a stretch of messages in their order. HasMore tells of more beyond it: newer ones when it
// was asked for what comes after a place, else older ones.
type MessagePage struct {
	Messages []Message `json:"messages"`
	HasMore  bool      `json:"has_more"`
}

// MessageChange says what becomes of a message's rating.
type MessageChange struct {
	Pinned     *bool // nil leaves it
	Importance Field[float64]
}

// Cleared tells where a chat's context begins anew.
type Cleared struct {
	ChatID       uuid.UUID `json:"chat_id"`
	ClearedSeq   int64     `json:"cleared_seq"`
	BriefVersion int64     `json:"brief_version"`
}

// FilesQuery asks for a chat's files.
type FilesQuery struct {
	// Content asks for the texts as well: the latest, up to MaxFilesContent together.
	Content bool
	// SHA256 asks for one file alone, by its hash; nil for all.
	SHA256 []byte
}

// File is a content that came with a chat's messages, once, whatever it was called and how often it came.
type File struct {
	SHA256 string `json:"sha256"` // hex
	// Path is the one under which it came last, Paths are all of them, the latest first.
	Path       string   `json:"path"`
	Paths      []string `json:"paths"`
	Bytes      int      `json:"bytes"`
	TokenCount int      `json:"token_count"`
	// MessageID is the last message that brought it, CreatedAt that message's time.
	MessageID uuid.UUID `json:"message_id"`
	CreatedAt time.Time `json:"created_at"`
	Content   *string   `json:"content,omitempty"`
}

// PruneQuery names chats by the age of their last activity.
type PruneQuery struct {
	OlderThanDays int
	// DryRun counts and deletes nothing.
	DryRun bool
}

// Pruned tells what was deleted, or would have been.
type Pruned struct {
	DryRun   bool  `json:"dry_run"`
	Chats    int64 `json:"chats"`
	Messages int64 `json:"messages"`
	// ChatIDs are the first MaxPrunedIDs, the oldest first.
	ChatIDs []uuid.UUID `json:"chat_ids"`
}
