package jobs

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Folder changes briefs.
type Folder interface {
	Fold(ctx context.Context, chatID uuid.UUID, job brief.Job) (brief.Report, error)
	Rebuild(ctx context.Context, chatID uuid.UUID, job brief.Job) (brief.Report, error)
}

var _ Folder = (*brief.Engine)(nil)

func (c *WorkerConfig) fold(ctx context.Context, job *river.Job[FoldBrief]) error {
	report, err := c.Folder.Fold(ctx, job.Args.ChatID, jobOf(job.JobRow, job.Args.ChatID))
	return c.afterChange(ctx, job.JobRow, job.Args.ChatID, report, err)
}

func (c *WorkerConfig) rebuild(ctx context.Context, job *river.Job[RebuildBrief]) error {
	report, err := c.Folder.Rebuild(ctx, job.Args.ChatID, jobOf(job.JobRow, job.Args.ChatID))
	return c.afterChange(ctx, job.JobRow, job.Args.ChatID, report, err)
}

// afterChange also asks for the vectors and topics of what a change of the brief has indexed.
func (c *WorkerConfig) afterChange(ctx context.Context, row *rivertype.JobRow, chatID uuid.UUID, report brief.Report, err error) error {
	switch {
	case err == nil && report.Result == work.Done:
		c.afterIndexing(ctx, chatID)
	case report.Again > 0:
		return river.JobSnooze(report.Again)
	}
	return finish(ctx, row, report.Result, report, err)
}

// jobOf returns what the fold needs to complete its own job and to insert the chat's next one, with the same priority.
// It does both in one transaction, in which the completed job no longer prevents the insert.
func jobOf(row *rivertype.JobRow, chatID uuid.UUID) brief.Job {
	return brief.Job{
		ID: row.ID, Background: row.Priority > priorityNow, Last: row.Attempt >= row.MaxAttempts,
		EnqueueNext: func(ctx context.Context, tx pgx.Tx) error {
			return enqueue(river.ClientFromContext[pgx.Tx](ctx), newFold, row.Priority)(ctx, tx, chatID)
		},
	}
}

// finish returns what River should do with a job that the change did not complete itself. A refused one ends: the sweep
// inserts another when the chat's time has come.
func finish(ctx context.Context, row *rivertype.JobRow, result work.Result, report any, err error) error {
	switch {
	case result == work.Busy:
		return river.JobSnooze(whileBusy/2 + rand.N(whileBusy)) //nolint:gosec // spreads load, guards nothing
	case result == work.Waiting:
		return river.JobSnooze(unlessWoken(time.Since(row.CreatedAt)))
	case result == work.Conflict, result == work.Paused:
		return river.JobSnooze(0)
	case result == work.Refused && err != nil:
		return river.JobCancel(err)
	case err != nil:
		return err
	case result == work.Nothing:
		return river.RecordOutput(ctx, report)
	}
	return nil
}

// whileBusy is about how long a job waits whose item another worker has; a dead worker's lease ends within seconds.
const whileBusy = 4 * time.Second

// unlessWoken returns how long a job of an age waits for a place at most: it is woken when one is free, and thousands of one
// user's jobs must not ask all the time.
func unlessWoken(age time.Duration) time.Duration {
	wait := min(max(age, 15*time.Second), 5*time.Minute)
	return wait/2 + rand.N(wait) //nolint:gosec // spreads load, guards nothing
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
