// Package pack packs the old messages of topics away: the model adds them to the topic's summary, as a fold adds turns to
// a brief, and the topic says up to which message it is packed. The rows of messages never move.
//
// [Engine] runs one compaction: it claims the topic, asks the model outside of any transaction, and writes what came of it
// if the topic is still what it was. Package jobs decides when.
package pack

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Store keeps topics. Each method is one short transaction with the rights of the chat's owner; none is open while the
// model works.
type Store interface {
	// Read reads a topic with all of its messages; false for one that is gone.
	Read(ctx context.Context, chatID, topicID uuid.UUID) (Snapshot, bool, error)
	// Commit writes a change, completes the job, and inserts the topic's next one if there is more. When the topic or its messages
	// have changed since Read, or the lease is lost, it writes nothing and returns false.
	Commit(ctx context.Context, change Change) (bool, error)
}

// Snapshot is a topic as a compaction finds it.
type Snapshot struct {
	UserID uuid.UUID `db:"-"`
	// Version changes with all that a compaction could overlook: see the column.
	Version int64
	State   topics.State
	// Current reports that it is the chat's active topic, Rehydrated that it was unpacked when the conversation returned.
	Current, Rehydrated bool
	// Stale reports that the summary is to be made again.
	Stale bool
	// Title is of the message TitleSeq; 0 says that it was made with a summary, or is topics.Untitled, nil that a user set it.
	Title    string
	TitleSeq *int64
	// Summary holds the messages up to SummarySeq; those up to CompactedSeq are packed.
	Summary                  string
	SummaryTokens            int
	SummarySeq, CompactedSeq int64
	// Messages are all of the topic's, oldest first.
	Messages []memory.Message `db:"-"`
}

// Change is what a compaction writes.
type Change struct {
	// Attempt is that of the job that the change completes.
	work.Attempt

	ChatID, TopicID uuid.UUID

	Lease   work.Lease
	Planned Snapshot
	Plan    Plan
	// Title and TitleSeq are nil where the title stays.
	Title    *string
	TitleSeq *int64
	// Summary is "" for none.
	Summary                  string
	Tokens                   int
	SummarySeq, CompactedSeq int64
	Stale, Rehydrated        bool
	// More reports that something is left to pack, for the topic's next job.
	More bool
	// Wait is for how long the topic is put off; 0 if it is not.
	Wait time.Duration
	// Report is the job's output.
	Report Report
}

// Report describes a compaction, without content.
type Report struct {
	Result work.Result `json:"result"`
	// Packed is how many messages were packed, Archived how many are now, and Active how many are not.
	Packed   int `json:"packed"`
	Archived int `json:"archived"`
	Active   int `json:"active"`
	// Summarized is how many messages were added to the summary.
	Summarized    int `json:"summarized"`
	SummaryTokens int `json:"summary_tokens"`
	// WithoutSummary reports that the messages were packed although the model's summaries of them were refused.
	WithoutSummary bool  `json:"without_summary,omitempty"`
	DurationMS     int64 `json:"duration_ms"`
	brief.CallStats
}
