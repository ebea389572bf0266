package brief

import (
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/uuid"
)

// Plan is the plan of one fold.
type Plan struct {
	// Pieces are the inputs of the model calls, in order; each call's summary is the existing summary of the next.
	// Usually there is one.
	Pieces []Piece
	// SeqFrom to SeqTo is the range of messages that the fold covers, both included. It continues the coverage without
	// a gap and ends with a whole turn.
	SeqFrom, SeqTo int64
	// Turns counts the user messages in the range.
	Turns int
	// LastSummarizedMessageID is the last reply of the last turn, or its user message when it has none; uuid.Nil when
	// the range holds no turn.
	LastSummarizedMessageID uuid.UUID
	// Tokens is the sum of the stored counts of the range's messages.
	Tokens int
}

// PlanFold decides which turns of the buffer a fold takes: all but the last K (fewer where those are too long to be
// shown), oldest first, whole turns, as many as one model call can read beside the existing summary. A first turn too
// long for that is folded alone, in several pieces. turns is the buffer, and may end with the turn that is being
// answered: that one does not count among the last K.
//
// A fold never covers a message that is still streaming, and never ends within a turn. False means that there is
// nothing to fold; otherwise the coverage grows.
func PlanFold(brief memory.Brief, turns []memory.Turn, l memory.Limits) (Plan, bool) {
	room := pieceRoom(l.FoldInputTokens, brief.Tokens)
	answered := withoutCurrent(turns)
	n := foldableTurns(turns, len(answered)-tailLength(l, brief, answered), room)
	if n <= 0 {
		return Plan{}, false
	}
	plan := planOf(turns[:n])
	plan.SeqFrom = brief.CoveredSeq + 1
	plan.Pieces = packFold(turns[:n], room, brief, l)
	return plan, true
}

// withoutCurrent returns turns without the one that is being answered.
func withoutCurrent(turns []memory.Turn) []memory.Turn {
	if n := len(turns); n > 0 && turns[n-1].Open() {
		return turns[:n-1]
	}
	return turns
}

// foldableTurns returns how many of the first limit turns one fold takes: the most that fit room and that the rest
// follows, or the fewest that the rest follows when not even these fit.
func foldableTurns(turns []memory.Turn, limit, room int) int {
	best, used, reach := 0, 0, int64(0)
	for n := 1; n <= limit && !turns[n-1].Open(); n++ {
		used += cost(turns[n-1])
		reach = max(reach, turns[n-1].LastSeq())
		if used > room && best > 0 {
			break
		}
		if comesAfter(turns[n:], reach) {
			best = n
		}
	}
	return best
}

// comesAfter reports whether all messages of rest come after seq reach, so that coverage can end there. They do not when
// a late reply makes one turn enclose another.
func comesAfter(rest []memory.Turn, reach int64) bool {
	return len(rest) == 0 || rest[0].FirstSeq() > reach
}

// packFold returns one piece where everything fits beside the brief. Otherwise all pieces leave room for a summary of
// full size, because the summary grows from one piece to the next.
func packFold(turns []memory.Turn, room int, brief memory.Brief, l memory.Limits) []Piece {
	if pieces := pack(turns, room); len(pieces) == 1 {
		return pieces
	}
	return pack(turns, pieceRoom(l.FoldInputTokens, max(brief.Tokens, l.SummaryTokenCap)))
}

func planOf(turns []memory.Turn) Plan {
	var p Plan
	for _, t := range turns {
		p.SeqTo = max(p.SeqTo, t.LastSeq())
		p.Turns += t.UserMessages()
		p.Tokens += t.Tokens()
	}
	if len(turns) > 0 {
		p.LastSummarizedMessageID = lastSummarized(turns[len(turns)-1])
	}
	return p
}

// lastSummarized returns the message that stands for the turn in last_summarized_message_id: its last reply, its user
// message when it has none, its last row when it has neither.
func lastSummarized(t memory.Turn) uuid.UUID {
	for _, role := range []memory.Role{memory.RoleAssistant, memory.RoleUser} {
		for _, m := range slices.Backward(t.Messages) {
			if m.Role == role && !m.Blank() {
				return m.ID
			}
		}
	}
	if len(t.Messages) == 0 {
		return uuid.Nil
	}
	return t.Messages[len(t.Messages)-1].ID
}

// tailLength returns how many of the buffer's last turns a fold leaves in it: K, or fewer where the prompt could not show
// them all, because a turn that is neither shown nor in the brief would be unseen; and fewer where the buffer would be full
// again with the next turn, so that turns so long do not cost a fold each. Without a bridge it is always K.
func tailLength(l memory.Limits, brief memory.Brief, turns []memory.Turn) int {
	if l.BridgeTokenBudget == 0 {
		return l.KRawTurns
	}
	tokens := max(brief.Tokens, l.SummaryTokenCap)
	next := planOf(turns).Tokens / max(1, len(turns))
	k := min(l.KRawTurns, len(turns))
	for ; k > max(1, l.MinTailTurns); k-- {
		last := turns[len(turns)-k:]
		if prompt.Unseen(tokens, last, l) == 0 && !memory.Full(tokens, planOf(last).Tokens+next, k+1, l) {
			break
		}
	}
	return k
}
