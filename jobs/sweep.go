package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Maintenance is what the sweep asks of Postgres.
type Maintenance interface {
	// InterruptAbandonedReplies ends replies whose server died.
	InterruptAbandonedReplies(ctx context.Context) (int, error)
	// DeleteStrayDeltas removes what was recorded of replies that are not running any more. young is how
	// long their server may take to do so itself.
	DeleteStrayDeltas(ctx context.Context, young time.Duration) (int, error)
	// MergeSearchEntries does for the full-text index what turns leave to be done.
	MergeSearchEntries(ctx context.Context) error
	// ReviveDeadFolds makes the jobs of workers that died available again; young is how long a job may
	// run before it must have taken its lease.
	ReviveDeadFolds(ctx context.Context, young time.Duration) (jobs, leases int, err error)
	// DueChats gives the chats over the threshold and those with a stale brief.
	DueChats(ctx context.Context) (folds, rebuilds []uuid.UUID, err error)
}

// Swept is what one sweep repaired.
type Swept struct {
	// Messages that were streaming and are interrupted now.
	Messages int `json:"interrupted_messages"`
	// Deltas of replies that ended without their server tidying up.
	Deltas int `json:"stray_deltas"`
	// Jobs of dead workers that are available again.
	Jobs int `json:"revived_jobs"`
	// Leases that ran out.
	Leases int `json:"expired_leases"`
	// Folds and Rebuilds inserted for chats that had no job.
	Folds    int `json:"inserted_folds"`
	Rebuilds int `json:"inserted_rebuilds"`
}

type sweepWorker struct {
	river.WorkerDefaults[SweepBriefs]
	maintenance Maintenance
	metrics     *metrics.Metrics
	logger      *slog.Logger
	youngFold   time.Duration
}

// youngDeltas is how long a server may take to remove what it recorded of a reply that ended: its next
// batch does.
const youngDeltas = 10 * time.Second

func (*sweepWorker) Timeout(*river.Job[SweepBriefs]) time.Duration { return sweepTimeout }

// Work does each repair whatever became of the others.
func (w *sweepWorker) Work(ctx context.Context, _ *river.Job[SweepBriefs]) error {
	var swept Swept
	var errs [5]error
	swept.Messages, errs[0] = w.maintenance.InterruptAbandonedReplies(ctx)
	swept.Deltas, errs[1] = w.maintenance.DeleteStrayDeltas(ctx, youngDeltas)
	swept.Jobs, swept.Leases, errs[2] = w.maintenance.ReviveDeadFolds(ctx, w.youngFold)
	swept.Folds, swept.Rebuilds, errs[3] = w.insertDue(ctx)
	errs[4] = w.maintenance.MergeSearchEntries(ctx)
	w.report(ctx, swept)
	return errors.Join(append(errs[:], river.RecordOutput(ctx, swept))...)
}

// insertDue inserts the jobs of chats that need one; for those that have one it changes nothing.
func (w *sweepWorker) insertDue(ctx context.Context) (folds, rebuilds int, err error) {
	due, stale, err := w.maintenance.DueChats(ctx)
	if err != nil {
		return 0, 0, err
	}
	if folds, err = insertAll(ctx, due, func(id uuid.UUID) river.JobArgs { return FoldBrief{ChatID: id} }); err != nil {
		return 0, 0, err
	}
	rebuilds, err = insertAll(ctx, stale, func(id uuid.UUID) river.JobArgs { return RebuildBrief{ChatID: id} })
	return folds, rebuilds, err
}

func insertAll(ctx context.Context, chats []uuid.UUID, args func(uuid.UUID) river.JobArgs) (int, error) {
	if len(chats) == 0 {
		return 0, nil
	}
	params := make([]river.InsertManyParams, len(chats))
	for i, id := range chats {
		params[i].Args = args(id)
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

func (w *sweepWorker) report(ctx context.Context, swept Swept) {
	if swept == (Swept{}) {
		return
	}
	count := w.metrics.Swept.WithLabelValues
	count("message").Add(float64(swept.Messages))
	count("delta").Add(float64(swept.Deltas))
	count("job").Add(float64(swept.Jobs))
	count("lease").Add(float64(swept.Leases))
	count("fold").Add(float64(swept.Folds))
	count("rebuild").Add(float64(swept.Rebuilds))
	w.logger.LogAttrs(ctx, slog.LevelInfo, "sweep repaired",
		slog.Int("interrupted_messages", swept.Messages), slog.Int("stray_deltas", swept.Deltas), slog.Int("revived_jobs", swept.Jobs), slog.Int("expired_leases", swept.Leases),
		slog.Int("inserted_folds", swept.Folds), slog.Int("inserted_rebuilds", swept.Rebuilds))
}
