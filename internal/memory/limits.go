package memory

import (
	"github.com/google/uuid"
)

// Limits are the settings of memory, in tokens unless a name says turns. Any combination of positive values works,
// and BridgeTokenBudget may be 0.
type Limits struct {
	// KRawTurns is the length of the tail: the newest turns, which are shown word for word and not folded yet.
	// Defaults to 3.
	KRawTurns int
	// MinTailTurns is the least length of the tail, however long its turns are. Defaults to 1.
	MinTailTurns int
	// SummaryTokenCap is the hard cap of a brief. Defaults to 500.
	SummaryTokenCap int
	// PromptTokenBudget is the most that brief and tail may take together, as long as the bridge needs its own.
	// Defaults to 3000.
	PromptTokenBudget int
	// BridgeTokenBudget is the most that the bridge, the turns between brief and tail, may take; 0 shows none of
	// them. Brief and tail may take of it what they lack. Defaults to 6000, as much as a buffer can hold before it
	// is folded.
	BridgeTokenBudget int
	// ChunkThreshold is the size of brief and whole buffer beyond which a fold is due, once it has enough to fold: see Due.
	// Defaults to 6000.
	ChunkThreshold int
	// FoldInputTokens is the most that one model call of a fold reads. Defaults to 8000.
	FoldInputTokens int
	// MaxHistoryTokens is the most that the turns of a simple chat may take. Defaults to 4096.
	MaxHistoryTokens int
	// MaxTurns makes a fold due as soon as more turns are out of the brief, of any size. 0, the default, is
	// no limit. See For.
	MaxTurns int
	// HistoryTokens is the most that all turns may take, and the kept messages. 0 is no limit. See Within.
	HistoryTokens int
	// InputTokens is the most that a prompt and its instructions may take: the window without the response. 0 is no
	// limit. See Within.
	InputTokens int
	// FileTokens is the most that instructions, question, sources and files may take together; files never take more
	// than MaxFileTokens of it. 0 means no files. See Within.
	FileTokens int
}

// DefaultLimits returns limits with which coverage holds for every chat whose folds are not late.
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

// Brief is a chat's summary, and which messages it covers.
type Brief struct {
	// Summary is the stored text; "" before the first fold.
	Summary string
	// Tokens is the size of Summary as counted when it was stored.
	Tokens int
	// Version is 0 until the first fold and grows by one with each change.
	Version int64
	// CoveredSeq is the seq of the last message in the summary.
	CoveredSeq int64
	// LastSummarizedMessageID is the last reply in the summary, or the message it would answer; uuid.Nil for none.
	LastSummarizedMessageID uuid.UUID
	// ClearedSeq is the seq at which the context was cleared last: messages up to it are in neither brief nor prompt.
	// 0 for never.
	ClearedSeq int64
	// Unreadable reports that the stored brief is malformed; then Summary is empty. Only SQL by hand causes it.
	Unreadable bool
}

// Due reports from a chat's counters whether its buffer should be folded: brief and buffer together are over the
// threshold, and the turns before the last K are, by the mean size of turns, at least half of the threshold, so that the
// fold is worth its call. It does not wait for that where the buffer is full, nor without a bridge, which is where those
// turns are shown. More turns than MaxTurns are due at any size. fold_is_due is the same in SQL.
func Due(briefTokens, pendingTokens, pendingTurns int, l Limits) bool {
	if l.MaxTurns > 0 && pendingTurns > l.MaxTurns {
		return true
	}
	if briefTokens+pendingTokens <= l.ChunkThreshold {
		return false
	}
	older := pendingTurns - l.KRawTurns
	if older > 0 && (l.BridgeTokenBudget == 0 || pendingTokens*older >= pendingTurns*(l.ChunkThreshold/2)) {
		return true
	}
	return pendingTurns > max(1, l.MinTailTurns) && Full(briefTokens, pendingTokens, pendingTurns, l)
}

