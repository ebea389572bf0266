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
	"github.com/jackc/pgx/v5"
)

// Store keeps topics. Each method is one short transaction with the rights of the chat's owner; none is open while the
// model works.
type Store interface {
	// Read reads a topic with all of its messages; false for one that is gone.
	Read(ctx context.Context, chatID, topicID uuid.UUID) (Snapshot, bool, error)
	// Commit writes a change, completes the job, and calls next, if there is one, in the same transaction, with the rights
	// of the server. When the topic or its messages have changed since Read, or the lease is lost, it writes nothing and returns false.
	Commit(ctx context.Context, change Change, next func(ctx context.Context, tx pgx.Tx) error) (bool, error)
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
	ChatID, TopicID uuid.UUID
	// JobID is the River job that the change completes; 0 for none.
	JobID   int64
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
	// Wait is for how long the topic is put off; 0 if it is not.
	Wait time.Duration
	// Report is the job's output.
	Report Report
}

// Job is the River job that runs a compaction. It is completed in the transaction that writes the topic.
type Job struct {
	// ID is 0 when there is no job.
	ID int64
	// Last reports that no other attempt follows if this one fails.
	Last bool
	// EnqueueNext inserts the topic's next job in that transaction. It is called when something is left to pack.
	EnqueueNext func(ctx context.Context, tx pgx.Tx) error
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
