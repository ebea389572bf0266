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

// builtinQuestions ask about the beginning of the built-in conversation: for what it is about, and for a single fact, of
// which a summary may say nothing.
var builtinQuestions = []string{"What is the full name of my cello teacher?", "What do I pay a month to rent the cello?"}

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

// readFile reads a LongMemEval file, which begins with a bracket, or a conversation in JSON lines.
func readFile(r io.Reader, history int) ([]Line, error) {
	file := bufio.NewReader(r)
	if first, _ := file.Peek(1); string(first) == "[" {
		return readLongMemEval(file, history)
	}
	return ReadConversation(file)
}

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

// userMessages returns the first messages with text by the user, at most most of them (0: all), fit to be sent: longer
// ones are cut at the server's limit. unsent counts the other lines before their end.
func userMessages(lines []Line, most int) (messages []Line, unsent int) {
	for _, line := range lines {
		line.Content = strings.TrimSpace(line.Content)
		switch {
		case line.Role != "user" || line.Content == "":
			unsent++
			continue
		case most > 0 && len(messages) == most:
			return messages, unsent
		}
		if runes := []rune(line.Content); len(runes) > chat.MaxContent {
			line.Content = strings.TrimSpace(string(runes[:chat.MaxContent]))
		}
		messages = append(messages, line)
	}
	return messages, unsent
}
