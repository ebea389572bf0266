package chat

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Limits of a message, in characters (Unicode code points).
const (
	MaxContent       = 32_000
	MaxSources       = 20
	MaxSourceContent = 8_000
	maxSourceLabel   = 2_000 // title and URL
	MaxFiles         = 20
	MaxFileBytes     = 256 << 10
	MaxToolName      = 64
	maxPath          = 1024
)

// Message is a message of a user.
type Message struct {
	// ChatID is the chat to continue; uuid.Nil starts a new one, or means the chat of the message that is replaced.
	ChatID  uuid.UUID
	Content string
	// Replaces is the message that is edited, by its id or client message id; uuid.Nil for none. With Regenerate, which has no
	// Content, it is a reply or a message of the user that gets another reply.
	Replaces   uuid.UUID
	Regenerate bool
	// Last is the last message of the path that the client shows, uuid.Nil for an empty path; nil where it does not say.
	Last *uuid.UUID
	// Variant names the model variant; empty means the first one configured.
	Variant string
	// ClientMessageID identifies the message when the client sends it again; uuid.Nil for none.
	ClientMessageID uuid.UUID
	// Sources are the passages that the app retrieved for this question. They are not stored.
	Sources  []prompt.Source
	Metadata map[string]any
	// Files are stored with the message, and shown in prompts while there is room.
	Files []memory.File
	// Importance is how important the message is as the app sees it, from 0 to 1; nil for not rated.
	Importance *float64
	// NewChat are the settings of the chat that the message starts, checked by the caller; nil for the defaults of
	// memory.ChatDefaults.
	NewChat *Settings
	// ToolName is the tool that sends the message; "" for none.
	ToolName string
	// ToolInstructions are for this reply only. They follow the main model's instructions.
	ToolInstructions string
	// Tools are what the model may call; nil for all tools of the server, which an empty list is not.
	Tools *[]ToolDeclaration
	// ToolChoice is whether it has to call one at first; "" for ChoiceAuto.
	ToolChoice ToolChoice
	// Revive ends the expiry of a chat that has expired.
	Revive bool
	// Resume is where a client that sends the message again continues to read; nil for the beginning.
	Resume *Cursor
}

// Settings of a new chat.
type Settings struct {
	// Title is made by the database, of the chat's first message, when it is empty.
	Title        string
	SystemPrompt *string // nil for none
	Tags         []string
	Strategy     memory.StrategyName // "" for the default
	TTLHours     int                 // 0 for none
	MaxTurns     int                 // 0 for none
	Topics       string              // auto, on or off; "" for auto
	Recall       string              // all or chat: whose turns prompts may quote; "" for all
	Temporary    bool                // nothing of the chat is remembered in others, and nothing of them is shown
}

// settings are the ones of the chat that the message starts.
func (m *Message) settings(defaults memory.ChatDefaults) Settings {
	defaults = defaults.For(m.ToolName)
	settings := Settings{Strategy: defaults.Strategy, TTLHours: defaults.TTLHours, MaxTurns: defaults.MaxTurns}
	if m.NewChat != nil {
		settings = *m.NewChat
	}
	if strings.TrimSpace(settings.Title) == "" {
		settings.Title = ""
	}
	return settings
}

// normalize trims the content and reports each field that is out of range.
func (m *Message) normalize() error {
	wrong := map[string]any{}
	m.Content = strings.TrimSpace(m.Content)
	if problem := contentProblem(m.Content); problem != "" && !m.Regenerate {
		wrong["content"] = problem
	}
	if m.Regenerate && len(m.Files) > 0 {
		wrong["files"] = "come with a content"
	}
	if len(m.Sources) > MaxSources {
		wrong["sources"] = fmt.Sprintf("has %d entries, at most %d are accepted", len(m.Sources), MaxSources)
	}
	for i, source := range m.Sources {
		checkSource(wrong, i, source)
	}
	m.checkFiles(wrong)
	m.checkTools(wrong)
	if length := utf8.RuneCountInString(m.ToolName); length > MaxToolName || strings.ContainsFunc(m.ToolName, unicode.IsControl) {
		wrong["tool_name"] = fmt.Sprintf("must be at most %d printable characters", MaxToolName)
	}
	// Written this way round so that NaN is refused.
	if m.Importance != nil && !(*m.Importance >= 0 && *m.Importance <= 1) {
		wrong["importance"] = "must be between 0 and 1"
	}
	if memory.HoldsNUL(m.Metadata) {
		wrong["metadata"] = "must not contain the character U+0000"
	}
	if len(wrong) == 0 {
		return nil
	}
	return invalid(wrong)
}

func invalid(wrong map[string]any) error {
	return &fault.Error{Code: fault.ValidationFailed, Message: "Some fields are missing or out of range.", Details: wrong}
}

// contentProblem returns why a content is refused, "" when it is not.
func contentProblem(content string) string {
	switch length := utf8.RuneCountInString(content); {
	case length == 0:
		return "must not be empty"
	case length > MaxContent:
		return fmt.Sprintf("has %d characters, at most %d are accepted", length, MaxContent)
	case strings.ContainsRune(content, 0):
		return "must not contain the character U+0000"
	}
	return ""
}

