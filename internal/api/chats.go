// Package api holds what a user keeps: chats and their messages, to list, change, search, prune and delete.
// It declares the requests, with the checks that each of them makes, the results, and the [Store] that Postgres
// implements. The struct tags describe the JSON fields and query parameters of the HTTP API and its OpenAPI
// document. How a reply is generated is in package chat, what the memory makes of messages in memory and below.
//
// An expired chat cannot be read or changed here until it is revived; it can still be deleted.
package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// Store reads and writes chats and messages with the user's rights, so that another user's chat does not exist.
// Callers Check a request first. Methods that name a chat return fault.NoChat when there is none and, unless
// they delete, fault.Expired when it has expired. Methods that name a message return NoMessage instead of NoChat.
type Store interface {
	// CreateChat creates a chat without messages.
	CreateChat(ctx context.Context, user auth.Principal, chat NewChat) (Chat, error)
	// ListChats returns a page of chats, the latest activity first.
	ListChats(ctx context.Context, user auth.Principal, query ListQuery) (ChatPage, error)
	FindChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Chat, error)
	// ChangeChat changes the fields that are set and no others.
	ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change ChatChange) (Chat, error)
	// DeleteChat deletes a chat, expired or not, with everything that was made of it, except what the deletion keeps.
	DeleteChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, deletion ChatDeletion) error
	// PruneChats deletes the chats whose last activity is older, in one statement; with DryRun it only counts.
	PruneChats(ctx context.Context, user auth.Principal, query PruneQuery) (Pruned, error)
	// ClearChat starts the chat's context anew, all or nothing: no prompt and no brief holds earlier messages, which
	// stay stored. It returns Busy while a reply runs.
	ClearChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Cleared, error)
	// ListFiles returns the files that came with a chat's messages, each content once, the latest first.
	ListFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, query FilesQuery) ([]File, error)

	// ListMessages returns some of a chat's messages in their order.
	ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query MessagesQuery) (MessagePage, error)
	// StoreMessages stores messages at a chat's end, all or none, and has the chat folded when that is due. It returns all
	// of them as they are stored, in their order. One whose ClientMessageID was stored before is not stored again. It
	// returns Busy while a reply runs, and fault.IdempotencyMismatch for an id that belongs to another message.
	StoreMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, messages NewMessages) (StoredMessages, error)
	// ChangeMessage changes how a message is rated, never its content.
	ChangeMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, change MessageChange) (Message, error)
	// DeleteMessage deletes a message and its files, and has the brief rebuilt when that covers it. It returns Busy
	// while the message is a reply that runs.
	DeleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error

	// ListBriefRevisions returns a page of what became of a chat's brief, the latest version first.
	ListBriefRevisions(ctx context.Context, user auth.Principal, chatID uuid.UUID, query BriefRevisionsQuery) (BriefRevisionPage, error)

	// WhyReply returns what the prompt of a reply held. The id is the reply's, or that of the user's message for its
	// latest reply. A message without a reply is NoReply.
	WhyReply(ctx context.Context, user auth.Principal, messageID uuid.UUID) (Why, error)

	// Search returns the user's matching messages, the best first.
	Search(ctx context.Context, user auth.Principal, query SearchQuery) ([]SearchResult, error)
	CountUsage(ctx context.Context, user auth.Principal) (Stats, error)
}

// NoMessage is the error for a message that does not exist or is another user's.
func NoMessage() error {
	return fault.New(fault.MessageNotFound, "There is no such message.")
}

// NoReply is the error for a message that is no reply and has none.
func NoReply() error {
	return fault.New(fault.MessageNotFound, "This message is no reply, and has none.")
}

// OtherMessage is the error for a client message id that belongs to a message with another content.
func OtherMessage(clientMessageID uuid.UUID) error {
	return &fault.Error{
		Code: fault.IdempotencyMismatch, Message: "This client_message_id was used for another message.",
		Details: map[string]any{"client_message_id": clientMessageID},
	}
}

