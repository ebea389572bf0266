package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// problem is the fault of a record: a name for programs and a clause for people, without content of the file.
type problem struct {
	reason, message string
}

func (p *problem) Error() string { return p.message }

func wrong(reason, message string) error { return &problem{reason, message} }

type position struct {
	line int
	// conversation counts from 0 in ChatGPT's format; -1 elsewhere.
	conversation int
}

// at makes a fault of a problem. It returns any other error, which is one of reading, as it is.
func at(where position, err error) error {
	found, ok := errors.AsType[*problem](err)
	if !ok {
		return err
	}
	details := map[string]any{"line": where.line, "reason": found.reason}
	message := fmt.Sprintf("Line %d: %s.", where.line, found.message)
	if where.conversation >= 0 {
		details["conversation"] = where.conversation
		message = fmt.Sprintf("Line %d, conversation %d: %s.", where.line, where.conversation, found.message)
	}
	return &fault.Error{Code: fault.ImportInvalid, Message: message, Details: details}
}

// jsonProblem makes a problem of an error of encoding/json, whose own text may quote the file.
func jsonProblem(err error) error {
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax || errors.Is(err, io.ErrUnexpectedEOF) {
		return wrong("bad_json", "this is not valid JSON")
	}
	if errors.Is(err, io.EOF) {
		return wrong("bad_json", "the file ends in the middle")
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if kind.Field == "" {
			return wrong("wrong_type", "a JSON object is expected here")
		}
		return wrong("wrong_type", fmt.Sprintf("the field %s is of the wrong type", kind.Field))
	}
	return err
}

// decode reads a value into a struct. A date is the only thing in it that can fail without a JSON error.
func decode(raw []byte, into any) error {
	err := jsonProblem(json.Unmarshal(raw, into))
	if _, known := errors.AsType[*problem](err); err == nil || known {
		return err
	}
	return wrong("bad_date", "a date is not of the form 2026-11-21T15:04:05Z")
}

// maxDepth is how many levels a record may have: memory.MaxMetadataDepth and the levels around the metadata.
const maxDepth = 40

// checkText refuses what Postgres cannot store and what would be expensive to decode.
func checkText(raw []byte) error {
	switch {
	case !utf8.Valid(raw):
		return wrong("invalid_utf8", "the text is not valid UTF-8")
	case holdsNUL(raw):
		return wrong("null_character", "the text holds the character U+0000")
	case memory.JSONDepth(raw) > maxDepth:
		return wrong("too_deep", fmt.Sprintf("the value is nested deeper than %d levels", maxDepth))
	}
	return nil
}

// holdsNUL reports whether JSON contains the escape of U+0000; unescaped, the character is not valid JSON.
func holdsNUL(raw []byte) bool {
	escape := []byte(`\u0000`)
	return bytes.Contains(raw, escape) && bytes.Contains(bytes.ReplaceAll(raw, []byte(`\\`), nil), escape)
}

// Limits of what only an import brings, in characters (Unicode code points) unless noted. The limits of a chat are in
// package memory.
const (
	MaxContent    = 1_000_000
	MaxChats      = 50_000
	maxFileBytes  = 262_144
	maxPath       = 1024
	maxName       = 256
	maxZone       = 64
	maxExcluded   = 50
	maxSubject    = 100
	maxTopicTitle = 80
	maxTopicTags  = 8000 // bytes, as Postgres writes them
)

func checkChat(c *Chat) error {
	c.MemoryStrategy = cmp.Or(c.MemoryStrategy, "summary")
	if c.Tags == nil {
		c.Tags = []string{}
	}
	if len(c.Tags) > memory.MaxTags {
		return wrong("too_many_tags", fmt.Sprintf("there are more than %d tags", memory.MaxTags))
	}
	return cmp.Or(
		eachWithin("tags", c.Tags, memory.MaxTag),
		oneOf("unknown_titled_by", "titled_by", cmp.Or(c.TitledBy, "model"), "model", "first_message"),
		oneOf("unknown_strategy", "memory_strategy", c.MemoryStrategy, "simple", "summary", "hybrid"),
		oneOf("unknown_topics", "topics", *cmp.Or(c.Topics, new("auto")), "auto", "on", "off"),
		oneOf("unknown_recall", "recall", *cmp.Or(c.Recall, new("all")), "all", "chat"),
		within("title", &c.Title, 0, memory.MaxTitle),
		within("system_prompt", c.SystemPrompt, 0, memory.MaxSystemPrompt),
		within("tool_name", c.ToolName, 1, memory.MaxToolName),
		between("ttl_hours", c.TTLHours, memory.MaxTTLHours),
		between("max_turns", c.MaxTurns, memory.MaxTurnLimit),
		storable(&c.CreatedAt),
		normalize[map[string]any]("metadata", "an object", &c.Metadata, json.RawMessage("{}")),
	)
}

func checkMessage(m *Message) error {
	m.Status = cmp.Or(m.Status, string(memory.StatusComplete))
	switch {
	case m.Status == string(memory.StatusStreaming):
		return wrong("streaming", "a reply that is still being written cannot be imported")
	case utf8.RuneCountInString(m.Content) > MaxContent:
		return wrong("content_too_long", fmt.Sprintf("the content is longer than %d characters", MaxContent))
	case m.Importance != nil && !(*m.Importance >= 0 && *m.Importance <= 1):
		return wrong("out_of_range", "importance is not between 0 and 1")
	case m.Rating != nil && (*m.Rating < -1 || *m.Rating > 1):
		return wrong("out_of_range", "rating is not between -1 and 1")
	}
	for i := range m.Files {
		if err := within("path", &m.Files[i].Path, 1, maxPath); err != nil {
			return err
		}
		m.Files[i].SHA256 = strings.ToLower(m.Files[i].SHA256)
	}
	if err := setAside(m); err != nil {
		return err
	}
	return cmp.Or(
		checkRole(m.Role),
		oneOf("unknown_status", "the status", m.Status, "complete", "failed", "cancelled", "interrupted"),
		within("tool_call_id", m.ToolCallID, 0, maxName),
		within("name", m.Name, 0, maxName),
		within("tool_name", m.ToolName, 0, memory.MaxToolName),
		storable(&m.CreatedAt, &m.UpdatedAt),
		normalize[[]any]("tool_calls", "an array", &m.ToolCalls, nil),
		checkParts(m),
		normalize[map[string]any]("metadata", "an object", &m.Metadata, json.RawMessage("{}")),
	)
}

