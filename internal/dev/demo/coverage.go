package demo

import "github.com/google/uuid"

// checkCoverage compares a chat's receipts with its rows, which must be in order. It fills in where each message is,
// what its whole history would have cost, and how many earlier turns its reply did not see. It reports whether every
// turn has its row.
func checkCoverage(turns []Turn, rows []row) (complete bool) {
	positions := make(map[uuid.UUID]int, len(rows))
	before := make([]int, len(rows))
	sum := 0
	for i, r := range rows {
		positions[r.ID] = i
		before[i] = sum
		sum += r.Tokens
	}
	complete = true
	for i := range turns {
		at, ok := positions[turns[i].UserMessageID]
		if !ok {
			complete = false
			continue
		}
		turns[i].UserSeq = rows[at].Seq
		turns[i].HistoryTokens = before[at]
		turns[i].UnseenTurns = len(unseen(turns[i], rows[:at]))
	}
	return complete
}

// unseen returns the seq of each earlier user message whose turn was neither in the brief nor in the
// prompt. Bridge and tail are one run of the newest turns, so of the turns after the brief the oldest are missing.
func unseen(turn Turn, earlier []row) []int64 {
	var after []int64
	for _, r := range earlier {
		if r.Role == "user" && r.Seq > turn.Receipt.CoveredThroughSeq {
			after = append(after, r.Seq)
		}
	}
	shown := turn.Receipt.BridgeTurns + turn.Receipt.TailTurns
	return after[:max(0, len(after)-shown)]
}

// trustReceipts takes the number of unseen turns from the receipts, where there are no rows to check them with.
func trustReceipts(turns []Turn) {
	for i := range turns {
		turns[i].UnseenTurns = turns[i].Receipt.DroppedTurns
	}
}
