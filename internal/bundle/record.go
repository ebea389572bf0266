package bundle

import (
	"encoding/json"
	"time"
)

// Name and Version are the format and its version in a bundle's first line.
const (
	Name    = "throughline"
	Version = 1
)

// The types of a bundle's lines.
const (
	typeBundle   = "bundle"
	typeChat     = "chat"
	typeFile     = "file"
	typeMessage  = "message"
	typeMemory   = "memory"
	typeRevision = "revision"
	typeEnd      = "end"
)

// Header begins a bundle.
type Header struct {
	Format     string    `json:"format"`
	Version    int       `json:"version"`
	ExportedAt time.Time `json:"exported_at"`
}

// Chat begins a chat. The records after it are the chat's, up to its End.
type Chat struct {
	// ID is a uuid in a bundle, any text in ChatGPT's format, and "" for plain lines.
	ID             string          `json:"id"`
	Title          string          `json:"title"`
	SystemPrompt   *string         `json:"system_prompt"`
	Metadata       json.RawMessage `json:"metadata"`
	Tags           []string        `json:"tags"`
	MemoryStrategy string          `json:"memory_strategy"`
	TTLHours       *int            `json:"ttl_hours"`
	MaxTurns       *int            `json:"max_turns"`
	ToolName       *string         `json:"tool_name"`
	// Remember is nil where the file does not say, which means true.
	Remember *bool `json:"remember,omitempty"`
	// Topics is nil where the file does not say, which means auto.
	Topics *string `json:"topics,omitempty"`
	// CreatedAt is zero where the file has none.
	CreatedAt     time.Time  `json:"created_at,omitzero"`
	UpdatedAt     time.Time  `json:"updated_at,omitzero"`
	LastMessageAt *time.Time `json:"last_message_at"`
}

// File is one content that messages of the chat bring, whatever its paths.
type File struct {
	SHA256  string `json:"sha256"` // hex
	Content string `json:"content"`
}

// FileRef is a file as a message brings it.
type FileRef struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Message is one message. ID, ReplyTo and SupersededBy are as the file has them.
type Message struct {
	ID           string   `json:"id"`
	ChatID       string   `json:"chat_id"`
	Seq          int64    `json:"seq"`
	Role         string   `json:"role"`
	Content      string   `json:"content"`
	Status       string   `json:"status"`
	ReplyTo      *string  `json:"reply_to"`
	SupersededBy *string  `json:"superseded_by"`
	TokenCount   int      `json:"token_count"`
	Pinned       bool     `json:"pinned"`
	Importance   *float32 `json:"importance"`
	// Rating is nil for a message that nobody has rated.
	Rating     *int16          `json:"rating,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID *string         `json:"tool_call_id"`
	Name       *string         `json:"name"`
	ToolName   *string         `json:"tool_name"`
	Metadata   json.RawMessage `json:"metadata"`
	Files      []FileRef       `json:"files"`
	// CreatedAt is zero where the file has none.
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// Attachments counts what came with the message and is not in the file.
	Attachments int `json:"-" db:"-"`
}

// Revision is a past change of the chat's brief. Imports do not restore it.
type Revision struct {
	Version       int64           `json:"version"`
	Kind          string          `json:"kind"`
	SeqFrom       int64           `json:"seq_from"`
	SeqTo         int64           `json:"seq_to"`
	Turns         int             `json:"turns"`
	GlobalSummary *string         `json:"global_summary"`
	InputTokens   int             `json:"input_tokens"`
	OutputTokens  int             `json:"output_tokens"`
	PromptMode    string          `json:"prompt_mode"`
	PromptRef     string          `json:"prompt_ref"`
	Model         string          `json:"model"`
	DurationMS    int             `json:"duration_ms"`
	InputSHA256   string          `json:"input_sha256"`
	Details       json.RawMessage `json:"details"`
	CreatedAt     time.Time       `json:"created_at,omitzero"`
}

// End closes a chat and counts its records.
type End struct {
	Files     int `json:"files"`
	Messages  int `json:"messages"`
	Revisions int `json:"revisions"`
	// Memories is left out where there are none: a bundle without memories is what it was before there were any.
	Memories int `json:"memories,omitempty"`
}

// Record is one record of a file: exactly one of its pointers is set.
type Record struct {
	Header   *Header
	Chat     *Chat
	File     *File
	Message  *Message
	Memory   *Memory
	Revision *Revision
	End      *End
}
