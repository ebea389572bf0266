// Package api holds the data that a user keeps: chats and their messages, to list, change, search, prune and delete.
// It declares the requests, with the checks that each of them makes, the results, and the [Store] that Postgres
// implements. The struct tags describe the JSON fields and query parameters of the HTTP API and its OpenAPI
// document. Replies are generated in package chat, briefs and memories in memory and below.
//
// An expired chat cannot be read or changed here until it is revived; it can still be deleted.
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
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
	// ClearChat starts a new context in the chat, all or nothing: no prompt and no brief holds earlier messages, which
	// stay stored. It returns Busy while a reply runs.
	ClearChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Cleared, error)
	// ListFiles returns the files that came with a chat's messages, each content once, the latest first.
	ListFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, query FilesQuery) (Files, error)

	// ListMessages returns some of a chat's messages in their order.
	ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query MessagesQuery) (MessagePage, error)
	// ListVersions returns the versions of a message.
	ListVersions(ctx context.Context, user auth.Principal, messageID uuid.UUID) (Versions, error)
	// SelectVersion leads the path of the chat through a message, all or nothing. A message that is on the path changes nothing. It
	// returns Busy while a reply runs, and fault.Changed where the path's last message is another one than was said, or the context
	// was cleared since.
	SelectVersion(ctx context.Context, user auth.Principal, messageID uuid.UUID, selection Selection) (Selected, error)
	// StoreMessages stores messages at a chat's end, all or none, and has the chat folded when that is due. It returns all
	// of them as they are stored, in their order. One whose ClientMessageID was stored before is not stored again. It
	// returns Busy while a reply runs, and fault.IdempotencyMismatch for an id that belongs to another message.
	StoreMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, messages NewMessages) (StoredMessages, error)
	// ChangeMessage changes how a message is rated, never its content.
	ChangeMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, change MessageChange) (Message, error)
	// DeleteMessage deletes a message and its files, and what the brief says of it and all after it. It returns Busy
	// while the message is a reply that runs.
	DeleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error

	// ListBriefRevisions returns a page of what became of a chat's brief, the latest version first.
	ListBriefRevisions(ctx context.Context, user auth.Principal, chatID uuid.UUID, query BriefRevisionsQuery) (BriefRevisionPage, error)

	// WhyReply returns the content of a reply's prompt. The id is the reply's, or the one of the user's message for its
	// latest reply. A message without a reply is NoReply.
	WhyReply(ctx context.Context, user auth.Principal, messageID uuid.UUID) (Why, error)

	// Search returns the user's matching messages, the best first.
	Search(ctx context.Context, user auth.Principal, query SearchQuery) ([]SearchResult, error)
	CountUsage(ctx context.Context, user auth.Principal) (Stats, error)
	// ReadUsage sums up what a user's calls of models have cost, and asks whether the next turn is allowed.
	ReadUsage(ctx context.Context, user auth.Principal, query UsageQuery) (Spending, error)
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
	return fault.With(fault.IdempotencyMismatch, "This client_message_id was used for another message.",
		map[string]any{"client_message_id": clientMessageID})
}

// Busy is the error for what cannot be done while a reply runs.
func Busy(messageID uuid.UUID) error {
	return fault.With(fault.GenerationInProgress, "A reply is being generated for this chat. Wait for its end or cancel it.",
		map[string]any{"message_id": messageID})
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
	_               struct{}        `description:"A message as it is stored. A reply that runs has its steps so far: text and parts of what is done."`
	ID              uuid.UUID       `json:"id"`
	ClientMessageID *uuid.UUID      `json:"client_message_id" doc:"client_message_id"`
	ChatID          uuid.UUID       `json:"chat_id"`
	Seq             int64           `json:"seq" description:"The message's place in its chat: 1, 2, 3 … Deleted messages leave gaps."`
	Role            string          `json:"role" enum:"user,assistant,system,tool"`
	Content         string          `json:"content"`
	Status          string          `json:"status" enum:"complete,streaming,awaiting,failed,cancelled,interrupted"`
	ReplyTo         *uuid.UUID      `json:"reply_to" description:"The user message that a reply answers; null for none."`
	ParentID        *uuid.UUID      `json:"parent_id" description:"The message before it, null for the first."`
	SupersededBy    *uuid.UUID      `json:"superseded_by" doc:"superseded_by"`
	Version         int64           `json:"version" description:"Which of its versions it is, from 1."`
	Versions        int64           `json:"versions" description:"How many versions it has, this one included. A reply that failed without a word is none."`
	TokenCount      int             `json:"token_count" description:"Tokens of content."`
	Pinned          bool            `json:"pinned"`
	Importance      *float32        `json:"importance" minimum:"0" maximum:"1" description:"As the app sees it; null for not rated."`
	Rating          *int16          `json:"rating" minimum:"-1" maximum:"1" description:"How the user liked it: 1 for good, -1 for bad; null for not rated."`
	ToolCalls       json.RawMessage `json:"tool_calls" type:"array,null" description:"What an assistant asked of tools: an array, as the model's API writes it."`
	ToolCallID      *string         `json:"tool_call_id" description:"The call that a tool's message answers."`
	Parts           json.RawMessage `json:"parts" type:"array,null" description:"What a reply holds beside its text, in order; null for nothing."`
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
	Messages []Message `json:"messages" nullable:"false" description:"Those that are read, in their order; with versions=all every one."`
	HasMore  bool      `json:"has_more" description:"Whether there are more: newer ones when after_seq was given, else older ones."`
}

