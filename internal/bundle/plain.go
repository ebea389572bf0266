package bundle

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
)

// plainMessage is one line of the plain format.
type plainMessage struct {
	Role       string          `json:"role"`
	Content    *string         `json:"content"`
	CreatedAt  time.Time       `json:"created_at"`
	Name       *string         `json:"name"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID *string         `json:"tool_call_id"`
}

// plain reads one chat, each line of which is a message.
type plain struct {
	content *io.SectionReader
	lines   *lines
	begun   bool
	ended   bool
	count   int
	turn    answering
}

func newPlain(content *io.SectionReader) *plain {
	return &plain{content: content, lines: newLines(content)}
}

func (p *plain) position() position { return p.lines.position() }

func (p *plain) next() (Record, error) {
	if !p.begun {
		p.begun = true
		return Record{Chat: p.chat()}, nil
	}
	line, err := p.lines.next()
	if err == io.EOF && !p.ended { //nolint:errorlint // lines returns it as it is
		p.ended = true
		return Record{End: &End{Messages: p.count}}, nil
	}
	if err != nil {
		return Record{}, err
	}
	message, err := p.message(line)
	p.count++
	return Record{Message: message}, err
}

func (p *plain) message(line []byte) (*Message, error) {
	var said plainMessage
	if err := decode(line, &said); err != nil {
		return nil, err
	}
	if said.Content == nil && absent(said.ToolCalls) {
		return nil, wrong("no_content", "the message has neither content nor tool_calls")
	}
	message := &Message{
		ID: "line " + strconv.Itoa(p.lines.number), Role: said.Role, Content: deref(said.Content), CreatedAt: said.CreatedAt,
		Name: said.Name, ToolCalls: said.ToolCalls, ToolCallID: said.ToolCallID,
	}
	p.turn.answer(message)
	return message, nil
}

// chat looks ahead for the chat's title and the time of its first message. What is wrong with a line is reported when
// that line is read.
func (p *plain) chat() *Chat {
	chat := &Chat{Metadata: json.RawMessage(`{"imported_from":"lines"}`)}
	ahead := &plain{lines: newLines(p.content)}
	for at := 0; ; at++ {
		line, err := ahead.lines.next()
		if err != nil {
			return chat
		}
		message, err := ahead.message(line)
		if err != nil {
			return chat
		}
		if at == 0 {
			chat.CreatedAt = message.CreatedAt
		}
		if message.Role == string(memory.RoleUser) {
			chat.Title = titleOf(message.Content)
			return chat
		}
	}
}

// longestTitle is where a title that is made of a message is cut, in characters, as for any new chat.
const longestTitle = 80

// titleOf is the first line, cut.
func titleOf(content string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(content), "\n")
	return cut(strings.TrimSpace(line), longestTitle)
}

func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:most-1])) + "…"
}

// answering links each reply to the user message before it, where the format does not.
type answering struct {
	user *string
}

func (a *answering) answer(message *Message) {
	switch memory.Role(message.Role) {
	case memory.RoleUser:
		a.user = &message.ID
	case memory.RoleAssistant:
		message.ReplyTo = a.user
	}
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
