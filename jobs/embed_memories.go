package jobs

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// EmbedMemories gives a user's memories the vectors that they lack.
type EmbedMemories struct {
	UserID uuid.UUID `json:"user_id"`
}

// Kind is the job's name in River's tables.
func (EmbedMemories) Kind() string { return "embed_memories" }

// InsertOpts are those of the queue of all that waits for the embedder.
func (EmbedMemories) InsertOpts() river.InsertOpts { return onceIn(QueueVectors, maxAttempts) }

func newEmbedMemories(userID uuid.UUID) river.JobArgs { return EmbedMemories{UserID: userID} }

// EnqueueEmbedMemories returns a function that inserts a user's embed_memories in the caller's transaction. Without an
// embedder the job does nothing.
func EnqueueEmbedMemories(client *Client) func(context.Context, pgx.Tx, uuid.UUID) error {
	return enqueue(client, newEmbedMemories, priorityNow)
}

func (c *WorkerConfig) embedMemories(ctx context.Context, job *river.Job[EmbedMemories]) error {
	done, err := c.MemoryEmbedder.EmbedMemories(ctx, job.Args.UserID)
	switch {
	case err != nil:
		return err
	case done.Rest > 0:
		return river.JobSnooze(done.Rest)
	case done.Paused:
		return river.JobSnooze(0)
	}
	return river.RecordOutput(ctx, done)
}
