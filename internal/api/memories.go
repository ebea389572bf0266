package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// Memories reads and writes what a user is remembered for, with the user's rights: another user's memory does not exist.
// Callers Check a request first. Methods that name a memory return NoMemory when there is none. Where long-term
// memory is off, AddMemory and ImportMemories return MemoryOff; what is stored can still be read, changed and deleted.
type Memories interface {
	// ListMemories returns a page of memories: the newest first or, for a query with a Text, the best matches.
	ListMemories(ctx context.Context, user auth.Principal, query MemoriesQuery) (MemoryPage, error)
	FindMemory(ctx context.Context, user auth.Principal, id uuid.UUID) (Memory, error)
	// AddMemory stores what the user wrote. A memory with the same words is not stored again: it becomes active and gets
	// the fields that the request names, and added is false.
	AddMemory(ctx context.Context, user auth.Principal, memory NewMemory) (stored Memory, added bool, err error)
	// ChangeMemory changes the fields that are set and no others. It returns a fault.MemoryExists when an active memory
	// has the same words.
	ChangeMemory(ctx context.Context, user auth.Principal, id uuid.UUID, change MemoryChange) (Memory, error)
	// DeleteMemory deletes a memory with its history.
	DeleteMemory(ctx context.Context, user auth.Principal, id uuid.UUID, deletion MemoryDeletion) error
	// MemoryHistory returns the changes of a memory, the oldest first.
	MemoryHistory(ctx context.Context, user auth.Principal, id uuid.UUID) (MemoryHistory, error)
	// FindForgettable returns the memories that words may mean, the best first, whatever their status.
	FindForgettable(ctx context.Context, user auth.Principal, text string) ([]ForgetCandidate, error)
	// ForgetMemories deletes those memories that still have the version named, and counts them.
	ForgetMemories(ctx context.Context, user auth.Principal, those []MemoryVersion) (int, error)
	// DeleteMemories deletes all memories of the user with everything that was made of them. What was said so far and not
	// yet looked at is skipped, so that none of it comes back.
	DeleteMemories(ctx context.Context, user auth.Principal) (DeletedMemories, error)

	// MemorySettings returns the defaults for a user without any.
	MemorySettings(ctx context.Context, user auth.Principal) (MemorySettings, error)
	ChangeMemorySettings(ctx context.Context, user auth.Principal, change MemorySettingsChange) (MemorySettings, error)

	// ExportMemories passes on all memories, the oldest first.
	ExportMemories(ctx context.Context, user auth.Principal, take func(bundle.Memory) error) error
	// ImportMemories stores memories, all or none. One whose words are remembered already is skipped.
	ImportMemories(ctx context.Context, user auth.Principal, records []bundle.Memory) (ImportedMemories, error)
}

// Extractor reads memories out of a chat.
type Extractor interface {
	// Extract has everything extracted that was said in a chat, and returns the last row of the ledger. It waits as long as
	// ctx lives, but two minutes at most. For a chat that does not exist that is fault.NoChat, where long-term memory is off MemoryOff.
	Extract(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Extraction, error)
}

// NoMemory is the error for a memory that does not exist or is another user's.
func NoMemory() error { return fault.New(fault.MemoryNotFound, "There is no such memory.") }

// MemoryOff is the error for a server that remembers nothing across chats.
func MemoryOff() error {
	return fault.New(fault.MemoryOff, "This server remembers nothing across chats: LONG_TERM_MEMORY is false.")
}

// SameMemory is the error for a change after which two memories would have the same words.
func SameMemory(twin uuid.UUID) error {
	return &fault.Error{
		Code: fault.MemoryExists, Message: "Another memory has these words already.",
		Details: map[string]any{"memory_id": twin},
	}
}

// Memory is one thing that a user is remembered for, as the user sees it.
type Memory struct {
	_               struct{}       `description:"One thing that a user is remembered for, in all chats."`
	ID              uuid.UUID      `json:"id"`
	Content         string         `json:"content"`
	MemoryType      string         `json:"memory_type" enum:"preference,fact,pattern,context"`
	Confidence      float64        `json:"confidence" minimum:"0" maximum:"1"`
	Durable         bool           `json:"durable" description:"Whether it is kept however long it is not used."`
	Pinned          bool           `json:"pinned" description:"Whether it is in every prompt. No model changes a pinned memory."`
	Status          string         `json:"status" enum:"active,inbox,superseded,archived" doc:"status"`
	Edited          bool           `json:"edited" description:"Whether the user changed its words. No model changes them then."`
	Origin          string         `json:"origin" enum:"extracted,user,assistant,import"`
	Version         int64          `json:"version" description:"Grows with each change."`
	Lang            *string        `json:"lang" description:"The language of the content; null where unknown."`
	ValidFrom       *time.Time     `json:"valid_from" description:"Since when it is true; null where nobody said."`
	ValidTo         *time.Time     `json:"valid_to" description:"Until when it was true; null for what still is."`
	RecordedAt      time.Time      `json:"recorded_at" description:"Since when it is believed."`
	RetractedAt     *time.Time     `json:"retracted_at" description:"Until when it was believed; null for what still is."`
	SupersededBy    *uuid.UUID     `json:"superseded_by" description:"The memory that took its place; null for none."`
	ConflictsWith   *uuid.UUID     `json:"conflicts_with" description:"The memory whose place it takes when it is accepted from the inbox; null for none."`
	SourceSessionID *uuid.UUID     `json:"source_session_id" description:"The chat in which it was first said; null for none."`
	LastAccessed    *time.Time     `json:"last_accessed" description:"When a reply last used it; null for never."`
	AccessCount     int            `json:"access_count" description:"How many replies used it."`
	CreatedAt       time.Time      `json:"created_at"`
	UpdatedAt       time.Time      `json:"updated_at"`
	Sources         []MemorySource `json:"sources" nullable:"false" description:"Where the user said it, the oldest first."`
}

