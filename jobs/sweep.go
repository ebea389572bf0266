package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Store is what the periodic jobs and the index need of Postgres.
type Store interface {
	// InterruptAbandonedReplies ends the replies whose server died and returns their number.
	InterruptAbandonedReplies(ctx context.Context) (int, error)
	// DeleteStrayDeltas deletes the deltas of replies that ended at least young ago and returns their number.
	// Until then the server of the reply may still delete them itself.
	DeleteStrayDeltas(ctx context.Context, young time.Duration) (int, error)
	// RestoreBriefs takes briefs that cannot be read back to what was recorded, and returns their number.
	RestoreBriefs(ctx context.Context) (int, error)
	// DeleteOldUsage deletes usage that is older than 400 days.
	DeleteOldUsage(ctx context.Context) error
	// MergeSearchEntries merges the entries that turns added to the full-text indexes.
	MergeSearchEntries(ctx context.Context) error
	// Due returns jobs for the due work that has none. With an error it still returns the jobs that it has found.
	Due(ctx context.Context) ([]work.Job, error)
	// ReviveDead makes the jobs of dead workers available again and clears expired leases. young is how
	// long a job may run before it must have taken its lease.
	ReviveDead(ctx context.Context, young time.Duration) (jobs, leases int, err error)
	// DeleteExpired deletes the chats that expired that many days ago and returns their number.
	DeleteExpired(ctx context.Context, days int) (int, error)
	// DeleteIdle deletes the chats without a message in that many days and returns their number.
	DeleteIdle(ctx context.Context, days int) (int, error)
	// Decay lets memories fade for a day, once however often it is called, and archives what has faded. deleteDays is
	// after how many days an archived one is deleted; 0 for never. It returns how many memories that were.
	Decay(ctx context.Context, day time.Time, deleteDays int) (decayed, archived, deleted int, err error)
	// RunIndexTurns indexes what the index of a chat lacks, and completes the job.
	RunIndexTurns(ctx context.Context, chatID uuid.UUID, jobID int64) error
	// IndexRested indexes the last turns of chats that have rested for that long, until patience is over. It
	// returns the number of chats.
	IndexRested(ctx context.Context, rest, patience time.Duration) (int, error)
}

const (
	// youngDeltas is how long a server may take to delete the deltas of a reply that ended; it does so with its
	// next batch.
	youngDeltas = 10 * time.Second
	// indexRest is after how long without a message the last turns of a chat are indexed. Somebody who is talking
	// needs no index of them, because they are in the prompt; in another chat they may be asked for soon.
	indexRest = time.Minute
	// indexPatience is how long one sweep indexes. It has other work, and comes back.
	indexPatience = 5 * time.Second
	// mostBare bounds the jobs of each kind that wait for the embedder after a change of the model, and while it is away.
	mostBare = 100
)

// repair is what a sweep did of one kind: its label in metrics, and its name in the log and in the job's output.
type repair struct {
	label, name string
	count       int
}

