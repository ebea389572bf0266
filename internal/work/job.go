package work

import (
	"time"

	"github.com/google/uuid"
)

// The kinds of jobs, as River's tables name them.
const (
	// FoldBrief folds a chat's oldest turns into its brief.
	FoldBrief = "fold_brief"
	// IndexTurns indexes the turns of a chat that has no folds.
	IndexTurns = "index_turns"
	// EmbedTurns gives a chat's indexed turns the vectors that they lack, EmbedMemories does so for a user's memories.
	EmbedTurns    = "embed_turns"
	EmbedMemories = "embed_memories"
	// ExtractMemories reads a chat's turns for memories of its user.
	ExtractMemories = "extract_memories"
	// UpdateMemoryGraph finds the entities of memories that were written, edited or imported, DecayMemories lets unused ones
	// fade.
	UpdateMemoryGraph = "update_memory_graph"
	DecayMemories     = "decay_memories"
	// AssignTopics gives a chat's indexed turns their topics, CompactTopic summarizes the older messages of a topic and packs them.
	AssignTopics = "assign_topics"
	CompactTopic = "compact_topic"
	// DecayTopics archives topics that faded, in chats with more than TOPIC_MAX. MergeTopics merges topics of a chat that are the
	// same.
	DecayTopics = "decay_topics"
	MergeTopics = "merge_topics"
	// TitleChat gives a chat a title.
	TitleChat = "title_chat"
	// SweepBriefs repairs what crashes leave and inserts missing jobs. Reembed asks for vectors again after another model was
	// configured.
	SweepBriefs = "sweep_briefs"
	Reembed     = "reembed"
	// ExpireChats deletes chats that have expired for long, PruneChats chats that have been idle for long.
	ExpireChats = "expire_chats"
	PruneChats  = "prune_chats"
)

// Priorities of jobs: of the jobs that can run, the lowest numbers run first.
const (
	// Now is for a chat in which somebody is talking.
	Now = 1
	// Repair is for what may come after folds of chats in which somebody is talking.
	Repair = 2
	// Later is for imports, and for what the sweep finds due.
	Later = 3
)

// Job is a job to insert: its kind, and the ids of what it is about, which are its arguments in River's tables. So these never
// contain what users wrote.
type Job struct {
	Name    string    `json:"-"`
	ChatID  uuid.UUID `json:"chat_id,omitzero"`
	TopicID uuid.UUID `json:"topic_id,omitzero"`
	UserID  uuid.UUID `json:"user_id,omitzero"`
	// Priority is Now by default.
	Priority int `json:"-"`
	// At is when it is to run; the zero time for at once.
	At time.Time `json:"-"`
}

// Attempt is one attempt of a job, which is completed in the transaction that writes what comes of it. The zero value is work
// without a job.
type Attempt struct {
	JobID    int64
	Priority int
	// Last reports that no other attempt follows if this one fails.
	Last bool
}
