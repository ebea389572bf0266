package memory

import "github.com/google/uuid"

// Limits are the knobs of memory, all but KRawTurns and MinTailTurns in tokens. Any combination of
// positive values works, and BridgeTokenBudget may be 0.
type Limits struct {
	// KRawTurns is the length of the tail: turns that are shown word for word and not folded yet.
	// Defaults to 3.
	KRawTurns int
	// MinTailTurns is what the tail is never cut below, however long its turns are. Defaults to 1.
	MinTailTurns int
	// SummaryTokenCap is the hard cap of a brief. Defaults to 500.
	SummaryTokenCap int
	// PromptTokenBudget is what brief and tail may take together. Defaults to 3000.
	PromptTokenBudget int
	// BridgeTokenBudget is what the turns between brief and tail may take; 0 shows none of them.
	// Defaults to 6000, as much as a buffer can hold before it is folded.
	BridgeTokenBudget int
	// ChunkThreshold is the size of brief and whole buffer beyond which a fold is due. Defaults to 6000.
	ChunkThreshold int
	// FoldInputTokens is the most that one model call of a fold reads. Defaults to 8000.
	FoldInputTokens int
	// MaxHistoryTokens is what the turns of a simple chat may take. Defaults to 4096.
	MaxHistoryTokens int
	// MaxTurns makes a fold due as soon as more turns are out of the brief, whatever their size. 0, the
	// default, is no limit. Chats set it: see For.
	MaxTurns int
	// FileTokens is what the question and the chat's files may take together; of that, files take at most
	// 100 000. 0 means no files. Model windows set it: see Within.
	FileTokens int
}

// DefaultLimits gives the limits with which coverage holds for every chat whose folds are not late.
func DefaultLimits() Limits {
	l := Limits{
		KRawTurns:         3,
		MinTailTurns:      1,
		SummaryTokenCap:   500,
		PromptTokenBudget: 3000,
		BridgeTokenBudget: 6000,
		ChunkThreshold:    6000,
		FoldInputTokens:   8000,
		MaxHistoryTokens:  4096,
	}
	return l.Within(DefaultWindow)
}

// Brief is a chat's summary with its place in the chat.
type Brief struct {
	// Summary is the stored text; "" before the first fold.
	Summary string
	// Tokens is the size of Summary as counted when it was stored.
	Tokens int
	// Version is 0 until the first fold and grows by one with each change.
	Version int64
	// CoveredSeq is the last seq whose row is in the summary.
	CoveredSeq int64
	// LastSummarizedMessageID is the message the summary reaches to; uuid.Nil for none.
	LastSummarizedMessageID uuid.UUID
	// ClearedSeq is where the context was cleared last: what was said up to there is in neither brief nor
	// prompt. 0 for never.
	ClearedSeq int64
	// Stale says that a covered message was changed or deleted since: the summary is still shown but
	// claims no coverage.
	Stale bool
	// Unreadable says that what is stored is not in its form; then there is no Summary. Nothing but SQL by hand
	// does that.
	Unreadable bool
}

// Due tells from a chat's counters whether its buffer should be folded: brief and buffer are over
// the threshold, and there are more turns than the tail keeps. Turns so long that the prompt might
// not show even those are due from fewer: see tailLength in memory/brief. More turns than MaxTurns are due whatever their size.
func Due(briefTokens, pendingTokens, pendingTurns int, l Limits) bool {
	if l.MaxTurns > 0 && pendingTurns > l.MaxTurns {
		return true
	}
	if briefTokens+pendingTokens <= l.ChunkThreshold {
		return false
	}
	tooLong := l.BridgeTokenBudget > 0 && pendingTokens > l.BridgeTokenBudget
	return pendingTurns > l.KRawTurns || tooLong && pendingTurns > max(1, l.MinTailTurns)
}

// KeptRoom is what the pinned and important messages of a hybrid chat may take, in tokens: a third of the
// prompt's budget.
func (l Limits) KeptRoom() int { return l.PromptTokenBudget / 3 }