// Busy is the error for what cannot be done while a reply runs.
func Busy(messageID uuid.UUID) error {
	return &fault.Error{
		Code: fault.GenerationInProgress, Message: "A reply is being generated for this chat. Wait for its end or cancel it.",
		Details: map[string]any{"message_id": messageID},
	}
}

// Chat is a conversation as its owner sees it.
type Chat struct {
	_              struct{}        `description:"A conversation."`
	ID             uuid.UUID       `json:"id"`
	Title          string          `json:"title"`
	SystemPrompt   *string         `json:"system_prompt" description:"Instructions for this chat alone; null for none."`
	Metadata       json.RawMessage `json:"metadata" type:"object" description:"The app's own facts."`
	Tags           []string        `json:"tags" nullable:"false"`
	MemoryStrategy string          `json:"memory_strategy" enum:"summary,simple,hybrid" description:"How the chat is remembered."`
	TTLHours       *int            `json:"ttl_hours" description:"Hours after its last turn at which the chat expires; null for never."`
	MaxTurns       *int            `json:"max_turns" description:"Turn limit of its prompt; null for none."`
	Remember       bool            `json:"remember" description:"Whether what is said is remembered in other chats, and what is remembered is shown."`
	Topics         string          `json:"topics" enum:"auto,on,off" description:"Whether it is divided into topics; auto: once it is long."`
	Recall         string          `json:"recall" enum:"all,chat" description:"Whose turns its prompts may quote: those of all chats, or its own alone."`
	ToolName       *string         `json:"tool_name" description:"The tool that began the chat; null for one that a person began."`
	MessageCount   int64           `json:"message_count"`
	TurnCount      int64           `json:"turn_count" description:"Messages of the user."`
	LastMessageAt  *time.Time      `json:"last_message_at" description:"null as long as there is no message."`
	ExpiresAt      *time.Time      `json:"expires_at" description:"null for never."`
	Expired        bool            `json:"expired" description:"Whether the chat had expired when it was read. Such a chat is only in lists that ask for it."`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
}

// Message is a stored message as its owner sees it.
type Message struct {
	_               struct{}        `description:"A message as it is stored. A reply that is still running has no content yet."`
	ID              uuid.UUID       `json:"id"`
	ClientMessageID *uuid.UUID      `json:"client_message_id" doc:"client_message_id"`
	ChatID          uuid.UUID       `json:"chat_id"`
	Seq             int64           `json:"seq" description:"The message's place in its chat: 1, 2, 3 … Deleted messages leave gaps."`
	Role            string          `json:"role" enum:"user,assistant,system,tool"`
	Content         string          `json:"content"`
	Status          string          `json:"status" enum:"complete,streaming,failed,cancelled,interrupted"`
	ReplyTo         *uuid.UUID      `json:"reply_to" description:"The user message that a reply answers; null for none."`
	SupersededBy    *uuid.UUID      `json:"superseded_by" description:"The reply that was written in place of this one; null for none."`
	TokenCount      int             `json:"token_count" description:"Tokens of content."`
	Pinned          bool            `json:"pinned"`
	Importance      *float32        `json:"importance" minimum:"0" maximum:"1" description:"As the app sees it; null for not rated."`
	Rating          *int16          `json:"rating" minimum:"-1" maximum:"1" description:"How the user liked it: 1 for good, -1 for bad; null for not rated."`
	ToolCalls       json.RawMessage `json:"tool_calls" type:"array,null" description:"What an assistant asked of tools: an array, as the model's API writes it."`
	ToolCallID      *string         `json:"tool_call_id" description:"The call that a tool's message answers."`
	Name            *string         `json:"name" description:"Who speaks within the role, such as the tool's name."`
	ToolName        *string         `json:"tool_name" description:"The tool through which a user's message came."`
	Metadata        json.RawMessage `json:"metadata" type:"object" description:"The app's own facts."`
	Files           []FileRef       `json:"files" nullable:"false"`
	CreatedAt       time.Time       `json:"created_at"`
	UpdatedAt       time.Time       `json:"updated_at"`
}

