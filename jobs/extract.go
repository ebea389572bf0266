package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Extractions is what the sweep needs of Postgres.
type Extractions interface {
	// DueExtractions returns the chats that are due to be read and have no job.
	DueExtractions(ctx context.Context) ([]uuid.UUID, error)
}

// sweepExtractions returns the number of jobs inserted.
func (c *WorkerConfig) sweepExtractions(ctx context.Context) (inserted int, err error) {
	if c.Learner == nil {
		return 0, nil
	}
	due, err := c.Extractions.DueExtractions(ctx)
	if err != nil {
		return 0, err
	}
	return insertMissing(ctx, due, newExtract, priorityLater)
}

// extractAttempts is how often a range of turns is tried whose answers are broken; then it is skipped.
const extractAttempts = 5

// ExtractMemories reads what was said in a chat for what to remember of its user.
type ExtractMemories struct {
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (ExtractMemories) Kind() string { return "extract_memories" }

// InsertOpts are those of the queue of memories.
func (ExtractMemories) InsertOpts() river.InsertOpts { return onceIn(QueueMemories, extractAttempts) }

func newExtract(chatID uuid.UUID) river.JobArgs { return ExtractMemories{ChatID: chatID} }

func (c *WorkerConfig) extract(ctx context.Context, job *river.Job[ExtractMemories]) error {
	report, err := c.Learner.Extract(ctx, job.Args.ChatID, learn.Job{
		ID: job.ID, Last: job.Attempt >= job.MaxAttempts,
		EnqueueNext: func(ctx context.Context, tx pgx.Tx, at time.Time) error {
			return EnqueueExtract(river.ClientFromContext[pgx.Tx](ctx))(ctx, tx, job.Args.ChatID, at)
		},
	})
	if err == nil && report.Result == work.Nothing && report.Wait > 0 {
		return river.JobSnooze(report.Wait)
	}
	return finish(ctx, job.JobRow, report.Result, report, err)
}

// EnqueueExtract returns a function that inserts a chat's extract_memories in the caller's transaction, to run at a time;
// the zero time for at once. If the chat has an unfinished one, it runs at once if this one would, else when it would have.
func EnqueueExtract(client *Client) func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, at time.Time) error {
	return func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, at time.Time) error {
		options := &river.InsertOpts{Priority: priorityLater, ScheduledAt: at}
		if at.IsZero() {
			options.Priority = priorityNow
		}
		inserted, err := client.InsertTx(ctx, tx, newExtract(chatID), options)
		if err == nil && inserted.UniqueSkippedAsDuplicate && at.IsZero() {
			_, err = tx.Exec(ctx, raiseJob, inserted.Job.ID, priorityNow)
		}
		if err != nil {
			return fmt.Errorf("enqueue extract_memories: %w", err)
		}
		return nil
	}
}