func checkSource(wrong map[string]any, i int, source prompt.Source) {
	field := "sources[" + strconv.Itoa(i) + "]"
	if length := utf8.RuneCountInString(source.Content); length > MaxSourceContent {
		wrong[field+".content"] = fmt.Sprintf("has %d characters, at most %d are accepted", length, MaxSourceContent)
	}
	if utf8.RuneCountInString(source.Title) > maxSourceLabel || utf8.RuneCountInString(source.URL) > maxSourceLabel {
		wrong[field] = fmt.Sprintf("title and url may have at most %d characters", maxSourceLabel)
	}
}

// Cursor is the position in a reply that a reader has reached.
type Cursor struct {
	// MessageID is the reply's; uuid.Nil means the chat's latest reply.
	MessageID uuid.UUID
	// After counts the characters that the reader has.
	After int
	// Parts counts the parts that the reader has; -1 when it does not say.
	Parts int
	// End reports that the reader has seen the terminal event.
	End bool
}

// ParseCursor reads the id of an event: "<message id>:<position>".
func ParseCursor(eventID string) (Cursor, error) {
	id, position, found := strings.Cut(eventID, ":")
	messageID, err := uuid.Parse(id)
	if !found || err != nil || len(id) != 36 {
		return Cursor{}, fault.New(fault.BadRequest, "The cursor is not an event id of a stream.")
	}
	cursor, err := ParsePosition(position)
	cursor.MessageID = messageID
	return cursor, err
}

// ParsePosition reads a position in a reply: "<characters>", "<characters>.<parts>" or "end". There is none with 0 parts.
func ParsePosition(position string) (Cursor, error) {
	if position == "end" {
		return Cursor{End: true, Parts: -1}, nil
	}
	chars, parts, named := strings.Cut(position, ".")
	cursor := Cursor{After: count(chars), Parts: -1}
	if named {
		cursor.Parts = count(parts)
	}
	if cursor.After < 0 || named && cursor.Parts < 1 {
		return Cursor{}, fault.New(fault.BadRequest, "The place in the reply is neither a number of characters, with or without one of parts, nor \"end\".")
	}
	return cursor, nil
}

// count reads a number of characters or parts; -1 for any other text.
func count(text string) int {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return -1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return maxReplyChars // a position past the end means the end, so a number too large for an int is no error
	}
	return n
}

// maxReplyChars is more characters than any reply has, and more parts.
const maxReplyChars = 1 << 40

// checkFiles adds a sentence to wrong for each file that is refused, by its index.
func (m *Message) checkFiles(wrong map[string]any) {
	if len(m.Files) > MaxFiles {
		wrong["files"] = fmt.Sprintf("has %d entries, at most %d are accepted", len(m.Files), MaxFiles)
	}
	for i, file := range m.Files {
		if problem := fileProblem(file); problem != "" {
			wrong["files["+strconv.Itoa(i)+"]"] = problem
		}
	}
}

// fileProblem returns why a file is refused, "" when it is not.
func fileProblem(file memory.File) string {
	name := strconv.Quote(shortened(file.Path))
	switch {
	case strings.TrimSpace(file.Path) == "":
		return "has no path"
	case utf8.RuneCountInString(file.Path) > maxPath || strings.ContainsFunc(file.Path, unicode.IsControl):
		return fmt.Sprintf("%s: a path is at most %d printable characters", name, maxPath)
	case len(file.Content) > MaxFileBytes:
		return fmt.Sprintf("%s has %d bytes, at most %d are accepted", name, len(file.Content), MaxFileBytes)
	case isBinary(file.Content):
		return name + " is not a text file"
	}
	return ""
}

// shortened returns the beginning of a path that is too long for an error message.
func shortened(path string) string {
	const most = 200
	if runes := []rune(path); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return path
}

// binaryShare: more than one control or replacement character in so many characters means that a content is not text.
const binaryShare = 10

func isBinary(content string) bool {
	odd, all := 0, 0
	for _, r := range content {
		all++
		switch {
		case r == 0:
			return true
		case r == utf8.RuneError, unicode.IsControl(r) && !strings.ContainsRune("\t\n\v\f\r\b\x1b\u0085", r):
			odd++
		}
	}
	return odd*binaryShare > all
}

// newFiles adds hashes and token counts. A content that occurs twice is tokenized once.
func newFiles(files []memory.File) []NewFile {
	if len(files) == 0 {
		return nil
	}
	made := make([]NewFile, len(files))
	tokens := make(map[[sha256.Size]byte]int, len(files))
	for i, file := range files {
		hash := sha256.Sum256([]byte(file.Content))
		if _, counted := tokens[hash]; !counted {
			tokens[hash] = text.Tokens(file.Content)
		}
		made[i] = NewFile{File: file, SHA256: hash, Tokens: tokens[hash]}
	}
	return made
}

// place is the cursor's.
func (c Cursor) place() streaming.Place { return streaming.Place{Chars: c.After, Parts: c.Parts} }
