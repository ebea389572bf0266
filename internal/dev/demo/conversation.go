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
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/chat"
)

// builtin is a conversation of our own: some months in the life of somebody who learns the cello.
//
//go:embed conversation.jsonl
var builtin string

// builtinQuestion is about something that was said at the very beginning.
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
	// CreatedAt is shown while the message is played; zero where unknown. The server keeps the time at
	// which it got the message.
	CreatedAt time.Time `json:"created_at"`
}

var roles = []string{"user", "assistant", "system", "tool"}

// maxLine bounds one line of a file, in bytes.
const maxLine = 8 << 20

// ReadConversation reads a conversation in JSON lines. Blank lines are passed over, unknown fields
// ignored. The error names the line that is wrong, from 1.
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
		line, err := parseLine(text)
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

func parseLine(text []byte) (Line, error) {
	var line Line
	if err := json.Unmarshal(text, &line); err != nil {
		return Line{}, err
	}
	return line, line.check()
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

// BuiltinConversation gives the conversation that is played where no other one is given.
func BuiltinConversation() ([]Line, error) { return ReadConversation(strings.NewReader(builtin)) }

// script is what is played of a conversation, and what is not.
type script struct {
	turns []Line // user messages, fit to be sent
	// blank and cut count user messages left out because they hold nothing, and shortened because they
	// are longer than the server accepts.
	blank, cut int
	// unsaid counts the lines of others, which are not sent: the server's model replies itself.
	unsaid int
}

// newScript takes the first most user messages (0: all), and what stands between them.
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
		var cut bool
		line.Content, cut = fitMessage(content)
		if cut {
			s.cut++
		}
		s.turns = append(s.turns, line)
	}
	return s
}

// fitMessage cuts a message at the server's limit.
func fitMessage(content string) (fit string, cut bool) {
	if utf8.RuneCountInString(content) <= chat.MaxContent {
		return content, false
	}
	return strings.TrimSpace(string([]rune(content)[:chat.MaxContent])), true
}

// notes tells what is not played as it was written.
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