// StoredMessages are the messages of a request as they are stored.
type StoredMessages struct {
	Messages []Message `json:"messages" nullable:"false" description:"In their order."`
}

// Cleared is the place in a chat where its new context begins.
type Cleared struct {
	ChatID       uuid.UUID `json:"chat_id"`
	ClearedSeq   int64     `json:"cleared_seq" description:"Messages up to this one are in no prompt and no brief any more."`
	BriefVersion int64     `json:"brief_version" description:"The brief's version; clearing what is clear already leaves it."`
}

// Files are the files of a chat.
type Files struct {
	Files []File `json:"files" nullable:"false"`
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

// Pruned counts the deleted chats or, of a dry run, the chats that would be deleted. ChatIDs are at most MaxPrunedIDs.
type Pruned struct {
	_        struct{}    `description:"What was deleted or, with dry_run, would be."`
	DryRun   bool        `json:"dry_run" db:"-"`
	Chats    int64       `json:"chats"`
	Messages int64       `json:"messages"`
	ChatIDs  []uuid.UUID `json:"chat_ids" nullable:"false" description:"The first 1000, the oldest first."`
}

// Stats are figures of all chats of a user.
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
	_     struct{}    `description:"Tokens that models counted, by what they were used for."`
	Reply ReplyTokens `json:"reply"`
	Fold  FoldTokens  `json:"fold"`
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

// The most that answers hold; limits of requests are in their tags. Clients ask for no longer pages than these.
const (
	MaxChats    = 100
	MaxMessages = 200
	MaxMemories = 200
	// MaxPrunedIDs is how many chats Pruned names.
	MaxPrunedIDs = 1000
	// MaxFilesContent is how much content of files one answer holds, in bytes.
	MaxFilesContent = 16 << 20
)

// Field is an optional field of a request. It distinguishes a field that is left out (not Set), null (a nil Value),
// and a value.
type Field[T any] struct {
	Set   bool
	Value *T
}

// To is a Field with a value.
func To[T any](value T) Field[T] { return Field[T]{Set: true, Value: &value} }

// None is a Field that is null.
func None[T any]() Field[T] { return Field[T]{Set: true} }

// Target marks the field as set and returns a **T for its value, for the decoder of requests.
func (f *Field[T]) Target() any {
	f.Set = true
	return &f.Value
}

// NewChat is a chat to be created. A field that is not set gets the deployment's default, or a tool's when there is a ToolName.
type NewChat struct {
	_              struct{}       `description:"A chat without messages. Everything may be left out, the body as well."`
	Title          string         `json:"title,omitempty" nullable:"true" maxLength:"500"`
	SystemPrompt   *string        `json:"system_prompt,omitempty" nullable:"true" maxLength:"32000" doc:"system_prompt"`
	Metadata       map[string]any `json:"metadata,omitempty" nullable:"true" doc:"metadata"`
	Tags           []string       `json:"tags,omitempty" nullable:"true" each:"64" most:"20" doc:"tags"`
	MemoryStrategy string         `json:"memory_strategy,omitempty" nullable:"true" enum:"summary,simple,hybrid" doc:"memory_strategy"`
	TTLHours       Field[int]     `json:"ttl_hours,omitzero" nullable:"true" minimum:"1" maximum:"87600" doc:"ttl_hours"`
	MaxTurns       Field[int]     `json:"max_turns,omitzero" nullable:"true" minimum:"1" maximum:"100000" description:"Turn limit of its prompt; null for none."`
	Remember       *bool          `json:"remember,omitempty" nullable:"true" doc:"remember"`
	Topics         string         `json:"topics,omitempty" nullable:"true" enum:"auto,on,off" doc:"topics"`
	Recall         string         `json:"recall,omitempty" nullable:"true" enum:"all,chat" doc:"chat.recall"`
	ToolName       *string        `json:"tool_name,omitempty" nullable:"true" minLength:"1" maxLength:"64" doc:"tool_name"`
}

// ChatChange changes the fields that are set. Null gives "", {}, no tags, the default strategy. An expired chat is
// only changed with Revive, and then lives for its ttl_hours from now.
type ChatChange struct {
	_              struct{}              `description:"What is to be changed. What is left out stays; null takes the value away."`
	Title          Field[string]         `json:"title,omitzero" nullable:"true" maxLength:"500"`
	SystemPrompt   Field[string]         `json:"system_prompt,omitzero" nullable:"true" maxLength:"32000" doc:"system_prompt"`
	Metadata       Field[map[string]any] `json:"metadata,omitzero" nullable:"true" doc:"metadata"`
	Tags           Field[[]string]       `json:"tags,omitzero" nullable:"true" each:"64" most:"20" doc:"tags"`
	MemoryStrategy Field[string]         `json:"memory_strategy,omitzero" nullable:"true" enum:"summary,simple,hybrid" doc:"chatChange.memory_strategy"`
	TTLHours       Field[int]            `json:"ttl_hours,omitzero" nullable:"true" minimum:"1" maximum:"87600" doc:"ttl_hours"`
	MaxTurns       Field[int]            `json:"max_turns,omitzero" nullable:"true" minimum:"1" maximum:"100000" doc:"max_turns"`
	Remember       *bool                 `json:"remember,omitempty" nullable:"false" doc:"chatChange.remember"`
	Topics         Field[string]         `json:"topics,omitzero" nullable:"true" enum:"auto,on,off" doc:"chatChange.topics"`
	Recall         Field[string]         `json:"recall,omitzero" nullable:"true" enum:"all,chat" doc:"chat.recall"`
	Revive         bool                  `json:"revive,omitempty" nullable:"true" description:"true brings an expired chat back, for its ttl_hours from now."`
}

// check replaces null where a field always has a value.
func (c *ChatChange) check(problems) {
	c.Title = orEmpty(c.Title, "")
	c.Metadata = orEmpty(c.Metadata, map[string]any{})
	c.Tags = orEmpty(c.Tags, []string{})
	c.MemoryStrategy = orEmpty(c.MemoryStrategy, Strategies[0])
	c.Topics = orEmpty(c.Topics, TopicChoices[0])
	c.Recall = orEmpty(c.Recall, RecallChoices[0])
}

func orEmpty[T any](field Field[T], empty T) Field[T] {
	if field.Set && field.Value == nil {
		return To(empty)
	}
	return field
}

// ListQuery asks for a page of chats.
type ListQuery struct {
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"20" description:"How many chats."`
	// After is where the page before ended; nil for the first.
	After *Cursor `query:"cursor,omitempty" nullable:"false" description:"next_cursor of the page before."`
	// Tag is one that the chats must have; "" for any or none.
	Tag            string `query:"tag" trim:"" maxLength:"64" description:"Only chats that have this tag."`
	Words          string `query:"q" trim:"" maxLength:"500" description:"Only chats whose title has this in it, in any case."`
	IncludeExpired bool   `query:"include_expired" default:"false" description:"true lists expired chats as well."`
}

// MessagesQuery asks for messages of a chat: the newest, or those next to a seq.
type MessagesQuery struct {
	Limit     int    `query:"limit" minimum:"1" maximum:"200" default:"50" description:"How many messages."`
	BeforeSeq *int64 `query:"before_seq" nullable:"false" minimum:"0" description:"The newest messages before this place."`
	AfterSeq  *int64 `query:"after_seq" nullable:"false" minimum:"0" description:"The oldest messages after this place. Not together with before_seq."`
	Versions  string `query:"versions" enum:"all" description:"all lists every message; without it, those on the path."`
}

func (q *MessagesQuery) check(wrong problems) {
	if q.BeforeSeq != nil && q.AfterSeq != nil {
		wrong["after_seq"] = "must not come together with before_seq"
	}
}

// NewMessages are messages to be stored at a chat's end.
type NewMessages struct {
	_        struct{}     `description:"Messages that were said or done elsewhere, to be stored at the end of a chat. No model is asked."`
	Messages []NewMessage `json:"messages" required:"true" nullable:"false" minItems:"1" maxItems:"100" doc:"messages"`
}

// NewMessage is a message to be stored.
type NewMessage struct {
	_               struct{}         `description:"A message to be stored."`
	Role            string           `json:"role" required:"true" enum:"user,assistant,system,tool"`
	Content         string           `json:"content,omitempty" nullable:"true" maxLength:"262144" doc:"newMessage.content"`
	ToolCalls       []map[string]any `json:"tool_calls,omitempty" nullable:"true" maxItems:"100" doc:"tool_calls"`
	ToolCallID      string           `json:"tool_call_id,omitempty" nullable:"true" maxLength:"256" description:"The call that a tool's message answers."`
	Name            string           `json:"name,omitempty" nullable:"true" maxLength:"256" description:"Who speaks within the role, such as the tool's name."`
	Metadata        map[string]any   `json:"metadata,omitempty" nullable:"true" description:"The app's own facts about the message, at most 32 levels deep."`
	ClientMessageID *string          `json:"client_message_id,omitempty" format:"uuid" nullable:"true" doc:"newMessage.client_message_id"`
}

// check looks at the fields that depend on the role of a message, and at the clients' ids.
func (n *NewMessages) check(wrong problems) {
	seen := map[uuid.UUID]bool{}
	for i := range n.Messages {
		at, m := fmt.Sprintf("messages[%d].", i), &n.Messages[i]
		if strings.TrimSpace(m.Content) == "" && len(m.ToolCalls) == 0 && m.Role != string(memory.RoleTool) {
			wrong[at+"content"] = "must not be empty"
		}
		if m.ToolCallID != "" && m.Role != string(memory.RoleTool) {
			wrong[at+"tool_call_id"] = "is for the role tool alone"
		}
		if len(m.ToolCalls) > 0 && m.Role != string(memory.RoleAssistant) {
			wrong[at+"tool_calls"] = "is for the role assistant alone"
		}
		switch id, ok := m.ClientID(); {
		case !ok:
			wrong[at+"client_message_id"] = "must be a uuid"
		case seen[id]:
			wrong[at+"client_message_id"] = "is that of a message before it"
		default:
			seen[id] = id != uuid.Nil
		}
	}
}

// ClientID is the client's id of the message, uuid.Nil for none; not ok for a text that is no uuid in its usual form.
func (m *NewMessage) ClientID() (id uuid.UUID, ok bool) {
	if m.ClientMessageID == nil {
		return uuid.Nil, true
	}
	id, err := ParseID(*m.ClientMessageID)
	return id, err == nil && id != uuid.Nil
}

// MessageChange changes how a message is rated. A nil Pinned leaves it.
type MessageChange struct {
	_          struct{}       `description:"What is to be changed. What is left out stays."`
	Pinned     *bool          `json:"pinned,omitempty" nullable:"false" description:"Whether hybrid chats keep the message in the prompt word for word."`
	Importance Field[float64] `json:"importance,omitzero" nullable:"true" minimum:"0" maximum:"1" description:"As the app sees it; null for not rated."`
}

// FilesQuery asks for a chat's files.
type FilesQuery struct {
	Include string `query:"include" enum:"content" description:"content gives the files' texts as well."`
	// SHA256 asks for one file alone, by its hash; nil for all.
	SHA256 []byte `query:"sha256" format:"hex" pattern:"^[0-9a-fA-F]{64}$" description:"Only the file of this hash."`

	// Content asks for the texts as well: the latest, up to MaxFilesContent together. Check reads it from Include.
	Content bool
}

func (q *FilesQuery) check(problems) { q.Content = q.Include == "content" }

// PruneQuery selects chats by the age of their last activity. A dry run counts and deletes nothing.
type PruneQuery struct {
	_             struct{} `description:"Which chats are to be deleted."`
	OlderThanDays int      `json:"older_than_days" required:"true" minimum:"1" maximum:"36500" doc:"older_than_days"`
	DryRun        bool     `json:"dry_run,omitempty" nullable:"true" description:"true counts and deletes nothing."`
}
