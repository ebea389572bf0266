// Package jobs runs the background work on River: which jobs exist, and when they are inserted, retried and
// rescued. What a fold does is in internal/memory/brief. A job's arguments are ids and its output is numbers,
// so that River's tables never contain what users wrote.
package jobs

import (
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Queues.
const (
	// QueueMemory is for folds and rebuilds; WorkerConfig.Concurrency of them run at once.
	QueueMemory = "memory"
	// QueueMemories is for extract_memories, compact_topic and update_memory_graph, which wait for a model; half of
	// WorkerConfig.Concurrency of them run at once.
	QueueMemories = "memories"
	// QueueTopics is for assign_topics, which asks no model and waits for none; half of WorkerConfig.Concurrency of them run at
	// once.
	QueueTopics = "topics"
	// QueueVectors is for embed_turns and embed_memories.
	QueueVectors = "vectors"
	// QueueMaintenance is for the periodic jobs; one runs at a time.
	QueueMaintenance = "maintenance"
)

const (
	// foldTimeout, the default for all jobs, exceeds a fold's turn with the deadlines of all calls of its last piece:
	// two tries and a shortening, of a minute each.
	foldTimeout  = 6 * time.Minute
	sweepTimeout = 30 * time.Second
	// deleteTimeout allows for hundreds of thousands of chats; the next run deletes the rest.
	deleteTimeout = 5 * time.Minute
	// rescueAfter is when River takes over the job of a silent worker. The sweep does so earlier for folds,
	// because it knows their leases.
	rescueAfter = 10 * time.Minute
	// maxAttempts is some minutes of a model's outage. Then the chat is put off, and the sweep inserts the job again.
	maxAttempts = 10
)

// Priorities of the jobs of chats: of the jobs that can run, those with the lowest number run first.
const (
	// priorityNow is for a chat in which somebody is talking, or deletes what was said.
	priorityNow = 1
	// priorityRepair is for briefs that the sweep finds stale.
	priorityRepair = 2
	// priorityLater is for imports, and for due chats that the sweep finds.
	priorityLater = 3
)

// unfinished are the states in which no second job for the chat is inserted. River's default includes
// completed, which would block the chat for a day.
var unfinished = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateScheduled,
	rivertype.JobStateRetryable, rivertype.JobStateRunning,
}

// FoldBrief folds a chat's oldest turns into its brief.
type FoldBrief struct {
	oncePerChat
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (FoldBrief) Kind() string { return "fold_brief" }

// RebuildBrief makes a chat's brief again from its messages, after a covered one was edited or deleted.
type RebuildBrief struct {
	oncePerChat
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (RebuildBrief) Kind() string { return "rebuild_brief" }

// IndexTurns indexes what was said in a chat that has no folds.
type IndexTurns struct {
	oncePerChat
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (IndexTurns) Kind() string { return "index_turns" }

// SweepBriefs repairs what crashes leave and inserts missing jobs: see Maintenance.
type SweepBriefs struct{ periodic }

// Kind is the job's name in River's tables.
func (SweepBriefs) Kind() string { return "sweep_briefs" }

// Reembed asks for the vectors of turns anew after another model was configured.
type Reembed struct{ periodic }

// Kind is the job's name in River's tables.
func (Reembed) Kind() string { return "reembed" }

// ExpireChats deletes chats that expired WorkerConfig.ExpiredDays ago.
type ExpireChats struct{ periodic }

// Kind is the job's name in River's tables.
func (ExpireChats) Kind() string { return "expire_chats" }

// PruneChats deletes chats that have been idle for WorkerConfig.PruneDays.
type PruneChats struct{ periodic }

// Kind is the job's name in River's tables.
func (PruneChats) Kind() string { return "prune_chats" }

func newFold(chatID uuid.UUID) river.JobArgs    { return FoldBrief{ChatID: chatID} }
func newRebuild(chatID uuid.UUID) river.JobArgs { return RebuildBrief{ChatID: chatID} }
func newIndex(chatID uuid.UUID) river.JobArgs   { return IndexTurns{ChatID: chatID} }

// periodic gives a job one attempt: the next one comes in any case.
type periodic struct{}

func (periodic) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueMaintenance, MaxAttempts: 1}
}

// oncePerChat is a job of QueueMemory, the only unfinished one of its chat.
type oncePerChat struct{}

func (oncePerChat) InsertOpts() river.InsertOpts { return onceIn(QueueMemory, maxAttempts) }

// onceIn makes a job the only unfinished one with its arguments. It has a queue of its own where no fold should wait for it.
func onceIn(queue string, attempts int) river.InsertOpts {
	return river.InsertOpts{Queue: queue, MaxAttempts: attempts, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished}}
}
