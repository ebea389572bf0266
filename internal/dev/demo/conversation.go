package demo

import (
	"bufio"
	"bytes"
	_ "embed" // the built-in conversation
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
)

// builtin is a conversation over some months with a person who learns the cello.
//
//go:embed conversation.jsonl
var builtin string

// builtinQuestion asks about the beginning of the built-in conversation.
const builtinQuestion = "What is the full name of my cello teacher?"

// The formats of conversations.
const (
	// FormatJSONL has one Line as JSON on each line.
	FormatJSONL = "jsonl"
	// FormatLongMemEval is that of the LongMemEval data sets: see ReadLongMemEval.
	FormatLongMemEval = "longmemeval"
)

// Line is one message of a conversation.
type Line struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// CreatedAt is shown while the message is played; zero if unknown. The server stores the time at
	// which it received the message.
	CreatedAt time.Time `json:"created_at"`
}

var roles = []string{"user", "assistant", "system", "tool"}

// maxLine bounds one line of a file, in bytes.
const maxLine = 8 << 20

// ReadConversation reads a conversation in JSON lines. Blank lines and unknown fields are
// ignored. The error names the wrong line, from 1.
func ReadConversation(r io.Reader) ([]Line, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	var lines []Line
	number := 1
	for ; scanner.Scan(); number++ {
		text := bytes.TrimSpace(bytes.TrimPrefix(scanner.Bytes(), []byte("\uFEFF")))
		if len(text) == 0 {
			continue
		}
		var line Line
		err := json.Unmarshal(text, &line)
		if err == nil {
			err = line.check()
		}
		if err != nil {
			return nil, fmt.Errorf("conversation, line %d: %w", number, err)
		}
		lines = append(lines, line)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("conversation, line %d: %w", number, err)
	}
	return lines, nil
}

func (l Line) check() error {
	if !slices.Contains(roles, l.Role) {
		return fmt.Errorf("the role is %q, but must be one of %s", l.Role, strings.Join(roles, ", "))
	}
	if strings.ContainsRune(l.Content, 0) {
		return errors.New("the content holds the character U+0000, which Postgres cannot keep")
	}
	return nil
}

// BuiltinConversation returns the conversation that is played by default.
func BuiltinConversation() ([]Line, error) { return ReadConversation(strings.NewReader(builtin)) }

// script is the part of a conversation that is played, and counts of the rest.
type script struct {
	turns []Line // user messages, fit to be sent
	// blank counts user messages without text, which are left out; cut those shortened to the server's limit.
	blank, cut int
	// unsaid counts the lines of other roles, which are not sent: the server's model replies itself.
	unsaid int
}

// newScript takes the first user messages, most of them at most (0: all), and the lines between them.
func newScript(lines []Line, most int) script {
	var s script
	for _, line := range lines {
		content := strings.TrimSpace(line.Content)
		switch {
		case line.Role != "user":
			s.unsaid++
			continue
		case content == "":
			s.blank++
			continue
		case most > 0 && len(s.turns) == most:
			return s
		}
		if runes := []rune(content); len(runes) > chat.MaxContent {
			content = strings.TrimSpace(string(runes[:chat.MaxContent]))
			s.cut++
		}
		line.Content = content
		s.turns = append(s.turns, line)
	}
	return s
}

// notes lists what is not played as it was written.
func (s script) notes() []string {
	var notes []string
	if s.unsaid > 0 {
		notes = append(notes, fmt.Sprintf("Only the user's lines are sent: %s by others in the file are left out, and every reply "+
			"is the words of the server's own model.", count(s.unsaid, "line")))
	}
	if s.blank > 0 {
		notes = append(notes, count(s.blank, "user message")+" without text left out.")
	}
	if s.cut > 0 {
		notes = append(notes, fmt.Sprintf("%s longer than %s characters, the server's limit: sent only up to there.",
			count(s.cut, "user message"), grouped(chat.MaxContent)))
	}
	return notes
}