// sweep makes each repair even if others fail.
func (c *WorkerConfig) sweep(ctx context.Context, _ *river.Job[Args]) outcome {
	messages, errMessages := c.Store.InterruptAbandonedReplies(ctx)
	deltas, errDeltas := c.Store.DeleteStrayDeltas(ctx, youngDeltas)
	revived, leases, errRevive := c.Store.ReviveDead(ctx, c.YoungFold)
	briefs, errBriefs := c.Store.RestoreBriefs(ctx)
	indexed, errIndex := c.Store.IndexRested(ctx, indexRest, indexPatience)
	bare, _, errBare := c.bare(ctx)
	vectors, errVectors := insertMissing(ctx, bare)
	due, errDue := c.Store.Due(ctx) // after those, because turns wait for their vectors before they get topics
	inserted, errInsert := insertMissing(ctx, due)
	output := c.report(ctx, []repair{
		{"message", "interrupted_messages", messages}, // replies that were streaming
		{"delta", "stray_deltas", deltas},             // of replies that had ended
		{"job", "revived_jobs", revived},              // of dead workers
		{"lease", "expired_leases", leases},
		{"brief", "restored_briefs", briefs},
		{"fold", "inserted_folds", inserted[work.FoldBrief]},
		{"embedding", "inserted_embeddings", vectors[work.EmbedTurns]},
		{"memory_embedding", "inserted_memory_embeddings", vectors[work.EmbedMemories]},
		{"extraction", "inserted_extractions", inserted[work.ExtractMemories]},
		{"assignment", "inserted_assignments", inserted[work.AssignTopics]},
		{"compaction", "inserted_compactions", inserted[work.CompactTopic]},
	})
	output["indexed_chats"] = indexed // which is no repair
	return outcome{output: output, err: errors.Join(
		errMessages, errDeltas, errRevive, errBriefs, errIndex, errBare, errVectors, errDue, errInsert, c.Store.MergeSearchEntries(ctx), c.Store.DeleteOldUsage(ctx),
		forgetIdleSweeps(ctx),
	)}
}

// forgetIdleSweeps deletes earlier sweeps that found nothing: River UI would show little else.
func forgetIdleSweeps(ctx context.Context) error {
	idle := river.NewJobDeleteManyParams().Kinds(work.SweepBriefs).States(rivertype.JobStateCompleted).First(1000).
		Where("not jsonb_path_exists(metadata, '$.output.* ? (@ > 0)')")
	if _, err := river.ClientFromContext[pgx.Tx](ctx).JobDeleteMany(ctx, idle); err != nil {
		return fmt.Errorf("delete idle sweeps: %w", err)
	}
	return nil
}

// report counts and logs repairs, and returns them by name.
func (c *WorkerConfig) report(ctx context.Context, repairs []repair) map[string]int {
	output, attrs, repaired := map[string]int{}, []slog.Attr{}, false
	for _, r := range repairs {
		repaired = repaired || r.count > 0
		output[r.name] = r.count
		attrs = append(attrs, slog.Int(r.name, r.count))
		c.Metrics.Swept.WithLabelValues(r.label).Add(float64(r.count))
	}
	if repaired {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "sweep repaired", attrs...)
	}
	return output
}

// bare returns the jobs of chats with turns, and of users with memories, that have no vector at all, and of those with one of
// another model.
func (c *WorkerConfig) bare(ctx context.Context) (fresh, outdated []work.Job, err error) {
	for name, vectors := range map[string]*recall.Vectors{work.EmbedTurns: c.Embedder, work.EmbedMemories: c.MemoryEmbedder} {
		if vectors == nil {
			continue
		}
		without, old, failure := vectors.Owners(ctx, mostBare)
		err = errors.Join(err, failure)
		for _, owner := range without {
			fresh = append(fresh, embedding(name, owner, work.Repair))
		}
		for _, owner := range old {
			outdated = append(outdated, embedding(name, owner, work.Later))
		}
	}
	return fresh, outdated, err
}

// embedding is the job of an owner of turns or memories.
func embedding(name string, owner uuid.UUID, priority int) work.Job {
	if name == work.EmbedTurns {
		return work.Job{Name: name, ChatID: owner, Priority: priority}
	}
	return work.Job{Name: name, UserID: owner, Priority: priority}
}

// insertMissing inserts the jobs that are not there unfinished, and returns how many of each kind.
func insertMissing(ctx context.Context, jobs []work.Job) (map[string]int, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	params := make([]river.InsertManyParams, len(jobs))
	for n, job := range jobs {
		params[n].Args = Args{job}
	}
	results, err := river.ClientFromContext[pgx.Tx](ctx).InsertMany(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("insert jobs: %w", err)
	}
	inserted := map[string]int{}
	for _, result := range results {
		if !result.UniqueSkippedAsDuplicate {
			inserted[result.Job.Kind]++
		}
	}
	return inserted, nil
}