// FileRef names a file that a message brought.
type FileRef struct {
	_      struct{} `description:"A file as a message brought it."`
	Path   string   `json:"path"`
	SHA256 string   `json:"sha256" description:"Of its content, in hexadecimal digits."`
	Bytes  int      `json:"bytes"`
}

// ChatPage is a page of a user's chats. Next is where the next page begins; nil after the last.
type ChatPage struct {
	Chats []Chat  `json:"chats" nullable:"false"`
	Next  *Cursor `json:"next_cursor" description:"Asks for the next page; null after the last."`
}

// MessagePage is some of a chat's messages.
type MessagePage struct {
	Messages []Message `json:"messages" nullable:"false" description:"In their order."`
	HasMore  bool      `json:"has_more" description:"Whether there are more: newer ones when after_seq was given, else older ones."`
}

// StoredMessages are the messages of a request as they are stored.
type StoredMessages struct {
	Messages []Message `json:"messages" nullable:"false" description:"In their order."`
}

// Cleared is where a chat's context begins anew.
type Cleared struct {
	ChatID       uuid.UUID `json:"chat_id"`
	ClearedSeq   int64     `json:"cleared_seq" description:"Messages up to this one are in no prompt and no brief any more."`
	BriefVersion int64     `json:"brief_version" description:"The brief's version; clearing what is clear already leaves it."`
}

// File is one content that came with a chat's messages, under one path or several. SHA256 is in hexadecimal digits.
type File struct {
	_          struct{}  `description:"A content that came with a chat's messages, once, whatever it was called and however often it came."`
	SHA256     string    `json:"sha256"`
	Path       string    `json:"path" description:"The path under which it came last."`
	Paths      []string  `json:"paths" nullable:"false" description:"All its paths, the latest first."`
	Bytes      int       `json:"bytes"`
	TokenCount int       `json:"token_count"`
	MessageID  uuid.UUID `json:"message_id" description:"The last message that brought it."`
	CreatedAt  time.Time `json:"created_at" description:"When that message was stored."`
	Content    *string   `json:"content,omitempty" description:"With include=content alone, for the latest files that fit 16 MiB together."`
}

// Pruned is what was deleted or, in a dry run, would be. ChatIDs are at most MaxPrunedIDs.
type Pruned struct {
	_        struct{}    `description:"What was deleted or, with dry_run, would be."`
	DryRun   bool        `json:"dry_run" db:"-"`
	Chats    int64       `json:"chats"`
	Messages int64       `json:"messages"`
	ChatIDs  []uuid.UUID `json:"chat_ids" nullable:"false" description:"The first 1000, the oldest first."`
}

// Stats counts what a user's chats amount to.
type Stats struct {
	Chats        int64       `json:"chats" description:"Chats that have not expired."`
	ExpiredChats int64       `json:"expired_chats"`
	Turns        int64       `json:"turns"`
	Messages     int64       `json:"messages"`
	Tokens       UsedTokens  `json:"tokens"`
	StoredBytes  StoredBytes `json:"stored_bytes"`
}

// UsedTokens counts tokens by purpose, as the models reported them.
type UsedTokens struct {
	_       struct{}    `description:"Tokens that models counted, by what they were used for."`
	Reply   ReplyTokens `json:"reply"`
	Fold    FoldTokens  `json:"fold"`
	Rebuild FoldTokens  `json:"rebuild"`
}

// ReplyTokens counts the tokens of replies.
type ReplyTokens struct {
	Input  int64 `json:"input"`
	Cached int64 `json:"cached" description:"Those of input that the provider had in its prompt cache."`
	Output int64 `json:"output"`
}

// FoldTokens counts the tokens of folds.
type FoldTokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// StoredBytes counts stored text, without what Postgres adds.
type StoredBytes struct {
	_        struct{} `description:"Octets of stored text in UTF-8."`
	Messages int64    `json:"messages"`
	Files    int64    `json:"files"`
	Briefs   int64    `json:"briefs" description:"The summaries in use and the earlier ones that are kept."`
	Total    int64    `json:"total"`
}