// MemorySource is a message in which a memory was said.
type MemorySource struct {
	_         struct{}  `description:"A message in which a memory was said."`
	MessageID uuid.UUID `json:"message_id"`
	ChatID    uuid.UUID `json:"chat_id"`
	Seq       int64     `json:"seq"`
	Quote     string    `json:"quote" description:"The words of the message that it was made of."`
	SaidAt    time.Time `json:"said_at"`
}

// MemoryPage is a page of a user's memories. Next is where the next page begins; nil after the last.
type MemoryPage struct {
	Memories []Memory      `json:"memories" nullable:"false"`
	Next     *MemoryCursor `json:"next_cursor" description:"Asks for the next page; null after the last, and for a search."`
}

// MemoryHistory is everything that was done to a memory.
type MemoryHistory struct {
	Revisions []MemoryRevision `json:"revisions" nullable:"false" description:"The oldest first."`
}

// MemoryRevision is a change of a memory.
type MemoryRevision struct {
	_         struct{}  `description:"A change of a memory."`
	MemoryID  uuid.UUID `json:"memory_id"`
	Version   int64     `json:"version" description:"The version that the change made."`
	Action    string    `json:"action" enum:"ADD,UPDATE,DELETE,NOOP,EDIT,MERGE,DECAY,ARCHIVE,RESTORE" doc:"action"`
	Content   *string   `json:"content" description:"The content after the change; null where it was removed because it may have held words that were deleted."`
	Reason    string    `json:"reason"`
	Actor     string    `json:"actor" enum:"model,user,decay,erasure"`
	Model     *string   `json:"model" description:"The model that decided; null for none."`
	PromptRef *string   `json:"prompt_ref" description:"The instructions that it had; null for none."`
	CreatedAt time.Time `json:"created_at"`
}

// ForgetCandidate is a memory that would be forgotten.
type ForgetCandidate struct {
	_       struct{}  `description:"A memory that would be forgotten."`
	ID      uuid.UUID `json:"id"`
	Content string    `json:"content"`
	Version int64     `json:"-"`
}

// MemoryVersion names a memory as it was when somebody saw it.
type MemoryVersion struct {
	ID      uuid.UUID
	Version int64
}

// DeletedMemories counts what was deleted.
type DeletedMemories struct {
	_             struct{} `description:"What was deleted."`
	Memories      int64    `json:"memories"`
	Sources       int64    `json:"sources"`
	Revisions     int64    `json:"revisions"`
	Entities      int64    `json:"entities"`
	Relationships int64    `json:"relationships"`
}

// MemorySettings are what a user decided about being remembered.
type MemorySettings struct {
	_        struct{} `description:"What a user decided about being remembered."`
	Enabled  bool     `json:"enabled" description:"Whether anything is remembered across chats, and shown to the model."`
	TimeZone *string  `json:"time_zone" description:"An IANA name such as Europe/Berlin, by which the user's dates are read; null for UTC."`
	Language *string  `json:"language" description:"The user's language, such as de or pt-BR; null for the one that is spoken."`
	Excluded []string `json:"excluded" nullable:"false" description:"Subjects that are never remembered."`
}

// Extraction is a row of the ledger: a range of a chat's messages that memories were read out of.
type Extraction struct {
	_            struct{}        `description:"A range of a chat's messages that memories were read out of, and what became of it."`
	ID           uuid.UUID       `json:"id"`
	ChatID       uuid.UUID       `json:"chat_id"`
	SeqFrom      int64           `json:"seq_from"`
	SeqTo        int64           `json:"seq_to" description:"Before seq_from where there was nothing to look at."`
	Turns        int             `json:"turns"`
	Result       string          `json:"result" enum:"done,empty,skipped" description:"skipped: no model has looked at it."`
	Candidates   int             `json:"candidates" description:"Facts that passed the checks."`
	Added        int             `json:"added"`
	Updated      int             `json:"updated"`
	Superseded   int             `json:"superseded"`
	Noops        int             `json:"noops" description:"Facts that were known."`
	Dropped      json.RawMessage `json:"dropped" type:"object" description:"How many facts were dropped, by reason."`
	Calls        int             `json:"calls" description:"Calls of the model."`
	InputTokens  int             `json:"input_tokens"`
	OutputTokens int             `json:"output_tokens"`
	Model        *string         `json:"model"`
	PromptRef    *string         `json:"prompt_ref" description:"The instructions that the model had."`
	DurationMS   int             `json:"duration_ms"`
	CreatedAt    time.Time       `json:"created_at"`
}
