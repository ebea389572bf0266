package topics

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"

	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// CompactStore keeps topics. Each method is one short transaction with the rights of the chat's owner; none is open while the
// model works.
type CompactStore interface {
	// Read reads a topic with all of its messages; false for one that is gone.
	Read(ctx context.Context, chatID, topicID uuid.UUID) (CompactSnapshot, bool, error)
	// Commit writes a change, completes the job, and inserts the topic's next one if there is more. When the topic or its messages
	// have changed since Read, or the lease is lost, it writes nothing and returns false.
	Commit(ctx context.Context, change Packed) (bool, error)
}

// CompactSnapshot is a topic as a compaction finds it.
type CompactSnapshot struct {
	UserID uuid.UUID `db:"-"`
	// Version changes with all that a compaction could overlook: see the column.
	Version int64
	State   State
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

// Packed is what a compaction writes.
type Packed struct {
	// Attempt is that of the job that the change completes.
	work.Attempt

	ChatID, TopicID uuid.UUID

	Lease   work.Lease
	Planned CompactSnapshot
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
	Report CompactReport
}

// CompactReport describes a compaction, without content.
type CompactReport struct {
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
