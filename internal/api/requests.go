package api

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
)

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

// NewChat is a chat to be created. What is not set gets the deployment's defaults, or a tool's when there is a ToolName.
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
	IncludeExpired bool   `query:"include_expired" default:"false" description:"true lists expired chats as well."`
}

// MessagesQuery asks for messages of a chat: the newest, or those next to a seq.
type MessagesQuery struct {
	Limit     int    `query:"limit" minimum:"1" maximum:"200" default:"50" description:"How many messages."`
	BeforeSeq *int64 `query:"before_seq" nullable:"false" minimum:"0" description:"The newest messages before this place."`
	AfterSeq  *int64 `query:"after_seq" nullable:"false" minimum:"0" description:"The oldest messages after this place. Not together with before_seq."`
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

// check looks at what the role of a message decides, and at the clients' ids.
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

// ClientID is the client's id of the message, uuid.Nil for none; not ok for what is no uuid in its usual form.
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
	// Content asks for the texts as well: the latest, up to MaxFilesContent together.
	Content bool
	// SHA256 asks for one file alone, by its hash; nil for all.
	SHA256 []byte
}

// PruneQuery selects chats by the age of their last activity. A dry run counts and deletes nothing.
type PruneQuery struct {
	_             struct{} `description:"Which chats are to be deleted."`
	OlderThanDays int      `json:"older_than_days" required:"true" minimum:"1" maximum:"36500" doc:"older_than_days"`
	DryRun        bool     `json:"dry_run,omitempty" nullable:"true" description:"true counts and deletes nothing."`
}
