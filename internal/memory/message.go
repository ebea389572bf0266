package memory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Role is the role of a message's author.
type Role string

// The roles a stored message can have.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
	RoleTool      Role = "tool"
)

// Label returns the speaker label before a message's text in prompts and fold inputs.
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

// LabelTokens is an upper bound of the tokens that a speaker label takes.
const LabelTokens = 4

// Status is the state of a message.
type Status string

// The statuses a stored message can have. Memory treats all that have ended alike: the text of a row is part of the
// conversation, however its generation ended.
const (
	StatusComplete  Status = "complete"
	StatusStreaming Status = "streaming"
	// StatusAwaiting is a reply that waits for the result of a client's tool, or for an approval.
	StatusAwaiting    Status = "awaiting"
	StatusFailed      Status = "failed"
	StatusCancelled   Status = "cancelled"
	StatusInterrupted Status = "interrupted"
)

// Message is a row of messages, as far as memory needs it.
type Message struct {
	// ReplyTo is the ID of the message that this one answers; uuid.Nil for none.
	ID, ReplyTo uuid.UUID
	// Seq numbers the messages of a chat 1, 2, 3 … in commit order.
	Seq     int64
	Role    Role
	Status  Status
	Content string
	// Tokens is the row's token_count: of all that a prompt shows of it; an estimate, where tool calls or somebody's SQL
	// are in it.
	Tokens    int
	CreatedAt time.Time
	// TimeZone is the IANA name that the client sent with the message, "" for none. It is read for folds only.
	TimeZone string
	// Pinned and Importance (0 to 1) are set by the app.
	Pinned     bool
	Importance float32
}

// Open reports whether a reply has not ended: it is being generated, or waits for its user.
func (s Status) Open() bool { return s == StatusStreaming || s == StatusAwaiting }

// Blank reports whether the message has no text: nothing but white space as Unicode defines it. Blank messages are
// not shown, and are no turns. Postgres counts no tokens for them.
func (m Message) Blank() bool {
	return strings.TrimSpace(m.Content) == ""
}

// Turn is a user message and its reply, with the tool and system rows in between. Its messages are in seq order and
// include blank rows, so that the range of a turn has no holes.
type Turn struct {
	Messages []Message
}

// Tokens returns the sum of the stored counts.
func (t Turn) Tokens() int {
	sum := 0
	for i := range t.Messages {
		sum += max(0, t.Messages[i].Tokens)
	}
	return sum
}

// FirstSeq returns the lowest seq of the turn, 0 when it has no message.
func (t Turn) FirstSeq() int64 {
	if len(t.Messages) == 0 {
		return 0
	}
	return t.Messages[0].Seq
}

// LastSeq returns the highest seq of the turn, 0 when it has no message.
func (t Turn) LastSeq() int64 {
	if len(t.Messages) == 0 {
		return 0
	}
	return t.Messages[len(t.Messages)-1].Seq
}

// UserMessages counts the turn's user rows with text, as the column pending_turns does: 1 for an ordinary turn, 0 for
// a greeting.
func (t Turn) UserMessages() int {
	return t.count(func(m *Message) bool { return m.Role == RoleUser && !m.Blank() })
}

// Open reports whether a reply of the turn has not ended.
func (t Turn) Open() bool {
	return t.count(func(m *Message) bool { return m.Status.Open() }) > 0
}

// Blank reports whether no message of the turn has text.
func (t Turn) Blank() bool {
	return t.count(func(m *Message) bool { return !m.Blank() }) == 0
}

// LacksQuestion reports whether the turn is a reply without the message that it answers.
func (t Turn) LacksQuestion() bool {
	return t.count(func(m *Message) bool { return m.Role == RoleUser }) == 0 && t.count(func(m *Message) bool { return m.ReplyTo != uuid.Nil }) > 0
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

// Turns groups messages, which must be in seq order, into turns. Every message ends up in exactly one turn; when all
// are blank there are no turns.
//
//   - A user message begins a turn, also right after another one.
//   - A message whose ReplyTo names an earlier one belongs to the turn of that one. So the seq ranges of two turns can
//     overlap; folds only end where they do not.
//   - Other tool, system and assistant messages belong to the turn of the message before them.
//   - An assistant message without a user message before it, such as a greeting, is a turn of its own, and so is a
//     reply to a message that is not among messages.
//   - Turns without text of a user or assistant join the turn before them or, at the start, the turn after them.
func Turns(messages []Message) []Turn {
	g := grouping{turnOf: make(map[uuid.UUID]int, len(messages))}
	for _, m := range messages {
		g.add(m)
	}
	return joinDependent(g.turns)
}

type grouping struct {
	turns   []Turn
	turnOf  map[uuid.UUID]int // by message id, the index of its turn
	current int               // the index of the latest message's turn
}

func (g *grouping) add(m Message) {
	g.current = g.indexFor(m)
	if g.current == len(g.turns) {
		g.turns = append(g.turns, Turn{Messages: make([]Message, 0, 2)})
	}
	turn := &g.turns[g.current]
	turn.Messages = append(turn.Messages, m)
	if m.ID != uuid.Nil {
		g.turnOf[m.ID] = g.current
	}
}

// indexFor returns the index of the turn that m belongs to; len(g.turns) for a new one.
func (g *grouping) indexFor(m Message) int {
	if m.Role == RoleUser || len(g.turns) == 0 {
		return len(g.turns)
	}
	if m.ReplyTo == uuid.Nil {
		return g.current
	}
	if index, ok := g.turnOf[m.ReplyTo]; ok {
		return index
	}
	if m.Role == RoleAssistant {
		return len(g.turns)
	}
	return g.current
}

// joinDependent merges the turns that do not stand alone into their neighbors.
func joinDependent(turns []Turn) []Turn {
	out := turns[:0]
	var leading []Message
	for _, t := range turns {
		switch {
		case standsAlone(t) && leading == nil:
			out = append(out, t)
		case standsAlone(t):
			out, leading = append(out, Turn{Messages: append(leading, t.Messages...)}), nil
		case len(out) > 0:
			join(&out[len(out)-1], t.Messages)
		default:
			leading = append(leading, t.Messages...)
		}
	}
	if rest := (Turn{Messages: leading}); !rest.Blank() {
		out = append(out, rest)
	}
	return out
}

func standsAlone(t Turn) bool {
	return t.count(func(m *Message) bool {
		return !m.Blank() && (m.Role == RoleUser || m.Role == RoleAssistant)
	}) > 0
}

func join(t *Turn, rows []Message) {
	t.Messages = append(t.Messages, rows...)
	slices.SortStableFunc(t.Messages, func(a, b Message) int { return cmp.Compare(a.Seq, b.Seq) })
}
