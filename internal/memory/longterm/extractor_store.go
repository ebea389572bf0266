package longterm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/work"
)

// Store keeps memories and the ledger of the turns that were read for them. Each method is one short transaction with the rights of
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
	// DueNow reports that the chat is to be read at once, Rested for how long its user has not spoken in it.
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
	// Outputs are the latest of tools, among Messages and shortly before them.
	Outputs []Output
}

// Output is what a tool said: of a message of its own, or of a call in a reply.
type Output struct {
	Seq   int64
	Value json.RawMessage
}

// words returns the keys and values of an output, each on a line, as whoever reads it sees them.
func (o *Output) words() string {
	var b strings.Builder
	for decoder := json.NewDecoder(bytes.NewReader(o.Value)); ; {
		token, err := decoder.Token()
		if err != nil {
			return b.String()
		}
		if _, bracket := token.(json.Delim); !bracket {
			fmt.Fprintln(&b, token)
		}
	}
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
	// Delay is how long a chat rests before the rest of it is due.
	Delay time.Duration
	Stats Stats
}

// Stats describes the calls of an extraction, and what the gate dropped.
type Stats struct {
	Candidates   int            `json:"candidates"`
	Dropped      map[string]int `json:"dropped,omitempty"`
	Calls        int            `json:"calls"`
	InputTokens  int            `json:"input_tokens"`
	OutputTokens int            `json:"output_tokens"`
	Model        string         `json:"model,omitempty"`
	PromptRef    string         `json:"prompt_ref,omitempty"`
	// Rounds is how often the memories were compared, because they changed meanwhile.
	Rounds   int           `json:"rounds,omitempty"`
	Duration time.Duration `json:"-"`
}

// Written counts what a commit has written.
type Written struct {
	Added      int `json:"added"`
	Updated    int `json:"updated"`
	Superseded int `json:"superseded"`
	Noops      int `json:"noops"`
	Inbox      int `json:"-"`
	// Erased are the candidates whose evidence was deleted or edited meanwhile.
	Erased int `json:"-"`
	// Full are the candidates for which the user has no room, Unstorable those that Postgres does not take.
	Full       int `json:"full,omitempty"`
	Unstorable int `json:"unstorable,omitempty"`
}

// Outcome is the outcome of a commit.
type Outcome int

// The outcomes of a commit.
const (
	// Overtaken: another worker has the lease or has read the range, the chat was deleted or cleared, or the user has changed
	// the settings of their memories.
	Overtaken Outcome = iota
	// Outdated: the user's memories have changed since Similar.
	Outdated
	// Committed: everything is written.
	Committed
)

// Ledger is what the ledger says of a range of turns that was read: the value of memory_extractions.result.
type Ledger string

// The results of a range.
const (
	// Read: there were candidates for memories.
	Read Ledger = "done"
	// NothingRead: there was nothing to remember.
	NothingRead Ledger = "empty"
	// Skipped: the range was not read, because the user wanted it so, or because the model failed five times.
	Skipped Ledger = "skipped"
)

// Report describes an extraction, without content.
type Report struct {
	Result work.Result `json:"result"`
	// Ledger is the entry that it wrote; "" for none.
	Ledger     Ledger    `json:"ledger,omitempty"`
	ID         uuid.UUID `json:"extraction_id,omitzero"`
	SeqFrom    int64     `json:"seq_from,omitempty"`
	SeqTo      int64     `json:"seq_to,omitempty"`
	Turns      int       `json:"turns"`
	Used       int       `json:"used"`
	DurationMS int64     `json:"duration_ms"`
	Written
	Stats

	// Wait is how long it is until the chat is due; 0 if it is, or if nothing is left to read.
	Wait time.Duration `json:"-"`
}
