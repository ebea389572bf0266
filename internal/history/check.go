package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// Strategies by which a chat is remembered; the first is the default.
var Strategies = []string{string(memory.StrategySummary), string(memory.StrategySimple), string(memory.StrategyHybrid)}

// TopicChoices say when a chat is divided into topics; the first is the default.
var TopicChoices = []string{"auto", "on", "off"}

// problems are the fields of a request that are out of range, with what is wrong with each.
type problems map[string]any

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &fault.Error{Code: fault.ValidationFailed, Message: "Some fields are missing or out of range.", Details: p}
}

const containsNUL = "must not contain the character U+0000"

func (p problems) text(name string, value *string, maxLength int) {
	if value == nil {
		return
	}
	switch length := utf8.RuneCountInString(*value); {
	case length > maxLength:
		p[name] = fmt.Sprintf("has %d characters, at most %d are accepted", length, maxLength)
	case memory.HoldsNUL(*value):
		p[name] = containsNUL
	}
}

// some is text that must not be empty.
func (p problems) some(name string, value *string, maxLength int) {
	p.text(name, value, maxLength)
	if *value == "" {
		p[name] = "must not be empty"
	}
}

func (p problems) whole(name string, value *int, maximum int) {
	if value != nil && (*value < 1 || *value > maximum) {
		p[name] = fmt.Sprintf("must be between 1 and %d", maximum)
	}
}

// settings checks what both new chats and changes have; nil is not checked.
func (p problems) settings(title, systemPrompt, strategy, topics *string, metadata *map[string]any, ttlHours, maxTurns *int) {
	p.text("title", title, memory.MaxTitle)
	p.text("system_prompt", systemPrompt, memory.MaxSystemPrompt)
	p.among("memory_strategy", strategy, Strategies)
	p.among("topics", topics, TopicChoices)
	if metadata != nil && memory.HoldsNUL(*metadata) {
		p["metadata"] = containsNUL
	}
	p.whole("ttl_hours", ttlHours, memory.MaxTTLHours)
	p.whole("max_turns", maxTurns, memory.MaxTurnLimit)
}

// tags returns the tags without the space around them, each once.
func (p problems) tags(tags []string) []string {
	unique := []string{}
	for i, tag := range tags {
		tag = strings.TrimSpace(tag)
		switch name := fmt.Sprintf("tags[%d]", i); {
		case tag == "":
			p[name] = "must not be empty"
		case !validTag(tag):
			p[name] = badTag
		case !slices.Contains(unique, tag):
			unique = append(unique, tag)
		}
		if len(unique) > memory.MaxTags {
			p["tags"] = fmt.Sprintf("has more than %d entries", memory.MaxTags)
			return nil
		}
	}
	return unique
}

var badTag = fmt.Sprintf("must have at most %d characters and not U+0000", memory.MaxTag)

func validTag(tag string) bool {
	return utf8.RuneCountInString(tag) <= memory.MaxTag && !memory.HoldsNUL(tag)
}

// Check fills in what the chat leaves out and reports the fields that are out of range.
func (c *NewChat) Check(defaults memory.ChatDefaults) error {
	wrong := problems{}
	c.Tags = wrong.tags(c.Tags)
	if c.ToolName != nil {
		wrong.some("tool_name", c.ToolName, memory.MaxToolName)
		defaults = defaults.For(*c.ToolName)
	}
	c.MemoryStrategy = cmp.Or(c.MemoryStrategy, string(defaults.Strategy), Strategies[0])
	c.TTLHours = orDefault(c.TTLHours, defaults.TTLHours)
	c.MaxTurns = orDefault(c.MaxTurns, defaults.MaxTurns)
	c.Topics = cmp.Or(c.Topics, TopicChoices[0])
	wrong.settings(&c.Title, c.SystemPrompt, &c.MemoryStrategy, &c.Topics, &c.Metadata, c.TTLHours.Value, c.MaxTurns.Value)
	return wrong.err()
}

// orDefault returns a field that is set as it is, and otherwise the default; 0 is none.
func orDefault(field Field[int], value int) Field[int] {
	if field.Set || value == 0 {
		return field
	}
	return To(value)
}

// Check replaces null where a field always has a value and reports the fields that are out of range.
func (c *ChatChange) Check() error {
	wrong := problems{}
	c.Title = orEmpty(c.Title, "")
	c.Metadata = orEmpty(c.Metadata, map[string]any{})
	c.Tags = orEmpty(c.Tags, []string{})
	c.MemoryStrategy = orEmpty(c.MemoryStrategy, Strategies[0])
	c.Topics = orEmpty(c.Topics, TopicChoices[0])
	if c.Tags.Set {
		c.Tags = To(wrong.tags(*c.Tags.Value))
	}
	wrong.settings(c.Title.Value, c.SystemPrompt.Value, c.MemoryStrategy.Value, c.Topics.Value, c.Metadata.Value, c.TTLHours.Value, c.MaxTurns.Value)
	return wrong.err()
}

