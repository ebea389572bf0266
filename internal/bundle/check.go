package bundle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
)

// Limits of what only an import brings, in characters (Unicode code points) unless noted. The limits of a chat are in
// package memory.
const (
	MaxContent   = 1_000_000
	MaxChats     = 50_000
	maxFileBytes = 262_144
	maxPath      = 1024
	maxName      = 256
)

func checkChat(c *Chat) error {
	c.MemoryStrategy = cmp.Or(c.MemoryStrategy, "summary")
	if c.MemoryStrategy != "simple" && c.MemoryStrategy != "summary" && c.MemoryStrategy != "hybrid" {
		return wrong("unknown_strategy", "memory_strategy is none of simple, summary and hybrid")
	}
	if err := checkTags(c); err != nil {
		return err
	}
	return cmp.Or(
		within("title", &c.Title, 0, memory.MaxTitle),
		within("system_prompt", c.SystemPrompt, 0, memory.MaxSystemPrompt),
		within("tool_name", c.ToolName, 1, memory.MaxToolName),
		between("ttl_hours", c.TTLHours, memory.MaxTTLHours),
		between("max_turns", c.MaxTurns, memory.MaxTurnLimit),
		object("metadata", &c.Metadata),
	)
}

func checkTags(c *Chat) error {
	if c.Tags == nil {
		c.Tags = []string{}
	}
	if len(c.Tags) > memory.MaxTags {
		return wrong("too_many_tags", fmt.Sprintf("there are more than %d tags", memory.MaxTags))
	}
	for i := range c.Tags {
		if err := within("tags", &c.Tags[i], 1, memory.MaxTag); err != nil {
			return err
		}
	}
	return nil
}

func checkFile(f *File) error {
	if len(f.Content) > maxFileBytes {
		return wrong("file_too_large", fmt.Sprintf("the file is larger than %d bytes", maxFileBytes))
	}
	sum := sha256.Sum256([]byte(f.Content))
	f.SHA256 = strings.ToLower(f.SHA256)
	if hex.EncodeToString(sum[:]) != f.SHA256 {
		return wrong("wrong_sha256", "sha256 is not that of the file's content")
	}
	return nil
}

func checkMessage(m *Message) error {
	m.Status = cmp.Or(m.Status, string(memory.StatusComplete))
	if err := cmp.Or(checkRole(m.Role), checkStatus(m.Status)); err != nil {
		return err
	}
	if utf8.RuneCountInString(m.Content) > MaxContent {
		return wrong("content_too_long", fmt.Sprintf("the content is longer than %d characters", MaxContent))
	}
	if m.Importance != nil && !(*m.Importance >= 0 && *m.Importance <= 1) {
		return wrong("out_of_range", "importance is not between 0 and 1")
	}
	return cmp.Or(
		within("tool_call_id", m.ToolCallID, 0, maxName),
		within("name", m.Name, 0, maxName),
		within("tool_name", m.ToolName, 0, memory.MaxToolName),
		list("tool_calls", &m.ToolCalls),
		object("metadata", &m.Metadata),
		checkPaths(m.Files),
	)
}

func checkRole(role string) error {
	switch memory.Role(role) {
	case memory.RoleUser, memory.RoleAssistant, memory.RoleSystem, memory.RoleTool:
		return nil
	}
	return wrong("unknown_role", "the role is none of user, assistant, system and tool")
}

func checkStatus(status string) error {
	switch memory.Status(status) {
	case memory.StatusComplete, memory.StatusFailed, memory.StatusCancelled, memory.StatusInterrupted:
		return nil
	case memory.StatusStreaming:
		return wrong("streaming", "a reply that is still being written cannot be imported")
	}
	return wrong("unknown_status", "the status is none of complete, failed, cancelled and interrupted")
}

func checkPaths(files []FileRef) error {
	for i := range files {
		if err := within("path", &files[i].Path, 1, maxPath); err != nil {
			return err
		}
		files[i].SHA256 = strings.ToLower(files[i].SHA256)
	}
	return nil
}

// uniform accepts no id, or a uuid in its usual form, which it writes in lower case: equal ids become equal texts.
func uniform(name string, id *string) error {
	if id == nil {
		return nil
	}
	if _, err := uuid.Parse(*id); err != nil || len(*id) != 36 {
		return wrong("bad_uuid", name+" is not a uuid")
	}
	*id = strings.ToLower(*id)
	return nil
}

func within(name string, text *string, least, most int) error {
	if text == nil {
		return nil
	}
	if n := utf8.RuneCountInString(*text); n < least || n > most {
		return wrong("bad_length", fmt.Sprintf("%s must have %d to %d characters", name, least, most))
	}
	return nil
}

func between(name string, number *int, most int) error {
	if number != nil && (*number < 1 || *number > most) {
		return wrong("out_of_range", fmt.Sprintf("%s is not between 1 and %d", name, most))
	}
	return nil
}

// object normalizes the app's own JSON object; none becomes {}.
func object(name string, raw *json.RawMessage) error {
	if absent(*raw) {
		*raw = json.RawMessage("{}")
		return nil
	}
	return normalize[map[string]any](name, "an object", raw)
}

// list normalizes a JSON array; none stays none.
func list(name string, raw *json.RawMessage) error {
	if absent(*raw) {
		*raw = nil
		return nil
	}
	return normalize[[]any](name, "an array", raw)
}

func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}

// normalize decodes and encodes the value, so that Postgres stores it as it is: half a surrogate pair becomes U+FFFD,
// numbers stay as written.
func normalize[T map[string]any | []any](name, kind string, raw *json.RawMessage) error {
	if memory.JSONDepth(*raw) > memory.MaxMetadataDepth {
		return wrong("too_deep", fmt.Sprintf("%s is nested deeper than %d levels", name, memory.MaxMetadataDepth))
	}
	decoder := json.NewDecoder(bytes.NewReader(*raw))
	decoder.UseNumber()
	var value T
	if decoder.Decode(&value) != nil {
		return wrong("wrong_type", name+" is not "+kind)
	}
	if !numbersFit(value) {
		return wrong("out_of_range", name+" holds a number that is out of range")
	}
	encoded, err := marshal(value)
	*raw = encoded
	return err
}

// numbersFit reports whether all numbers are within the range of float64, whatever their digits. Postgres takes more,
// but not all that JSON can write.
func numbersFit(value any) bool {
	switch value := value.(type) {
	case json.Number:
		number, err := strconv.ParseFloat(value.String(), 64)
		vanished := number == 0 && strings.ContainsAny(mantissa(value.String()), "123456789")
		return err == nil && !vanished && len(value) <= 400
	case []any:
		return !slices.ContainsFunc(value, func(element any) bool { return !numbersFit(element) })
	case map[string]any:
		for _, element := range value {
			if !numbersFit(element) {
				return false
			}
		}
	}
	return true
}

func mantissa(number string) string {
	before, _, _ := strings.Cut(strings.ToLower(number), "e")
	return before
}

// marshal is json.Marshal without escapes for HTML.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
