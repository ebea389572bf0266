package memory

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

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
