package chat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/uuid"
)

// Limits of a message, in characters (Unicode code points).
const (
	MaxContent       = 32_000
	MaxSources       = 20
	MaxSourceContent = 8_000
	maxSourceLabel   = 2_000 // title and URL
	maxTitle         = 80
	MaxFiles         = 20
	MaxFileBytes     = 256 << 10
	MaxToolName      = 64
	maxPath          = 1024
)

// Message is what a user sends.
type Message struct {
	// ChatID is the chat to continue; uuid.Nil starts a new one.
	ChatID  uuid.UUID
	Content string
	// Variant names the model variant; empty means the first one configured.
	Variant string
	// ClientMessageID makes sending the message again harmless; uuid.Nil for none.
	ClientMessageID uuid.UUID
	// Sources are the retrieved passages that belong to this question. They are not stored.
	Sources  []prompt.Source
	Metadata map[string]any
	// Files are texts that belong to the message. They are stored, and shown as long as there is room.
	Files []memory.File
	// ToolName is the tool through which the message comes; "" for none. A chat that a tool starts
	// expires and has a turn limit: see memory.ToolTTLHours.
	ToolName string
	// ToolInstructions are the tool's own, for this reply; they follow the main model's.
	ToolInstructions string
	// Revive brings an expired chat back.
	Revive bool
	// Resume is where a client that sends the message again wants to go on; nil for the beginning.
	Resume *Cursor
}

// normalize trims the content and reports each field that is out of range.
func (m *Message) normalize() error {
	wrong := map[string]any{}
	m.Content = strings.TrimSpace(m.Content)
	switch length := utf8.RuneCountInString(m.Content); {
	case length == 0:
		wrong["content"] = "must not be empty"
	case length > MaxContent:
		wrong["content"] = fmt.Sprintf("has %d characters, at most %d are accepted", length, MaxContent)
	case strings.ContainsRune(m.Content, 0):
		wrong["content"] = "must not contain the character U+0000"
	}
	if len(m.Sources) > MaxSources {
		wrong["sources"] = fmt.Sprintf("has %d entries, at most %d are accepted", len(m.Sources), MaxSources)
	}
	for i, source := range m.Sources {
		checkSource(wrong, i, source)
	}
	m.checkFiles(wrong)
	if length := utf8.RuneCountInString(m.ToolName); length > MaxToolName || strings.ContainsFunc(m.ToolName, unicode.IsControl) {
		wrong["tool_name"] = fmt.Sprintf("must be at most %d printable characters", MaxToolName)
	}
	if memory.HoldsNUL(m.Metadata) {
		wrong["metadata"] = "must not contain the character U+0000"
	}
	if len(wrong) == 0 {
		return nil
	}
	return &fault.Error{Code: fault.ValidationFailed, Message: "Some fields are missing or out of range.", Details: wrong}
}

func checkSource(wrong map[string]any, i int, source prompt.Source) {
	place := "sources[" + strconv.Itoa(i) + "]"
	if length := utf8.RuneCountInString(source.Content); length > MaxSourceContent {
		wrong[place+".content"] = fmt.Sprintf("has %d characters, at most %d are accepted", length, MaxSourceContent)
	}
	if utf8.RuneCountInString(source.Title) > maxSourceLabel || utf8.RuneCountInString(source.URL) > maxSourceLabel {
		wrong[place] = fmt.Sprintf("title and url may have at most %d characters", maxSourceLabel)
	}
}

// Title makes a chat's title of its first message: the first line, cut at a word end within 80
// characters.
func Title(content string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(content), "\n")
	line = strings.TrimSpace(line)
	runes := []rune(line)
	if len(runes) <= maxTitle {
		return line
	}
	// The character after the cut decides whether the cut is at a word's end already.
	for cut := maxTitle; cut > 0; cut-- {
		if unicode.IsSpace(runes[cut]) {
			return strings.TrimRightFunc(string(runes[:cut]), unicode.IsSpace)
		}
	}
	return string(runes[:maxTitle])
}

// Cursor is a place in a reply that a reader has reached.
type Cursor struct {
	// MessageID is the reply's; uuid.Nil means the chat's latest reply.
	MessageID uuid.UUID
	// After counts the characters that the reader has.
	After int
	// End tells that the reader has seen the terminal event.
	End bool
}

// ParseCursor reads the id of an event: "<message id>:<characters>" or "<message id>:end".
func ParseCursor(eventID string) (Cursor, error) {
	id, place, found := strings.Cut(eventID, ":")
	messageID, err := uuid.Parse(id)
	if !found || err != nil || len(id) != 36 {
		return Cursor{}, fault.New(fault.BadRequest, "The cursor is not an event id of a stream.")
	}
	cursor, err := ParsePlace(place)
	cursor.MessageID = messageID
	return cursor, err
}

// ParsePlace reads a place in a reply: a number of characters, or "end".
func ParsePlace(place string) (Cursor, error) {
	if place == "end" {
		return Cursor{End: true}, nil
	}
	// A place past the end is the end, so a number too large for an int is no error.
	for _, digit := range []byte(place) {
		if digit < '0' || digit > '9' {
			return Cursor{}, malformedPlace()
		}
	}
	if place == "" {
		return Cursor{}, malformedPlace()
	}
	after, err := strconv.Atoi(place)
	if err != nil {
		after = MaxReply
	}
	return Cursor{After: after}, nil
}

// MaxReply is more characters than any reply has.
const MaxReply = 1 << 40

func malformedPlace() error {
	return fault.New(fault.BadRequest, "The place in the reply is neither a number of characters nor \"end\".")
}