func orEmpty[T any](field Field[T], empty T) Field[T] {
	if field.Set && field.Value == nil {
		return To(empty)
	}
	return field
}

// Check fills in the limit and reports the parameters that are out of range.
func (q *ListQuery) Check() error {
	wrong := problems{}
	wrong.limit(&q.Limit, DefaultChats, MaxChats)
	wrong.tag(&q.Tag)
	return wrong.err()
}

// tag checks the tag that a list asks for.
func (p problems) tag(tag *string) {
	if *tag = strings.TrimSpace(*tag); !validTag(*tag) || !utf8.ValidString(*tag) {
		p["tag"] = badTag
	}
}

// Check fills in the limit and reports the parameters that are out of range.
func (q *MessagesQuery) Check() error {
	wrong := problems{}
	wrong.limit(&q.Limit, DefaultMessages, MaxMessages)
	if q.BeforeSeq != nil && q.AfterSeq != nil {
		wrong["after_seq"] = "must not come together with before_seq"
	}
	return wrong.err()
}

// Check fills in the limit and reports a limit that is out of range.
func (q *BriefRevisionsQuery) Check() error {
	wrong := problems{}
	wrong.limit(&q.Limit, DefaultRevisions, MaxRevisions)
	return wrong.err()
}

// Check fills in the limit and reports the parameters that are out of range.
func (q *SearchQuery) Check() error {
	wrong := problems{}
	wrong.query("q", q.Text, 1)
	wrong.limit(&q.Limit, DefaultSearchResults, MaxSearchResults)
	return wrong.err()
}

// limit sets a limit of 0 to its default.
func (p problems) limit(value *int, otherwise, maximum int) {
	*value = cmp.Or(*value, otherwise)
	p.whole("limit", value, maximum)
}

// Check reports the fields that are out of range.
func (n *NewMessages) Check() error {
	wrong := problems{}
	if count := len(n.Messages); count == 0 || count > MaxNewMessages {
		wrong["messages"] = fmt.Sprintf("has %d entries, 1 to %d are accepted", count, MaxNewMessages)
		return wrong.err()
	}
	seen := map[uuid.UUID]bool{}
	for i := range n.Messages {
		at := fmt.Sprintf("messages[%d].", i)
		wrong.newMessage(at, &n.Messages[i])
		switch id, ok := n.Messages[i].ClientID(); {
		case !ok:
			wrong[at+"client_message_id"] = "must be a uuid"
		case seen[id]:
			wrong[at+"client_message_id"] = "is that of a message before it"
		default:
			seen[id] = id != uuid.Nil
		}
	}
	return wrong.err()
}

// ClientID is the client's id of the message, uuid.Nil for none; not ok for what is no uuid in its usual form.
func (m *NewMessage) ClientID() (id uuid.UUID, ok bool) {
	if m.ClientMessageID == nil {
		return uuid.Nil, true
	}
	id, err := uuid.Parse(*m.ClientMessageID)
	return id, err == nil && len(*m.ClientMessageID) == 36 && id != uuid.Nil
}

var roles = []string{string(memory.RoleUser), string(memory.RoleAssistant), string(memory.RoleSystem), string(memory.RoleTool)}

func (p problems) newMessage(at string, m *NewMessage) {
	p.among(at+"role", &m.Role, roles)
	if strings.TrimSpace(m.Content) == "" && len(m.ToolCalls) == 0 && m.Role != string(memory.RoleTool) {
		p[at+"content"] = "must not be empty"
	}
	p.text(at+"content", &m.Content, MaxNewContent)
	p.text(at+"name", &m.Name, maxCallName)
	p.text(at+"tool_call_id", &m.ToolCallID, maxCallName)
	if m.ToolCallID != "" && m.Role != string(memory.RoleTool) {
		p[at+"tool_call_id"] = "is for the role tool alone"
	}
	p.calls(at+"tool_calls", m)
	if memory.HoldsNUL(m.Metadata) {
		p[at+"metadata"] = containsNUL
	}
}

func (p problems) calls(name string, m *NewMessage) {
	holdsNUL := func(call map[string]any) bool { return memory.HoldsNUL(call) }
	switch {
	case len(m.ToolCalls) > 0 && m.Role != string(memory.RoleAssistant):
		p[name] = "is for the role assistant alone"
	case len(m.ToolCalls) > MaxNewMessages:
		p[name] = fmt.Sprintf("has %d entries, at most %d are accepted", len(m.ToolCalls), MaxNewMessages)
	case slices.ContainsFunc(m.ToolCalls, holdsNUL):
		p[name] = containsNUL
	}
}

// Check reports an importance that is out of range.
func (c *MessageChange) Check() error {
	wrong := problems{}
	wrong.share("importance", c.Importance.Value)
	return wrong.err()
}

// Check reports an age that is out of range.
func (q *PruneQuery) Check() error {
	wrong := problems{}
	wrong.whole("older_than_days", &q.OlderThanDays, MaxPruneDays)
	return wrong.err()
}
