package demo

import (
	"time"

	"github.com/google/uuid"
)

// Summary is the result of a run.
type Summary struct {
	// Chat is the one that the report is about, Others are the chats that were played in parallel.
	Chat
	Others []Chat
	// Elapsed is the time it took, without the last wait for folds.
	Elapsed time.Duration
	// Interrupted is true when the context ended before everything was played.
	Interrupted bool
}

// Chat is one conversation as it was played.
type Chat struct {
	ID uuid.UUID
	// Turns are those with a whole reply, in order; FailedTurns counts the others.
	Turns       []Turn
	FailedTurns int
	// Waits counts how often the server asked to wait, Waited adds up for how long.
	Waits  int
	Waited time.Duration
	// FoldWaits counts the messages that waited for a fold, FoldWaited adds up for how long.
	FoldWaits  int
	FoldWaited time.Duration
	// CoverageChecked is true when every receipt was compared with the rows of the chat. Otherwise UnseenTurns are the
	// dropped turns of the receipts.
	CoverageChecked bool
	// Brief, Revisions and PendingFold are empty without Postgres.
	Brief     Brief
	Revisions []Revision
	// PendingFold is the state of the River job of a fold that was still pending at the end, or empty.
	PendingFold string
	// Recall is the question at the end; its Question is empty when there was none.
	Recall Recall
}

// Recall is a question about the past, and the reply.
type Recall struct {
	Question, Answer string
	Turn             Turn
}

// Totals adds up a chat's turns.
type Totals struct {
	// MemoryTokens and HistoryTokens are sums over all turns.
	MemoryTokens, HistoryTokens int
	// InputTokens and CachedTokens are what the model reported.
	InputTokens, CachedTokens int
	DroppedTurns, UnseenTurns int
	TruncatedReplies          int
	// Peak is the largest memory of any turn.
	Peak int
}

// Totals adds up the turns.
func (c Chat) Totals() Totals {
	var sum Totals
	for _, t := range c.Turns {
		sum.MemoryTokens += t.MemoryTokens()
		sum.HistoryTokens += t.HistoryTokens
		sum.InputTokens += t.Usage.InputTokens
		sum.CachedTokens += t.Usage.CachedTokens
		sum.DroppedTurns += t.Receipt.DroppedTurns
		sum.UnseenTurns += t.UnseenTurns
		if t.Receipt.Truncated {
			sum.TruncatedReplies++
		}
		sum.Peak = max(sum.Peak, t.MemoryTokens())
	}
	return sum
}

// Saving is how many times the memory's tokens the whole history would have been; 0 without memory.
func (t Totals) Saving() float64 {
	if t.MemoryTokens == 0 {
		return 0
	}
	return float64(t.HistoryTokens) / float64(t.MemoryTokens)
}

// series returns memory and history tokens per turn.
func (c Chat) series() (memory, history []int) {
	for _, t := range c.Turns {
		memory = append(memory, t.MemoryTokens())
		history = append(history, t.HistoryTokens)
	}
	return memory, history
}
