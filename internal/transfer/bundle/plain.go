package bundle

import (
	"cmp"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// plain reads one chat, each line of which is a message.
type plain struct {
	*lines
	content *io.SectionReader
}

func (p *plain) read(emit func(Record) error) error {
	if err := emit(Record{Chat: p.chat()}); err != nil {
		return err
	}
	var user *string // the latest one's message, which the format does not say that a reply answers
	count := 0
	err := p.each(func(line []byte) error {
		message, err := plainMessage(line)
		if err != nil {
			return err
		}
		message.ID = "line " + strconv.Itoa(p.number)
		switch {
		case message.Role == string(memory.RoleUser):
			user = &message.ID
		case message.Role == string(memory.RoleAssistant) && message.Content != "": // else it only calls a tool
			message.ReplyTo = user
		}
		count++
		return emit(Record{Message: message})
	})
	if err != nil {
		return err
	}
	return emit(Record{End: &End{Messages: count}})
}

func plainMessage(line []byte) (*Message, error) {
	var said struct {
		Role       string          `json:"role"`
		Content    *string         `json:"content"`
		CreatedAt  time.Time       `json:"created_at"`
		Name       *string         `json:"name"`
		ToolCalls  json.RawMessage `json:"tool_calls"`
		ToolCallID *string         `json:"tool_call_id"`
	}
	if err := decode(line, &said); err != nil {
		return nil, err
	}
	if said.Content == nil && absent(said.ToolCalls) {
		return nil, wrong("no_content", "the message has neither content nor tool_calls")
	}
	return &Message{
		Role: said.Role, Content: deref(said.Content), CreatedAt: said.CreatedAt, Name: said.Name, ToolCalls: said.ToolCalls, ToolCallID: said.ToolCallID,
	}, nil
}

// chat looks ahead for the chat's title and the time of its first message. A problem of a line is reported when
// that line is read.
func (p *plain) chat() *Chat {
	chat := &Chat{Metadata: json.RawMessage(`{"imported_from":"lines"}`), TitledBy: "first_message"}
	first := true
	_ = newLines(p.content).each(func(line []byte) error {
		message, err := plainMessage(line)
		if err != nil {
			return err
		}
		if first {
			chat.CreatedAt, first = message.CreatedAt, false
		}
		if message.Role != string(memory.RoleUser) {
			return nil
		}
		title, _, _ := strings.Cut(strings.TrimSpace(message.Content), "\n")
		chat.Title = text.Shorten(strings.TrimSpace(title), longestTitle)
		return errStopped
	})
	return chat
}

// longestTitle is where a title that is made of a message is cut, in characters, as for any new chat.
const longestTitle = 80

func deref(text *string) string { return *cmp.Or(text, new(string)) }
