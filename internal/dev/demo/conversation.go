package demo

import (
	_ "embed" // the built-in conversation
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/arcoscribe/throughline/internal/chat"
)

//go:embed conversation.jsonl
var builtin string

// Line is a message of a conversation.
type Line struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// BuiltinConversation returns the conversation that is played by default.
func BuiltinConversation() ([]Line, error) { return readLines(strings.NewReader(builtin)) }

// messages returns what the user says in the conversation. Replies are the words of the server's own model.
func (o Options) messages() ([]string, error) {
	var conversation io.Reader = strings.NewReader(builtin)
	if o.Conversation != nil {
		conversation = o.Conversation
	}
	lines, err := readLines(conversation)
	if err != nil {
		return nil, fmt.Errorf("conversation: %w", err)
	}
	var messages []string
	for _, l := range lines {
		content := []rune(strings.TrimSpace(l.Content))
		if l.Role == "user" && len(content) > 0 && (o.Turns <= 0 || len(messages) < o.Turns) {
			messages = append(messages, strings.TrimSpace(string(content[:min(len(content), chat.MaxContent)])))
		}
	}
	if len(messages) == 0 {
		return nil, errors.New("the conversation has no user message with text")
	}
	return messages, nil
}

func readLines(r io.Reader) ([]Line, error) {
	var lines []Line
	for decoder := json.NewDecoder(r); ; {
		var next Line
		switch err := decoder.Decode(&next); {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, fmt.Errorf("message %d: %w", len(lines)+1, err)
		}
		lines = append(lines, next)
	}
}
