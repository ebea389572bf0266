package topics

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Scope says which chats have topics, and by whose vectors.
type Scope struct {
	// Mode is TOPICS: auto, on or off.
	Mode string
	// Model makes the vectors; "" if there are none, or none that mean something.
	Model string
}

// AssignStore keeps topics. Each of its methods that names a chat is one transaction, in which no other worker changes the chat's
// topics. It may try again: then the function that it calls must begin from nothing.
type AssignStore interface {
	// Wanted reports whether a chat has topics, and turns for them.
	Wanted(ctx context.Context, chatID uuid.UUID, in Scope) (bool, error)
	// Assign reads a chat, at most so many turns of it, and writes the assignment that decide makes of that. It inserts the jobs that
	// come of it: the next one for more turns, compactions of topics, and a decay where a chat got too many. It reports false if
	// another worker changes the chat's topics.
	Assign(ctx context.Context, chatID uuid.UUID, in Scope, most int, decide func(*AssignSnapshot) *Assignment) (bool, error)
	// Fading looks at the next chats whose topics may have faded, at most so many, and returns them in their order, after one.
	// Those with no more than maxTopics active topics are done. Alike does the same for chats whose topics changed since they
	// were compared; those without two whose centroids have at least that cosine and that no user has named are done.
	Fading(ctx context.Context, after Faded, maxTopics, most int) ([]Faded, error)
	Alike(ctx context.Context, after uuid.UUID, model string, cosine float64, most int) ([]Compared, error)
	// Archive archives the topics of a chat that choose returns, and returns how many; with when to look at the chat again,
	// nil for when it has another topic. Chats of which another worker changes the topics are left for the next time.
	Archive(ctx context.Context, chatID uuid.UUID, choose func([]Topic) ([]uuid.UUID, *time.Time)) (int, error)
	// Merge merges the topics of a chat that choose returns, has those compacted that others were merged into, and returns how many
	// were merged.
	Merge(ctx context.Context, chatID uuid.UUID, choose func([]Topic) []Merge) (int, error)
}

// Faded is a chat whose topics may have faded at a time. Crowded is whether it has too many.
type Faded struct {
	ChatID  uuid.UUID
	At      time.Time
	Crowded bool
}

// Compared is a chat whose topics have changed. Alike is whether two of them may be the same.
type Compared struct {
	ChatID uuid.UUID
	Alike  bool
}

// AssignSnapshot is the state of a chat from which turns are assigned.
type AssignSnapshot struct {
	// Model is the scope's; "" while vectors of topics are made again after a change of the model.
	Model string
	// Turns are in order of seq. More is whether there are others.
	Turns []Turn
	More  bool
	// Topics may be joined by turns, Cleared only be left.
	Topics, Cleared []*Topic
	LastNumber      int
	// Given are topics of the file from which the chat was imported. The topics that turns begin get their TopicID.
	Given []*Given
}

// Assignment are the changes that an assignment writes.
type Assignment struct {
	// JobID is the job to complete, with the report as its output; 0 for none.
	JobID  int64
	Report AssignReport
	// New are topics that begin, and Changed are topics with turns more or less.
	New     []Titled
	Changed []*Topic
	// Retitled get a new title.
	Retitled []Titled
	// Chosen are the turns' topics.
	Chosen []Chosen
	// Recounted are topics that a turn has left, or joined out of turn: their turns are counted again.
	Recounted []uuid.UUID
	// Returned are packed topics that the conversation has come back to.
	Returned []uuid.UUID
	// MaxMessages is how many active messages a topic may have, MaxTopics how many active topics a chat.
	MaxMessages, MaxTopics int
}

// Titled is a topic with its title, and the message that this is made of.
type Titled struct {
	*Topic
	Title    string
	TitleSeq int64
}

// Chosen is the topic of a turn. Model is topics.Decision's.
type Chosen struct {
	Seq     int64
	TopicID uuid.UUID
	Model   *string
}

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

// Packed are the changes that a compaction writes.
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
