package memory

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// Turns groups messages, which must be in seq order, into turns. Every row ends up in exactly one
// turn, unless nothing in messages holds text: then there are no turns.
//
//   - A user row begins a turn, also right after another one.
//   - A row whose ReplyTo names an earlier row belongs to that row's turn, wherever it stands. So the
//     seq ranges of two turns can overlap; folds only end where they do not.
//   - Other tool, system and assistant rows belong to the turn they stand in.
//   - An assistant row without a user row before it, such as a greeting, is a turn of its own, and so
//     is a reply to a message that is not among messages.
//   - What cannot stand alone (blank rows, leading tool and system rows) joins the turn before it,
//     or, at the start, the turn after it.
func Turns(messages []Message) []Turn {
	g := grouping{home: make(map[uuid.UUID]int, len(messages))}
	for _, m := range messages {
		g.add(m)
	}
	return joinDependent(g.turns)
}

type grouping struct {
	turns   []Turn
	home    map[uuid.UUID]int // row id -> index of its turn
	current int               // turn of the row before
}

func (g *grouping) add(m Message) {
	g.current = g.place(m)
	if g.current == len(g.turns) {
		g.turns = append(g.turns, Turn{Messages: make([]Message, 0, 2)})
	}
	turn := &g.turns[g.current]
	turn.Messages = append(turn.Messages, m)
	if m.ID != uuid.Nil {
		g.home[m.ID] = g.current
	}
}

// place gives the index of the turn m belongs to; len(g.turns) stands for a new one.
func (g *grouping) place(m Message) int {
	if m.Role == RoleUser || len(g.turns) == 0 {
		return len(g.turns)
	}
	if m.ReplyTo == uuid.Nil {
		return g.current
	}
	if at, ok := g.home[m.ReplyTo]; ok {
		return at
	}
	if m.Role == RoleAssistant {
		return len(g.turns)
	}
	return g.current
}

func joinDependent(turns []Turn) []Turn {
	out := turns[:0]
	var lead []Message
	for _, t := range turns {
		switch {
		case standsAlone(t) && lead == nil:
			out = append(out, t)
		case standsAlone(t):
			out, lead = append(out, Turn{Messages: append(lead, t.Messages...)}), nil
		case len(out) > 0:
			join(&out[len(out)-1], t.Messages)
		default:
			lead = append(lead, t.Messages...)
		}
	}
	if rest := (Turn{Messages: lead}); !rest.Blank() {
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
