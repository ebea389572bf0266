package memory

import (
	"cmp"
	"math"
	"time"

	"github.com/google/uuid"
)

// StrategyName names the rules by which a chat is remembered: the value of chats.memory_strategy.
type StrategyName string

// The strategies.
const (
	// StrategySimple shows the newest turns that fit a budget, and nothing of older ones.
	StrategySimple StrategyName = "simple"
	// StrategySummary shows the brief and every turn that is not in it. It is the default.
	StrategySummary StrategyName = "summary"
	// StrategyHybrid is summary, and important messages stay in the prompt word for word as pinned ones do in every chat.
	StrategyHybrid StrategyName = "hybrid"
)

// The defaults of a chat that a tool starts, see ChatDefaults.
const (
	ToolTTLHours = 3
	ToolMaxTurns = 50
)

// ChatDefaults are the settings of a new chat that names none of its own: the deployment's. Rows that are inserted by
// SQL have the columns' defaults instead.
type ChatDefaults struct {
	// Strategy is StrategySummary where it is "".
	Strategy StrategyName
	// TTLHours is after how many hours without a turn the chat expires; 0 for never, and for ToolTTLHours in a chat that
	// a tool starts.
	TTLHours int
	// MaxTurns is the turn limit; 0 for none, and for ToolMaxTurns in a chat that a tool starts.
	MaxTurns int
}

// For returns the defaults of a chat that a tool starts; "" is no tool.
func (d ChatDefaults) For(tool string) ChatDefaults {
	d.Strategy = cmp.Or(d.Strategy, StrategySummary)
	if tool != "" {
		d.TTLHours, d.MaxTurns = cmp.Or(d.TTLHours, ToolTTLHours), cmp.Or(d.MaxTurns, ToolMaxTurns)
	}
	return d
}

// KeptImportance is the lowest importance of a message that a hybrid chat keeps like a pinned one.
const KeptImportance = 0.8

// Keeps reports whether a message stays in the chat's prompt.
func (s Settings) Keeps(m *Message) bool {
	return m.Pinned || s.Strategy == StrategyHybrid && m.Importance >= KeptImportance
}

// Settings are a chat's memory settings. The zero value is the default.
type Settings struct {
	Strategy StrategyName
	// MaxTurns is how many turns may be out of the brief, however short they are; in a simple chat how many are
	// shown. 0 for no limit.
	MaxTurns int
	// Tool is whether a tool started the chat. See Thread.
	Tool bool
}

// Chat is the input of a prompt, apart from the question.
type Chat struct {
	Settings
	// SystemPrompt is the chat's own instructions, "" for none.
	SystemPrompt string
	Brief        Brief
	// Buffer holds the newest messages of the chunk buffer (all messages after the brief), in seq order, without the
	// turn being answered. In a simple chat, which has no brief, the buffer begins where the context was cleared.
	Buffer []Message
	// PendingTurns counts the turns of the whole buffer. Stores read only the newest, so Buffer can have fewer.
	PendingTurns int
	// TotalTurns counts the turns since the context was cleared.
	TotalTurns int
	// IndexedSeq is the seq up to which every turn can be recalled; 0 for none.
	IndexedSeq int64
	// RecallsOthers is whether a prompt may quote turns of the user's other chats, and there are any.
	RecallsOthers bool
	// Memories are what prompts of the chat may show of what its user is remembered for.
	Memories Memories
	// Kept are the messages before Buffer that the chat keeps, oldest first: covered and unread ones.
	Kept []Message
	// Files are the chat's files, newest first. A file that was sent twice is there twice.
	Files []StoredFile
}

// BriefTurns returns how many of the turns since the context was cleared are in the brief.
func (c *Chat) BriefTurns() int { return max(0, c.TotalTurns-c.PendingTurns) }

// UnreadTurns returns how many turns of the buffer are not in Buffer.
func (c *Chat) UnreadTurns() int {
	return max(0, c.PendingTurns-Turn{Messages: c.Buffer}.UserMessages())
}

// For returns the limits by which a chat with the given settings is folded.
func (l Limits) For(s Settings) Limits {
	if s.Strategy == StrategySimple {
		l.ChunkThreshold = math.MaxInt // never due: its brief would not be shown
		return l
	}
	if s.Tool {
		l = l.Thread()
	}
	if s.Strategy == StrategyHybrid {
		l.PromptTokenBudget -= l.KeptTokenBudget()
	}
	if s.MaxTurns > 0 {
		l.MaxTurns, l.KRawTurns = s.MaxTurns, min(l.KRawTurns, s.MaxTurns)
	}
	return l
}

// File is a text file that a user sent with a message.
type File struct {
	Path    string `json:"path" minLength:"1" maxLength:"1024" description:"Its name, as the model is to know it."`
	Content string `json:"content" maxLength:"262144" description:"Its text, at most 256 KiB of UTF-8."`
}

// StoredFile is a file as it was sent with one message.
type StoredFile struct {
	Path string
	// SHA256 is that of the content: equal files have the same.
	SHA256 [32]byte
	// Content is empty for files that are too old to have room in a prompt.
	Content string
	Tokens  int // of the content, as stored
}

// Memories are a user's memories, as the start of a turn reads them.
type Memories struct {
	// On reports whether prompts of the chat may show memories: no one has switched them off, for all, the user or the chat.
	On bool
	// Active is how many active memories there are, without those of subjects that the user has excluded.
	Active int
	// First are the first MostFirst of them, in the order in which they are worth showing beside any message: pinned
	// ones, then durable ones, and of each the most recently used first.
	First []Remembered
}

// MostFirst is how many memories the start of a turn reads. More do not fit the section of a prompt.
const MostFirst = 40

// Remembered is one thing that a user is remembered for, as prompts need it.
type Remembered struct {
	ID      uuid.UUID
	Content string
	// Confidence is how sure it is, from 0 to 1. Edited memories have been corrected by their user.
	Confidence              float64
	Durable, Pinned, Edited bool
	// ValidFrom and ValidTo are since when and until when it is true; zero where it was not said. Precision is that of both.
	ValidFrom, ValidTo time.Time
	Precision          Precision
	// LastUsed is when a reply last used it, or when it was recorded.
	LastUsed time.Time
	// Sources are where it was said.
	Sources []Said
}

// Said is where a memory was said: the message, and the words in it.
type Said struct {
	ChatID uuid.UUID
	Seq    int64
	Quote  string
}

// Precision is how exactly the time is known since when something is true, or until when.
type Precision string

// The precisions.
const (
	Day   Precision = "day"
	Month Precision = "month"
	Year  Precision = "year"
)
