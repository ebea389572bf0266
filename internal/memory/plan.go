package memory

import "github.com/google/uuid"

// Plan is what one fold will do.
type Plan struct {
	// Pieces are the model calls, in order; each one's summary is the existing summary of the next.
	// Usually there is one.
	Pieces []Piece
	// SeqFrom to SeqTo is the range of rows that the fold covers, both included. It continues the
	// coverage without a hole and ends with a whole turn.
	SeqFrom, SeqTo int64
	// Turns counts the user messages in the range.
	Turns int
	// LastSummarizedMessageID is the last reply of the last turn, its user message when it has none;
	// uuid.Nil when the range holds no turn.
	LastSummarizedMessageID uuid.UUID
	// Tokens is the sum of the stored counts of the range's rows.
	Tokens int
}

// PlanFold decides what a fold takes out of the buffer: all but the last K turns (fewer where those are
// too long to be shown), from the oldest, whole turns, as many as one model call reads beside the existing summary. A first turn too long for
// that is folded alone, in several pieces. turns is the buffer, and may end with the turn that is
// being answered: that one does not count among the last K.
//
// It never passes a row that is still streaming, and never ends between rows of one turn. False means
// that there is nothing to fold. Whenever it gives true, the coverage grows.
func PlanFold(brief Brief, turns []Turn, l Limits) (Plan, bool) {
	room := pieceRoom(l.FoldInputTokens, brief.Tokens)
	held := buffer(turns)
	n := foldable(turns, len(held)-l.kept(brief, held), room)
	if n <= 0 {
		return Plan{}, false
	}
	plan := planOf(turns[:n])
	plan.SeqFrom = brief.CoveredSeq + 1
	plan.Pieces = packFold(turns[:n], room, brief, l)
	return plan, true
}

// buffer leaves out the turn that is being answered now.
func buffer(turns []Turn) []Turn {
	if n := len(turns); n > 0 && turns[n-1].Streaming() {
		return turns[:n-1]
	}
	return turns
}

// foldable gives how many of the first limit turns one fold takes: the most that fit room, or the
// fewest that end at a border when these already do not fit.
func foldable(turns []Turn, limit, room int) int {
	best, used, reach := 0, 0, int64(0)
	for n := 1; n <= limit && !turns[n-1].Streaming(); n++ {
		used += cost(turns[n-1])
		reach = max(reach, turns[n-1].LastSeq())
		if used > room && best > 0 {
			break
		}
		if isBorder(turns[n:], reach) {
			best = n
		}
	}
	return best
}

// isBorder tells whether every row of rest comes after reach, so that coverage can end there: a turn
// can enclose another when a reply came late.
func isBorder(rest []Turn, reach int64) bool {
	return len(rest) == 0 || rest[0].FirstSeq() > reach
}

// packFold gives one piece where everything fits beside the brief. Otherwise all pieces leave room
// for a summary of full size, because it grows from one to the next.
func packFold(turns []Turn, room int, brief Brief, l Limits) []Piece {
	if pieces := pack(turns, room); len(pieces) == 1 {
		return pieces
	}
	return pack(turns, pieceRoom(l.FoldInputTokens, max(brief.Tokens, l.SummaryTokenCap)))
}

// PlanRebuild decides how the covered part of a chat is folded again from its raw turns, from an
// empty summary. turns are the chat's turns; rows after brief.CoveredSeq are left alone. With nothing
// left to fold, which happens when everything was deleted or cleared away, there are no pieces and the new
// summary is empty.
func PlanRebuild(brief Brief, turns []Turn, l Limits) Plan {
	var covered []Turn
	for _, t := range turns {
		if rows := coveredRows(t, brief.CoveredSeq); !rows.Blank() {
			covered = append(covered, rows)
		}
	}
	plan := planOf(covered)
	plan.SeqFrom, plan.SeqTo = brief.ClearedSeq+1, brief.CoveredSeq
	plan.Pieces = pack(covered, pieceRoom(l.FoldInputTokens, l.SummaryTokenCap))
	return plan
}

func coveredRows(t Turn, coveredSeq int64) Turn {
	n := 0
	for n < len(t.Messages) && t.Messages[n].Seq <= coveredSeq {
		n++
	}
	return Turn{Messages: t.Messages[:n]}
}

func planOf(turns []Turn) Plan {
	var p Plan
	for _, t := range turns {
		p.SeqTo = max(p.SeqTo, t.LastSeq())
		p.Turns += t.UserMessages()
		p.Tokens += t.Tokens()
	}
	if len(turns) > 0 {
		p.LastSummarizedMessageID = turns[len(turns)-1].anchor()
	}
	return p
}
