// Package history is what a user keeps: chats and their messages, to be listed, changed, searched, pruned
// and deleted. It declares what it needs of Postgres; how a reply comes about is in chat, what the memory
// makes of the messages in memory and fold.
//
// An expired chat is gone from everything here but deletion, until it is brought back.
package history

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Limits of what a user may write about a chat or a message, in characters (Unicode code points) unless
// noted. The database holds the same.
const (
	MaxTitle        = 500
	MaxSystemPrompt = 32_000
	MaxTags         = 20
	MaxTag          = 64
	MaxToolName     = 64
	MaxTTLHours     = 87_600 // ten years
	MaxTurnLimit    = 100_000
)

// Chat is a conversation as its owner sees it.
type Chat struct {
	ID             uuid.UUID       `json:"id"`
	Title          string          `json:"title"`
	SystemPrompt   *string         `json:"system_prompt"`
	Metadata       json.RawMessage `json:"metadata"`
	Tags           []string        `json:"tags"`
	MemoryStrategy string          `json:"memory_strategy"`
	// TTLHours is how long after its last turn the chat expires; nil for never.
	TTLHours *int `json:"ttl_hours"`
	// MaxTurns is the turn limit of its prompt; nil for none.
	MaxTurns *int `json:"max_turns"`
	// ToolName is the tool that began the chat; nil for a person.
	ToolName      *string    `json:"tool_name"`
	MessageCount  int64      `json:"message_count"`
	TurnCount     int64      `json:"turn_count"`
	LastMessageAt *time.Time `json:"last_message_at"`
	ExpiresAt     *time.Time `json:"expires_at"`
	Expired       bool       `json:"expired"`
	CreatedAt     time.Time  `json:"created_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
}

// Message is a stored message as its owner sees it.
type Message struct {
	ID           uuid.UUID       `json:"id"`
	ChatID       uuid.UUID       `json:"chat_id"`
	Seq          int64           `json:"seq"`
	Role         string          `json:"role"`
	Content      string          `json:"content"`
	Status       string          `json:"status"`
	ReplyTo      *uuid.UUID      `json:"reply_to"`
	SupersededBy *uuid.UUID      `json:"superseded_by"`
	TokenCount   int             `json:"token_count"`
	Pinned       bool            `json:"pinned"`
	Importance   *float32        `json:"importance"`
	ToolCalls    json.RawMessage `json:"tool_calls"`
	ToolCallID   *string         `json:"tool_call_id"`
	Name         *string         `json:"name"`
	ToolName     *string         `json:"tool_name"`
	Metadata     json.RawMessage `json:"metadata"`
	Files        []FileRef       `json:"files"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
}

// FileRef is a file as a message brought it.
type FileRef struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // hex
	Bytes  int    `json:"bytes"`
}
