package memory

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// Role says who speaks in a message.
type Role string

// The roles a stored message can have.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
	RoleTool      Role = "tool"
)

// Label is the word that stands before a message's text, in prompts and in fold inputs.
func (r Role) Label() string {
	switch r {
	case RoleAssistant:
		return "Assistant"
	case RoleSystem:
		return "System"
	case RoleTool:
		return "Tool"
	default:
		return "User"
	}
}

// LabelTokens is what a speaker label takes beside the message, in tokens, from above.
const LabelTokens = 4

// Status says how far a message got.
type Status string

// The statuses a stored message can have. Memory tells only StatusStreaming from the rest: whatever
// a row holds is part of the conversation, however its generation ended.
const (
	StatusComplete    Status = "complete"
	StatusStreaming   Status = "streaming"
	StatusFailed      Status = "failed"
	StatusCancelled   Status = "cancelled"
	StatusInterrupted Status = "interrupted"
)

// Message is one stored row, as far as memory cares.
type Message struct {
	// ID names the row; ReplyTo names the row it answers, uuid.Nil for none.
	ID, ReplyTo uuid.UUID
	// Seq is the row's place in its chat: 1, 2, 3 … in commit order.
	Seq     int64
	Role    Role
	Status  Status
	Content string
	// Tokens is the row's stored token_count. It is trusted, never counted again: only text that has
	// to be cut or split is tokenized here.
	Tokens    int
	CreatedAt time.Time
	// Pinned and Importance, 0 to 1, are what the app says of the message.
	Pinned     bool
	Importance float32
}

// Keeps tells whether a hybrid chat shows the message for ever.
func (m *Message) Keeps() bool {
	return m.Pinned || m.Importance >= KeptImportance
}

// Blank tells whether the row holds no text. Blank rows are shown nowhere.
func (m Message) Blank() bool {
	return strings.TrimSpace(m.Content) == ""
}

// Turn is one user message and what answered it, with the tool and system rows in between. Its
// messages are in seq order and include blank rows, so that the range of a turn has no holes.
type Turn struct {
	Messages []Message
}

// Tokens is the sum of the rows' stored counts.
func (t Turn) Tokens() int {
	sum := 0
	for i := range t.Messages {
		sum += max(0, t.Messages[i].Tokens)
	}
	return sum
}

// FirstSeq is the lowest seq of the turn, 0 when it has no message.
func (t Turn) FirstSeq() int64 {
	if len(t.Messages) == 0 {
		return 0
	}
	return t.Messages[0].Seq
}

// LastSeq is the highest seq of the turn, 0 when it has no message.
func (t Turn) LastSeq() int64 {
	if len(t.Messages) == 0 {
		return 0
	}
	return t.Messages[len(t.Messages)-1].Seq
}

// UserMessages counts the turn's user rows, as the counter pending_turns does: 1 for an ordinary
// turn, 0 for a greeting.
func (t Turn) UserMessages() int {
	return t.count(func(m *Message) bool { return m.Role == RoleUser })
}

// Streaming tells whether a row of the turn is still being written.
func (t Turn) Streaming() bool {
	return t.count(func(m *Message) bool { return m.Status == StatusStreaming }) > 0
}

// Blank tells whether no row of the turn holds text.
func (t Turn) Blank() bool {
	return t.count(func(m *Message) bool { return !m.Blank() }) == 0
}

// StartedAt is when the turn's first row was written; the zero time when that is unknown.
func (t Turn) StartedAt() time.Time {
	if len(t.Messages) == 0 {
		return time.Time{}
	}
	return t.Messages[0].CreatedAt
}

// AnswersUnread reports whether the turn is a reply alone, without the message that it answers.
func (t Turn) AnswersUnread() bool {
	return t.UserMessages() == 0 && t.count(func(m *Message) bool { return m.ReplyTo != uuid.Nil }) > 0
}

func (t Turn) count(is func(*Message) bool) int {
	n := 0
	for i := range t.Messages {
		if is(&t.Messages[i]) {
			n++
		}
	}
	return n
}
