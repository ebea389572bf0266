package memory

import (
	"math"
)

// StrategyName names the rules by which a chat is remembered, as chats.memory_strategy does.
type StrategyName string

// The strategies.
const (
	// StrategySimple shows the newest turns that fit a budget, and nothing of the others.
	StrategySimple StrategyName = "simple"
	// StrategySummary shows the brief and every turn that is not in it. It is the default.
	StrategySummary StrategyName = "summary"
	// StrategyHybrid is summary with pinned and important messages word for word for ever.
	StrategyHybrid StrategyName = "hybrid"
)

// What a chat gets that a tool starts, unless it says otherwise.
const (
	ToolTTLHours = 3
	ToolMaxTurns = 50
)

// KeptImportance is the importance from which on a message is kept like a pinned one.
const KeptImportance = 0.8

// Settings are what a chat says about its memory. The zero value is a chat that says nothing.
type Settings struct {
	Strategy StrategyName
	// MaxTurns is how many turns may be out of the brief before older ones are folded, however short they
	// are; for a simple chat how many are shown. 0 for no limit.
	MaxTurns int
	// Expired says that the chat has ended for now: all of it goes into the brief.
	Expired bool
}

// Chat is what is known of a chat when a prompt is built.
type Chat struct {
	Settings
	// SystemPrompt holds the chat's own instructions, "" for none.
	SystemPrompt string
	Brief        Brief
	// Buffer holds the newest messages of the chunk buffer, in seq order, without the turn being answered. For a
	// simple chat, which has no brief, the buffer is everything since the context was cleared.
	Buffer []Message
	// PendingTurns counts the turns of the whole buffer; those that are not in Buffer are too old to be
	// read. A smaller value than Buffer has turns means that there are no others.
	PendingTurns int
	// TotalTurns counts the turns since the context was cleared.
	TotalTurns int
	// Kept are the pinned and important messages that the brief covers, oldest first; of hybrid chats only.
	Kept []Message
	// Files are the chat's files, newest first, each as often as it was sent.
	Files []StoredFile
}

// BriefTurns counts the turns since the context was cleared that the brief stands for.
func (c *Chat) BriefTurns() int { return max(0, c.TotalTurns-c.PendingTurns) }

// Unread returns how many turns of the buffer were too old to be read.
func (c *Chat) Unread() int {
	return max(0, c.PendingTurns-Turn{Messages: c.Buffer}.UserMessages())
}

// For gives the limits by which a chat with those settings is folded.
func (l Limits) For(s Settings) Limits {
	if s.Strategy == StrategySimple {
		l.ChunkThreshold = math.MaxInt // it shows no brief, so none is made
		return l
	}
	if s.Strategy == StrategyHybrid {
		l.PromptTokenBudget -= l.KeptRoom()
	}
	if s.MaxTurns > 0 {
		l.MaxTurns, l.KRawTurns = s.MaxTurns, min(l.KRawTurns, s.MaxTurns)
	}
	if s.Expired {
		l.ChunkThreshold, l.KRawTurns = -1, 0 // nobody is about to read the tail
	}
	return l
}

// File is a text file that came with a message.
type File struct {
	Path, Content string
}

// StoredFile is one sending of a file.
type StoredFile struct {
	Path string
	// SHA256 of the content tells which sendings are of the same.
	SHA256 [32]byte
	// Content may be empty for files that are too far back to have room.
	Content string
	Tokens  int // of the content, as stored
}
