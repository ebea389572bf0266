package longterm

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"

	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Store keeps memories and the ledger of what was read for them. Each method is one short transaction with the rights of
// the chat's owner; none is open while a model works.
type Store interface {
	// Read reads what an extraction of at most so many turns needs; false for a chat that was deleted.
	Read(ctx context.Context, chatID uuid.UUID, mostTurns int) (Snapshot, bool, error)
	// Settle notes that nothing of a chat is due, if nothing was said since.
	Settle(ctx context.Context, chatID uuid.UUID) error
	// Similar returns the memories that resemble each text.
	Similar(ctx context.Context, chatID uuid.UUID, texts []Text, model string) (Knowledge, error)
	// Commit writes a change and its entry in the ledger, completes the job, and inserts the chat's next one if something is left
	// to read. Unless the outcome is Committed it has written nothing.
	Commit(ctx context.Context, change Change) (Outcome, Written, error)
}

// Text is a text that memories may resemble. Vector is nil for none.
type Text struct {
	Content string
	Vector  []float32
}

// Knowledge is what resembles some texts, as of a version of the user's memories.
type Knowledge struct {
	Alike   [][]Known
	Version int64
}

// Snapshot is the state from which an extraction is planned.
type Snapshot struct {
	UserID uuid.UUID
	// Wanted reports that the user wants memories of this chat, and that it has not expired.
	Wanted   bool
	TimeZone string
	Language string
	Excluded []string
	// Summary is the chat's brief, unless it may hold deleted words.
	Summary string
	// ExtractedSeq is the last message that was read, ClearedSeq the last that the user cleared from the chat's memory,
	// LastSeq the chat's last.
	ExtractedSeq, ClearedSeq, LastSeq int64
	// DueNow reports that the chat is to be read at once, Rested for how long nobody has spoken in it.
	DueNow bool
	Rested time.Duration
	// Messages are those after ExtractedSeq, oldest first, of at most so many turns as were asked for. Rows that nobody
	// said are among them, without content.
	Messages []memory.Message
	// More reports that another turn follows them.
	More bool
	// Before are the last messages up to ExtractedSeq that are not cleared, oldest first.
	Before []memory.Message
	// Shown are the memories that the prompts of the replies among Messages held.
	Shown []Shown
}

// Shown is a memory that the prompt of a reply held.
type Shown struct {
	ReplyID  uuid.UUID
	MemoryID uuid.UUID
	Content  string
}

// Range is a part of a chat: whole turns.
type Range struct {
	From, To int64
	Turns    int
	// Skip is whether it is passed over unread.
	Skip bool
}

// Operation is what becomes of one candidate.
type Operation struct {
	Decision

	// From is the candidate, ID that of the memory that it becomes.
	From Candidate
	ID   uuid.UUID
	// Vector is that of the content that is written; nil for none.
	Vector []float32
}

// Change is what an extraction writes.
type Change struct {
	// Attempt is that of the job that the change completes.
	work.Attempt

	ID      uuid.UUID // in the ledger
	ChatID  uuid.UUID
	Lease   work.Lease
	Planned Snapshot
	Range   Range
	Ledger  Ledger
	// Operations were decided on with the memories as they were at Version.
	Operations []Operation
	Version    int64
	// VectorModel made the operations' vectors.
	VectorModel string
	// Used are memories that replies used.
	Used []uuid.UUID
	// Delay is how long a chat rests before what is left of it is due.
	Delay time.Duration
	Stats Stats
}

// Stats describes the calls of an extraction, and what the gate dropped.
type Stats struct {
	Candidates                       int
	Dropped                          map[string]int
	Calls, InputTokens, OutputTokens int
	Model, PromptRef                 string
	Rounds                           int
	Duration                         time.Duration
}

// Written counts what a commit has written.
type Written struct {
	Added, Updated, Superseded, Noops, Inbox int
	// Erased are the candidates whose evidence was deleted or edited meanwhile.
	Erased int
}

// Outcome is the outcome of a commit.
type Outcome int

// The outcomes of a commit.
const (
	// Overtaken: another worker has the lease or has read the range, the chat was deleted or cleared, or the user has changed
	// what is to be remembered.
	Overtaken Outcome = iota
	// Outdated: the user's memories have changed since Similar.
	Outdated
	// Committed: everything is written.
	Committed
)
