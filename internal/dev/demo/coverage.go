package demo

import "github.com/google/uuid"

// row is a stored message, without its words.
type row struct {
	id     uuid.UUID
	seq    int64
	role   string
	tokens int
}

// account holds a chat's receipts against its rows, which must be in order: where each message stands,
// what its whole history would have cost, and which earlier turns its reply did not see.
func account(turns []Turn, rows []row) (complete bool) {
	places := make(map[uuid.UUID]int, len(rows))
	before := make([]int, len(rows))
	sum := 0
	for i, r := range rows {
		places[r.id] = i
		before[i] = sum
		sum += r.tokens
	}
	complete = true
	for i := range turns {
		place, ok := places[turns[i].UserMessageID]
		if !ok {
			complete = false
			continue
		}
		turns[i].UserSeq = rows[place].seq
		turns[i].HistoryTokens = before[place]
		turns[i].UnseenTurns = len(unseen(turns[i], rows[:place]))
	}
	return complete
}

// unseen gives the seq of each earlier user message whose turn was neither in the brief nor in the
// prompt. Bridge and tail are one run of the newest turns, so of those after the brief it is the oldest
// that are missing.
func unseen(turn Turn, earlier []row) []int64 {
	var after []int64
	for _, r := range earlier {
		if r.role == "user" && r.seq > turn.Receipt.CoveredThroughSeq {
			after = append(after, r.seq)
		}
	}
	shown := turn.Receipt.BridgeTurns + turn.Receipt.TailTurns
	return after[:max(0, len(after)-shown)]
}

// trust takes the receipts at their word, where there are no rows to hold them against.
func trust(turns []Turn) {
	for i := range turns {
		turns[i].UnseenTurns = turns[i].Receipt.DroppedTurns
	}
}
