package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Maintenance is what the periodic jobs need from Postgres.
type Maintenance interface {
	// InterruptAbandonedReplies ends the replies whose server died and returns their number.
	InterruptAbandonedReplies(ctx context.Context) (int, error)
	// DeleteStrayDeltas deletes the deltas of replies that ended at least young ago and returns their number.
	// Until then the server of the reply may still delete them itself.
	DeleteStrayDeltas(ctx context.Context, young time.Duration) (int, error)
	// DeleteOldUsage deletes what was spent more than 400 days ago.
	DeleteOldUsage(ctx context.Context) error
	// MergeSearchEntries merges the entries that turns added to the full-text indexes.
	MergeSearchEntries(ctx context.Context) error
	// DueChats returns the chats that need a fold, and those whose brief needs a rebuild.
	DueChats(ctx context.Context) (folds, rebuilds []uuid.UUID, err error)
	// DeleteExpired deletes the chats that expired that many days ago and returns their number.
	DeleteExpired(ctx context.Context, days int) (int, error)
	// DeleteIdle deletes the chats without a message in that many days and returns their number.
	DeleteIdle(ctx context.Context, days int) (int, error)
}

// Reviver repairs what dead workers leave.
type Reviver interface {
	// ReviveDead makes the jobs of dead workers available again and clears expired leases. young is how
	// long a job may run before it must have taken its lease.
	ReviveDead(ctx context.Context, young time.Duration) (jobs, leases int, err error)
}

// SweepResult is the output of sweep_briefs: what it repaired.
type SweepResult struct {
	// Messages is the number of replies that were streaming and are interrupted now.
	Messages int `json:"interrupted_messages"`
	// Deltas is the number of deleted deltas of replies that had ended.
	Deltas int `json:"stray_deltas"`
	// Jobs is the number of jobs of dead workers that are available again.
	Jobs int `json:"revived_jobs"`
	// Leases is the number of leases that had expired.
	Leases int `json:"expired_leases"`
	// Folds and Rebuilds are the numbers of jobs inserted for chats that had none.
	Folds    int `json:"inserted_folds"`
	Rebuilds int `json:"inserted_rebuilds"`
	// Indexed is the number of chats whose last turns were indexed.
	Indexed int `json:"indexed_chats"`
	// Embeddings is the number of jobs inserted for chats with turns without a vector.
	Embeddings int `json:"inserted_embeddings"`
	// MemoryEmbeddings is the number of jobs inserted for users with memories without a vector.
	MemoryEmbeddings int `json:"inserted_memory_embeddings"`
	// Extractions is the number of jobs inserted for chats that are due to be read for memories.
	Extractions int `json:"inserted_extractions"`
	// Assignments is the number of jobs inserted for chats with turns without a topic, Compactions for topics that are to be
	// compacted.
	Assignments int `json:"inserted_assignments"`
	Compactions int `json:"inserted_compactions"`
}

// youngDeltas is how long a server may take to delete the deltas of a reply that ended; it does so with its
// next batch.
const youngDeltas = 10 * time.Second

// sweep makes each repair even if others fail.
func (c *WorkerConfig) sweep(ctx context.Context, _ *river.Job[SweepBriefs]) error {
	var result SweepResult
	var errs [10]error
	result.Messages, errs[0] = c.Maintenance.InterruptAbandonedReplies(ctx)
	result.Deltas, errs[1] = c.Maintenance.DeleteStrayDeltas(ctx, youngDeltas)
	result.Jobs, result.Leases, errs[2] = c.Reviver.ReviveDead(ctx, c.YoungFold)
	result.Folds, result.Rebuilds, errs[3] = c.insertDue(ctx)
	result.Indexed, errs[4] = c.Indexer.IndexRested(ctx, indexRest, indexPatience)
	result.Embeddings, result.MemoryEmbeddings, errs[5] = c.insertBare(ctx, false)
	errs[6] = errors.Join(c.Maintenance.MergeSearchEntries(ctx), c.Maintenance.DeleteOldUsage(ctx))
	result.Extractions, errs[8] = c.sweepExtractions(ctx)
	topics, err := c.sweepTopics(ctx)
	result.Assignments, result.Compactions, errs[9] = topics.assignments, topics.compactions, err
	c.report(ctx, result)
	errs[7] = river.RecordOutput(ctx, result)
	return errors.Join(errs[:]...)
}

// insertDue inserts the jobs of chats that need one and have none.
func (c *WorkerConfig) insertDue(ctx context.Context) (folds, rebuilds int, err error) {
	due, stale, err := c.Maintenance.DueChats(ctx)
	if err != nil {
		return 0, 0, err
	}
	if folds, err = insertMissing(ctx, due, newFold, priorityLater); err != nil {
		return 0, 0, err
	}
	rebuilds, err = insertMissing(ctx, stale, newRebuild, priorityRepair)
	return folds, rebuilds, err
}

// insertMissing inserts a job for each chat, topic or user that has no unfinished one, and returns the number of jobs
// inserted.
func insertMissing[ID any](ctx context.Context, ids []ID, newJob func(ID) river.JobArgs, priority int) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	params := make([]river.InsertManyParams, len(ids))
	for i, id := range ids {
		params[i] = river.InsertManyParams{Args: newJob(id), InsertOpts: &river.InsertOpts{Priority: priority}}
	}
	results, err := river.ClientFromContext[pgx.Tx](ctx).InsertMany(ctx, params)
	if err != nil {
		return 0, fmt.Errorf("insert jobs: %w", err)
	}
	inserted := 0
	for _, result := range results {
		if !result.UniqueSkippedAsDuplicate {
			inserted++
		}
	}
	return inserted, nil
}

func (c *WorkerConfig) report(ctx context.Context, result SweepResult) {
	result.Indexed = 0 // which is no repair
	if result == (SweepResult{}) {
		return
	}
	attrs := []slog.Attr{}
	for _, repaired := range []struct {
		label, key string
		count      int
	}{
		{"message", "interrupted_messages", result.Messages},
		{"delta", "stray_deltas", result.Deltas},
		{"job", "revived_jobs", result.Jobs},
		{"lease", "expired_leases", result.Leases},
		{"fold", "inserted_folds", result.Folds},
		{"rebuild", "inserted_rebuilds", result.Rebuilds},
		{"embedding", "inserted_embeddings", result.Embeddings},
		{"memory_embedding", "inserted_memory_embeddings", result.MemoryEmbeddings},
		{"extraction", "inserted_extractions", result.Extractions},
		{"assignment", "inserted_assignments", result.Assignments},
		{"compaction", "inserted_compactions", result.Compactions},
	} {
		c.Metrics.Swept.WithLabelValues(repaired.label).Add(float64(repaired.count))
		attrs = append(attrs, slog.Int(repaired.key, repaired.count))
	}
	c.Logger.LogAttrs(ctx, slog.LevelInfo, "sweep repaired", attrs...)
}