// Full reports whether the prompt could not show one more turn of the buffer's mean size word for word beside the brief
// and the buffer. Without a bridge a buffer is never full.
func Full(briefTokens, pendingTokens, pendingTurns int, l Limits) bool {
	next := pendingTokens / max(1, pendingTurns)
	return l.BridgeTokenBudget > 0 && briefTokens+pendingTokens+next > l.PromptTokenBudget+l.BridgeTokenBudget
}

// KeptTokenBudget is the most that kept messages may take: a third of the prompt's budget. In a hybrid chat it is reserved
// there, in others it comes on top.
func (l Limits) KeptTokenBudget() int { return l.PromptTokenBudget / 3 }

// DefaultWindow is the context window of a model without a configured one, in tokens.
const DefaultWindow = 128_000

// The most that each part of a context window takes, in tokens, however large the window is.
const (
	maxResponseTokens = 16_000
	maxHistoryTokens  = 50_000
	MaxFileTokens     = 100_000
)

// Budget is how a model's context window is divided, in tokens.
type Budget struct {
	// Response is left free for the reply: a quarter of the window, at most 16 000. It is not sent to the model as a
	// limit: a reply may be longer where there is room.
	Response int
	// History is for the conversation: a third of the rest, at most 50 000.
	History int
	// Rest is for everything else: instructions, question, sources and files.
	Rest int
}

// Files returns the most that files may take of the rest.
func (b Budget) Files() int { return min(b.Rest, MaxFileTokens) }

// Divide divides a context window. The parts never exceed it.
func Divide(window int) Budget {
	response := min(window/4, maxResponseTokens)
	history := min((window-response)/3, maxHistoryTokens)
	return Budget{Response: response, History: history, Rest: window - response - history}
}

// Within narrows the limits to a model's context window: where the history's part is less than prompt and bridge
// together, the bridge keeps up to two thirds of it. With the defaults that changes nothing from a window of 36 000
// tokens on; in a smaller one turns may be dropped, which the receipt reports.
func (l Limits) Within(window int) Limits {
	b := Divide(window)
	l.MaxHistoryTokens = min(l.MaxHistoryTokens, b.History)
	l.BridgeTokenBudget = min(l.BridgeTokenBudget, b.History*2/3)
	l.PromptTokenBudget = min(l.PromptTokenBudget, b.History-l.BridgeTokenBudget)
	l.HistoryTokens, l.InputTokens, l.FileTokens = b.History, window-b.Response, b.Rest
	return l
}

// Thread widens the limits for a chat that a tool starts: what tools read of code and logs is worth its words, so its turns are
// shown as long as the history's part of the window holds them, and folded from there on. Without a bridge only those of a
// simple chat are.
func (l Limits) Thread() Limits {
	if l.HistoryTokens == 0 {
		return l
	}
	l.MaxHistoryTokens = l.HistoryTokens
	if l.BridgeTokenBudget > 0 {
		l.BridgeTokenBudget = max(l.BridgeTokenBudget, l.HistoryTokens-l.PromptTokenBudget-l.KeptTokenBudget())
		l.ChunkThreshold = max(l.ChunkThreshold, l.BridgeTokenBudget)
	}
	return l
}

// MostShown returns how much of a buffer a prompt of any model may show: so many of the newest turns, however long they are, and
// else turns of so many tokens; ofTool in a chat that a tool starts, see Thread. A store reads no more.
func (l Limits) MostShown() (turns, tokens, ofTool int) {
	tokens = max(l.PromptTokenBudget+l.BridgeTokenBudget, l.MaxHistoryTokens)
	return max(l.KRawTurns, l.MinTailTurns, 1), tokens, max(tokens, maxHistoryTokens)
}

// Less takes so many tokens from the conversation: of the bridge first.
func (l Limits) Less(tokens int) Limits {
	l.MaxHistoryTokens = max(1, l.MaxHistoryTokens-tokens)
	fromBridge := min(tokens, l.BridgeTokenBudget)
	l.BridgeTokenBudget -= fromBridge
	l.PromptTokenBudget = max(1, l.PromptTokenBudget-tokens+fromBridge)
	return l
}
