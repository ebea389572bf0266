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

// The types of lines that are handled by their names. The tags of Record have all of them.
const (
	typeBundle = "bundle"
	typeChat   = "chat"
	typeMemory = "memory"
	typeEnd    = "end"
)

// HoldsAccount is what the header of a file says that holds everything about a user.
const HoldsAccount = "account"

// Header begins a bundle.
type Header struct {
	Format     string    `json:"format"`
	Version    int       `json:"version"`
	ExportedAt time.Time `json:"exported_at"`
	// Holds is HoldsAccount or "". About tells people what the file is.
	Holds string `json:"holds,omitempty"`
	About string `json:"about,omitempty"`
}

// Account is the user themself: the first record of an account, after the header.
type Account struct {
	ID string `json:"id"`
	// Email is what the token says; nil for nothing.
	Email    *string         `json:"email"`
	Settings AccountSettings `json:"settings"`
	Counts   AccountCounts   `json:"counts"`
}

// AccountSettings are what a user decided about being remembered.
type AccountSettings struct {
	Enabled  bool     `json:"enabled"`
	TimeZone *string  `json:"time_zone"`
	Language *string  `json:"language"`
	Excluded []string `json:"excluded"`
}

// AccountCounts is how much the file holds. Imports do not look at it: AccountEnd has the written counts.
type AccountCounts struct {
	Chats    int64 `json:"chats"`
	Messages int64 `json:"messages"`
	Memories int64 `json:"memories"`
}

// Entity is something that memories are about, and Relationship how two of them belong together. Imports make them again.
type Entity struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Kind     string   `json:"entity_type"`
	Aliases  []string `json:"aliases"`
	Mentions int      `json:"mentions"`
}

// Relationship is one of two entities, by their names, and the memory that says so.
type Relationship struct {
	ID           string     `json:"id"`
	Source       string     `json:"source"`
	Relationship string     `json:"relationship"`
	Target       string     `json:"target"`
	ValidFrom    *time.Time `json:"valid_from"`
	ValidTo      *time.Time `json:"valid_to"`
	RecordedAt   time.Time  `json:"recorded_at,omitzero"`
	MemoryID     string     `json:"memory_id"`
}

// AccountEnd ends an account and counts what stands outside of its chats, and these.
type AccountEnd struct {
	Chats         int `json:"chats"`
	Memories      int `json:"memories"`
	Entities      int `json:"entities"`
	Relationships int `json:"relationships"`
}

// Chat begins a chat. The records after it are the chat's, up to its End.
type Chat struct {
	// ID is a uuid in a bundle, any text in ChatGPT's format, and "" for plain lines.
	ID    string `json:"id"`
	Title string `json:"title"`
	// TitledBy is model or first_message; "" for a title that a person gave, which stays when words are deleted.
	TitledBy       string          `json:"titled_by,omitempty"`
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
	// Recall is nil where the file does not say, which means all.
	Recall *string `json:"recall,omitempty"`
	// CreatedAt is zero where the file has none.
	CreatedAt     time.Time  `json:"created_at,omitzero"`
	UpdatedAt     time.Time  `json:"updated_at,omitzero"`
	LastMessageAt *time.Time `json:"last_message_at"`
}

// File is one content that messages of the chat bring, under any number of paths.
type File struct {
	SHA256  string `json:"sha256"` // hex
	Content string `json:"content"`
}

// FileRef is a file as a message brings it.
type FileRef struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Message is one message. The ids are as the file has them.
type Message struct {
	ID      string  `json:"id"`
	ChatID  string  `json:"chat_id"`
	Seq     int64   `json:"seq"`
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Status  string  `json:"status"`
	ReplyTo *string `json:"reply_to"`
	// ParentID is the message before it in the tree. Nil for one that begins the chat, and in files from before there was a tree.
	ParentID *string `json:"parent_id"`
	// MovedFrom is the parent that was deleted first.
	MovedFrom *string `json:"moved_from,omitempty"`
	// SupersededBy is nil for the messages of the path.
	SupersededBy *string  `json:"superseded_by"`
	TokenCount   int      `json:"token_count"`
	Pinned       bool     `json:"pinned"`
	Importance   *float32 `json:"importance"`
	// Rating is nil for a message without a rating.
	Rating    *int16          `json:"rating,omitempty"`
	ToolCalls json.RawMessage `json:"tool_calls"`
	// Parts is left out for a message without parts. See memory.Part.
	Parts      json.RawMessage `json:"parts,omitempty"`
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

// Topic is a part of the chat that is about one thing.
type Topic struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Renamed is whether a person gave it the title. Other titles and the summary are a record: imports make them again.
	Renamed    bool     `json:"renamed"`
	Summary    *string  `json:"summary"`
	Tags       []string `json:"tags"`
	Importance float64  `json:"importance"`
	// Rated is whether a person or the app said how important it is.
	Rated        bool      `json:"importance_rated"`
	State        string    `json:"state"`
	CreatedAt    time.Time `json:"created_at,omitzero"`
	LastActiveAt time.Time `json:"last_active_at,omitzero"`
	// Turns are the messages that its turns begin with.
	Turns []string `json:"turns"`
}

// Revision is a past change of the chat's brief. Imports do not restore it.
type Revision struct {
	Version       int64           `json:"version"`
	Kind          string          `json:"kind"`
	SeqFrom       int64           `json:"seq_from"`
	SeqTo         int64           `json:"seq_to"`
	Turns         int             `json:"turns"`
	GlobalSummary *string         `json:"global_summary"`
	UndoneBy      *int64          `json:"undone_by,omitempty"`
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
	Topics   int `json:"topics,omitempty"`
}

// Record is one record of a file: exactly one of its pointers is set. The tags are the types of lines.
type Record struct {
	Header       *Header       `type:"bundle"`
	Account      *Account      `type:"account"`
	Chat         *Chat         `type:"chat"`
	File         *File         `type:"file"`
	Message      *Message      `type:"message"`
	Memory       *Memory       `type:"memory"`
	Topic        *Topic        `type:"topic"`
	Revision     *Revision     `type:"revision"`
	End          *End          `type:"end"`
	Entity       *Entity       `type:"entity"`
	Relationship *Relationship `type:"relationship"`
	AccountEnd   *AccountEnd   `type:"account_end"`
}

// counted is how many records there are of the latest chat, and outside of chats.
type counted struct {
	inChat  End
	outside AccountEnd
	open    bool // whether the chat has not ended
}

func (c *counted) count(record *Record) {
	switch {
	case record.Chat != nil:
		c.inChat, c.open = End{}, true
	case record.File != nil:
		c.inChat.Files++
	case record.Message != nil:
		c.inChat.Messages++
	case record.Memory != nil && c.open:
		c.inChat.Memories++
	case record.Topic != nil:
		c.inChat.Topics++
	case record.Revision != nil:
		c.inChat.Revisions++
	case record.End != nil:
		c.outside.Chats++
		c.open = false
	case record.Memory != nil:
		c.outside.Memories++
	case record.Entity != nil:
		c.outside.Entities++
	case record.Relationship != nil:
		c.outside.Relationships++
	}
}
