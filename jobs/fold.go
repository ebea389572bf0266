package jobs

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Folder changes briefs.
type Folder interface {
	Fold(ctx context.Context, chatID uuid.UUID, job brief.Job) (brief.Report, error)
	Rebuild(ctx context.Context, chatID uuid.UUID, job brief.Job) (brief.Report, error)
}

var _ Folder = (*brief.Engine)(nil)

func (c *WorkerConfig) fold(ctx context.Context, job *river.Job[FoldBrief]) error {
	report, err := c.Folder.Fold(ctx, job.Args.ChatID, jobOf(job.ID, job.Args.ChatID))
	return finish(ctx, report, err)
}

func (c *WorkerConfig) rebuild(ctx context.Context, job *river.Job[RebuildBrief]) error {
	report, err := c.Folder.Rebuild(ctx, job.Args.ChatID, jobOf(job.ID, job.Args.ChatID))
	return finish(ctx, report, err)
}

// jobOf returns what the fold needs to complete its own job and to insert the chat's next one. It does both
// in one transaction, in which the completed job no longer prevents the insert.
func jobOf(id int64, chatID uuid.UUID) brief.Job {
	return brief.Job{ID: id, EnqueueNext: func(ctx context.Context, tx pgx.Tx) error {
		return EnqueueFold(river.ClientFromContext[pgx.Tx](ctx))(ctx, tx, chatID)
	}}
}

// finish returns what River should do with a job that the fold did not complete itself.
func finish(ctx context.Context, report brief.Report, err error) error {
	switch {
	case report.Result == brief.Busy:
		return river.JobSnooze(time.Second + rand.N(2*time.Second)) //nolint:gosec // spreads load, guards nothing
	case report.Result == brief.Conflict:
		return river.JobSnooze(0)
	case err != nil:
		return err
	case report.Result == brief.Nothing:
		return river.RecordOutput(ctx, report)
	}
	return nil
}

// nextRetry waits 1, 2, 4 … seconds after a failed attempt, at most a minute, so that folding resumes soon
// after an outage; and up to a quarter more, so that not all chats retry at once.
func nextRetry(attempt int) time.Time {
	wait := time.Minute
	if attempt <= 6 {
		wait = time.Second << max(attempt-1, 0)
	}
	return time.Now().Add(wait + rand.N(wait/4+1)) //nolint:gosec // spreads load, guards nothing
}
