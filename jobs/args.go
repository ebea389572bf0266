// Package jobs runs the memory work on River: which jobs there are, when they are inserted, retried
// and rescued. What a fold does is in internal/memory/brief; a job's arguments are ids, and its output in
// River UI is numbers, so that no one's words are ever in River's tables.
package jobs

import (
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Queues.
const (
	// QueueMemory is where folds and rebuilds run, WorkerConcurrency at once.
	QueueMemory = "memory"
	// QueueMaintenance is where the sweep runs, and the deletion of old chats.
	QueueMaintenance = "maintenance"
)

// Bounds of a job's life.
const (
	// foldTimeout is above the deadlines of the calls of one fold together: two tries and a shortening
	// of a minute each, and some pieces of an overlong turn.
	foldTimeout = 6 * time.Minute
	// rebuildTimeout leaves room for a long chat, folded again piece by piece.
	rebuildTimeout = time.Hour
	sweepTimeout   = 30 * time.Second
	// deleteTimeout is for chats by the hundred thousand; what is left then goes the next time.
	deleteTimeout = 5 * time.Minute
	// rescueAfter is when River itself gives up on a worker that was not heard of. The sweep is faster
	// for folds, because it knows their leases.
	rescueAfter = 10 * time.Minute
	// maxAttempts is more than an outage of a day uses up; the sweep inserts the job anew after that.
	maxAttempts = 2000
)

// unfinished are the states in which a chat's job stands for all that may still come. Completed is
// left out on purpose: with River's default it would block the chat for a day.
var unfinished = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateScheduled,
	rivertype.JobStateRetryable, rivertype.JobStateRunning,
}

// FoldBrief folds a chat's oldest turns into its brief.
type FoldBrief struct {
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (FoldBrief) Kind() string { return "fold_brief" }

// InsertOpts makes the job the only unfinished one of its chat.
func (FoldBrief) InsertOpts() river.InsertOpts { return perChat() }

// RebuildBrief folds a chat again from its messages, after a covered one was edited or deleted.
type RebuildBrief struct {
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (RebuildBrief) Kind() string { return "rebuild_brief" }

// InsertOpts makes the job the only unfinished one of its chat.
func (RebuildBrief) InsertOpts() river.InsertOpts { return perChat() }

// SweepBriefs finds what no job takes care of: see Sweep.
type SweepBriefs struct{}

// Kind is the job's name in River's tables.
func (SweepBriefs) Kind() string { return "sweep_briefs" }

// InsertOpts gives the job one attempt: the next sweep comes in seconds.
func (SweepBriefs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueMaintenance, MaxAttempts: 1}
}

// ExpireChats takes care of chats that have expired: see expireWorker.
type ExpireChats struct{}

// Kind is the job's name in River's tables.
func (ExpireChats) Kind() string { return "expire_chats" }

// InsertOpts gives the job one attempt: the next one comes in minutes.
func (ExpireChats) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueMaintenance, MaxAttempts: 1}
}

// PruneChats deletes chats that were idle for longer than the operator wants to keep them.
type PruneChats struct{}

// Kind is the job's name in River's tables.
func (PruneChats) Kind() string { return "prune_chats" }

// InsertOpts gives the job one attempt: the next one comes in an hour.
func (PruneChats) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueMaintenance, MaxAttempts: 1}
}

func perChat() river.InsertOpts {
	return river.InsertOpts{
		Queue:       QueueMemory,
		MaxAttempts: maxAttempts,
		UniqueOpts:  river.UniqueOpts{ByArgs: true, ByState: unfinished},
	}
}