func checkTopic(t *Topic) error {
	if t.Tags == nil {
		t.Tags = []string{}
	}
	t.Title = oneLine(t.Title)
	if err := eachWithin("tags", t.Tags, memory.MaxTag); err != nil {
		return err
	}
	bytes := 2
	for _, tag := range t.Tags {
		bytes += len(tag) + strings.Count(tag, `"`) + strings.Count(tag, `\`) + len(`"",`)
	}
	switch {
	case len(t.Tags) > memory.MaxTags:
		return wrong("too_many_tags", fmt.Sprintf("there are more than %d tags", memory.MaxTags))
	case bytes > maxTopicTags:
		return wrong("bad_length", "the tags are too long together")
	case !(t.Importance >= 0 && t.Importance <= 1):
		return wrong("out_of_range", "importance is not between 0 and 1")
	}
	if t.Renamed && (t.Title == "" || utf8.RuneCountInString(t.Title) > maxTopicTitle) {
		return wrong("bad_length", fmt.Sprintf("title must have 1 to %d characters", maxTopicTitle))
	}
	return storable(&t.CreatedAt, &t.LastActiveAt)
}

func checkRole(role string) error {
	return oneOf("unknown_role", "the role", role, "user", "assistant", "system", "tool")
}

func oneOf(reason, name, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	last := len(known) - 1
	return wrong(reason, fmt.Sprintf("%s is none of %s and %s", name, strings.Join(known[:last], ", "), known[last]))
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

// eachWithin checks texts that must not be empty.
func eachWithin(name string, texts []string, most int) (err error) {
	for i := range texts {
		err = cmp.Or(err, within(name, &texts[i], 1, most))
	}
	return err
}

func between(name string, number *int, most int) error {
	if number != nil && (*number < 1 || *number > most) {
		return wrong("out_of_range", fmt.Sprintf("%s is not between 1 and %d", name, most))
	}
	return nil
}

// storable refuses dates that RFC 3339 cannot write in UTC. Postgres has more of them, and no client could read them.
func storable(dates ...*time.Time) error {
	for _, date := range dates {
		if year := cmp.Or(date, &time.Time{}).UTC().Year(); year < 1 || year > 9999 {
			return wrong("bad_date", "a date is not between the years 1 and 9999 (UTC)")
		}
	}
	return nil
}

func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}

// normalize decodes and encodes the value, so that Postgres stores it as it is: half a surrogate pair becomes U+FFFD,
// numbers stay as written. It sets absent fields to otherwise.
func normalize[T map[string]any | []any](name, kind string, raw *json.RawMessage, otherwise json.RawMessage) error {
	if absent(*raw) {
		*raw = otherwise
		return nil
	}
	if memory.JSONDepth(*raw) > memory.MaxMetadataDepth {
		return wrong("too_deep", fmt.Sprintf("%s is nested deeper than %d levels", name, memory.MaxMetadataDepth))
	}
	decoder := json.NewDecoder(bytes.NewReader(*raw))
	decoder.UseNumber()
	var value T
	if decoder.Decode(&value) != nil {
		return wrong("wrong_type", name+" is not "+kind)
	}
	if memory.AnyIn(any(value), outOfRange) {
		return wrong("out_of_range", name+" holds a number that is out of range")
	}
	encoded, err := memory.EncodeJSON(value)
	*raw = encoded
	return err
}

// outOfRange reports whether a number is beyond the range of float64, with any number of digits. Postgres takes more,
// but not all that JSON can write.
func outOfRange(value any) bool {
	number, is := value.(json.Number)
	if !is {
		return false
	}
	parsed, err := number.Float64()
	mantissa, _, _ := strings.Cut(strings.ToLower(number.String()), "e")
	vanished := parsed == 0 && strings.ContainsAny(mantissa, "123456789")
	return err != nil || vanished || len(number) > 400
}

// ours are the keys of a reply's metadata that the server itself writes and reads, each with the character that its
// values begin with.
var ours = map[string]byte{
	"model_variant": '"', "model": '"', "response_id": '"', "finish_reason": '"', "usage": '{', "memory": '{', "failure": '{',
}

// keyForeign is where a reply's metadata keeps what a file has under our keys and is not of our making.
const keyForeign = "foreign"

// setAside moves such values of a reply under keyForeign. It leaves metadata that is no object to the check that follows.
func setAside(m *Message) error {
	var all map[string]json.RawMessage
	if m.Role == string(memory.RoleAssistant) && !absent(m.Metadata) {
		_ = json.Unmarshal(m.Metadata, &all) // see above
	}
	foreign := map[string]json.RawMessage{}
	for key, begin := range ours {
		if value := all[key]; !absent(value) && value[0] != begin {
			foreign[key] = value
			delete(all, key)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	if before, twice := all[keyForeign]; twice {
		foreign[keyForeign] = before
	}
	aside, err := memory.EncodeJSON(foreign)
	if err != nil {
		return err
	}
	all[keyForeign] = aside
	m.Metadata, err = memory.EncodeJSON(all)
	return err
}
