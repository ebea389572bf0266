package history

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
)

// complete checks a new chat and fills in what it leaves out.
func (c *NewChat) complete() error {
	wrong := map[string]any{}
	checkText(wrong, "title", &c.Title, MaxTitle)
	checkText(wrong, "system_prompt", c.SystemPrompt, MaxSystemPrompt)
	checkMetadata(wrong, c.Metadata)
	c.Tags = checkTags(wrong, c.Tags)
	if c.MemoryStrategy == "" {
		c.MemoryStrategy = Strategies[0]
	}
	checkStrategy(wrong, c.MemoryStrategy)
	if c.ToolName != nil {
		checkToolName(wrong, *c.ToolName)
		c.TTLHours, c.MaxTurns = orElse(c.TTLHours, memory.ToolTTLHours), orElse(c.MaxTurns, memory.ToolMaxTurns)
	}
	checkWhole(wrong, "ttl_hours", c.TTLHours.Value, MaxTTLHours)
	checkWhole(wrong, "max_turns", c.MaxTurns.Value, MaxTurnLimit)
	return invalid(wrong)
}

func orElse[T any](field Field[T], value T) Field[T] {
	if field.Set {
		return field
	}
	return To(value)
}

// complete checks a change and gives the fields that always have a value the one that stands for none.
func (c *ChatChange) complete() error {
	c.Title = orEmpty(c.Title, "")
	c.Metadata = orEmpty(c.Metadata, map[string]any{})
	c.Tags = orEmpty(c.Tags, []string{})
	c.MemoryStrategy = orEmpty(c.MemoryStrategy, Strategies[0])
	wrong := map[string]any{}
	checkText(wrong, "title", c.Title.Value, MaxTitle)
	checkText(wrong, "system_prompt", c.SystemPrompt.Value, MaxSystemPrompt)
	if c.Metadata.Set {
		checkMetadata(wrong, *c.Metadata.Value)
	}
	if c.Tags.Set {
		c.Tags = To(checkTags(wrong, *c.Tags.Value))
	}
	if c.MemoryStrategy.Set {
		checkStrategy(wrong, *c.MemoryStrategy.Value)
	}
	checkWhole(wrong, "ttl_hours", c.TTLHours.Value, MaxTTLHours)
	checkWhole(wrong, "max_turns", c.MaxTurns.Value, MaxTurnLimit)
	return invalid(wrong)
}

func orEmpty[T any](field Field[T], empty T) Field[T] {
	if field.Set && field.Value == nil {
		return To(empty)
	}
	return field
}

func checkText(wrong map[string]any, name string, text *string, most int) {
	if text == nil {
		return
	}
	switch length := utf8.RuneCountInString(*text); {
	case length > most:
		wrong[name] = fmt.Sprintf("has %d characters, at most %d are accepted", length, most)
	case strings.ContainsRune(*text, 0):
		wrong[name] = "must not contain the character U+0000"
	}
}

func checkMetadata(wrong map[string]any, metadata map[string]any) {
	if holdsNUL(metadata) {
		wrong["metadata"] = "must not contain the character U+0000"
	}
}

// holdsNUL tells whether a JSON value holds U+0000 anywhere, which Postgres cannot store.
func holdsNUL(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.ContainsRune(value, 0)
	case []any:
		return slices.ContainsFunc(value, holdsNUL)
	case map[string]any:
		for key, element := range value {
			if strings.ContainsRune(key, 0) || holdsNUL(element) {
				return true
			}
		}
	}
	return false
}

// checkTags gives the tags without the space around them, each once.
func checkTags(wrong map[string]any, tags []string) []string {
	kept := []string{}
	for i, tag := range tags {
		tag = strings.TrimSpace(tag)
		switch place := fmt.Sprintf("tags[%d]", i); {
		case tag == "":
			wrong[place] = "must not be empty"
		case !usableTag(tag):
			wrong[place] = fmt.Sprintf("must have at most %d characters and not U+0000", MaxTag)
		case !slices.Contains(kept, tag):
			kept = append(kept, tag)
		}
		if len(kept) > MaxTags {
			wrong["tags"] = fmt.Sprintf("has more than %d entries", MaxTags)
			return nil
		}
	}
	return kept
}

func usableTag(tag string) bool {
	return utf8.RuneCountInString(tag) <= MaxTag && !strings.ContainsRune(tag, 0)
}

func checkStrategy(wrong map[string]any, strategy string) {
	if !slices.Contains(Strategies, strategy) {
		wrong["memory_strategy"] = "must be one of " + strings.Join(Strategies, ", ")
	}
}

func checkToolName(wrong map[string]any, name string) {
	checkText(wrong, "tool_name", &name, MaxToolName)
	if name == "" {
		wrong["tool_name"] = "must not be empty"
	}
}

func checkWhole(wrong map[string]any, name string, value *int, most int) {
	if value != nil && (*value < 1 || *value > most) {
		wrong[name] = fmt.Sprintf("must be between 1 and %d", most)
	}
}

func (q *ListQuery) check() error {
	wrong := map[string]any{}
	if q.Limit == 0 {
		q.Limit = DefaultChats
	}
	checkWhole(wrong, "limit", &q.Limit, MaxChats)
	if q.Tag = strings.TrimSpace(q.Tag); !usableTag(q.Tag) || !utf8.ValidString(q.Tag) {
		wrong["tag"] = fmt.Sprintf("must have at most %d characters and not U+0000", MaxTag)
	}
	return invalid(wrong)
}

func (q *MessagesQuery) check() error {
	wrong := map[string]any{}
	if q.Limit == 0 {
		q.Limit = DefaultMessages
	}
	checkWhole(wrong, "limit", &q.Limit, MaxMessages)
	if q.BeforeSeq != nil && q.AfterSeq != nil {
		wrong["after_seq"] = "must not come together with before_seq"
	}
	return invalid(wrong)
}

func (c *MessageChange) check() error {
	wrong := map[string]any{}
	// Written this way round so that a value that is no number is refused, too.
	if value := c.Importance.Value; value != nil && !(*value >= 0 && *value <= 1) {
		wrong["importance"] = "must be between 0 and 1"
	}
	return invalid(wrong)
}

func (q *PruneQuery) check() error {
	wrong := map[string]any{}
	checkWhole(wrong, "older_than_days", &q.OlderThanDays, MaxPruneDays)
	return invalid(wrong)
}
