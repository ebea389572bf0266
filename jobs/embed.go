package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

const (
	// embeddingsAtOnce is how many embed_turns run at once in a process: most of their time they wait for the model.
	embeddingsAtOnce = 2
	embedTimeout     = 3 * time.Minute
	// reembedSweeps is how many sweeps there are to one reembed.
	reembedSweeps = 6
	// mostBare bounds the jobs of each kind that wait after a change of the model, and while it is away.
	mostBare = 100
)

// EmbedTurns gives a chat's indexed turns the vectors that they lack.
type EmbedTurns struct {
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (EmbedTurns) Kind() string { return "embed_turns" }

// InsertOpts are those of the queue of all that waits for the embedder, which may be slow.
func (EmbedTurns) InsertOpts() river.InsertOpts { return onceIn(QueueVectors, maxAttempts) }

func newEmbedTurns(chatID uuid.UUID) river.JobArgs { return EmbedTurns{ChatID: chatID} }

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

// embedTurns has turns get their topics also if their vectors do not come now; then the topic is chosen again when they do.
func (c *WorkerConfig) embedTurns(ctx context.Context, job *river.Job[EmbedTurns]) error {
	err := embed(ctx, c.Embedder, job.Args.ChatID, job.ID)
	c.askForTopics(ctx, job.Args.ChatID)
	return err
}

func (c *WorkerConfig) embedMemories(ctx context.Context, job *river.Job[EmbedMemories]) error {
	return embed(ctx, c.MemoryEmbedder, job.Args.UserID, job.ID)
}

// embed gives an owner's things their vectors. As long as some have none the job comes again.
func embed(ctx context.Context, vectors *recall.Vectors, owner uuid.UUID, jobID int64) error {
	done, err := vectors.Embed(ctx, owner)
	if err != nil {
		return err
	}
	if done.Rest > 0 || done.Paused {
		return river.JobSnooze(done.Rest)
	}
	finished, err := vectors.Finish(ctx, owner, jobID, done)
	if err == nil && !finished {
		return river.JobSnooze(0)
	}
	return err
}

// askForVectors inserts the job of a chat whose turns were just indexed. What indexed them is committed already, so a
// failure is only logged: the sweep inserts the job, too. It does nothing without an embedder.
func (c *WorkerConfig) askForVectors(ctx context.Context, chatID uuid.UUID) {
	if c.Embedder == nil {
		return
	}
	_, err := river.ClientFromContext[pgx.Tx](ctx).Insert(ctx, newEmbedTurns(chatID), &river.InsertOpts{Priority: priorityNow})
	if err != nil {
		c.Logger.LogAttrs(ctx, slog.LevelWarn, "turns wait for their vectors", slog.String("chat_id", chatID.String()), slog.Any("error", err))
	}
}

// ReembedResult is the output of reembed.
type ReembedResult struct {
	Jobs     int `json:"inserted_embeddings"`
	Memories int `json:"inserted_memory_embeddings"`
}

// reembed inserts the jobs of chats and of memories with vectors of another model, some at a time: all others come first.
func (c *WorkerConfig) reembed(ctx context.Context, _ *river.Job[Reembed]) error {
	var result ReembedResult
	var err error
	if result.Jobs, result.Memories, err = c.insertBare(ctx, true); err != nil {
		return err
	}
	return river.RecordOutput(ctx, result)
}

// insertBare inserts the jobs of chats with turns, and of users with memories, that have no vector at all or, if outdated,
// those of another model. It returns the numbers of jobs inserted.
func (c *WorkerConfig) insertBare(ctx context.Context, outdated bool) (turns, remembered int, err error) {
	turns, errTurns := insertLacking(ctx, c.Embedder, newEmbedTurns, outdated)
	remembered, errMemories := insertLacking(ctx, c.MemoryEmbedder, newEmbedMemories, outdated)
	return turns, remembered, errors.Join(errTurns, errMemories)
}

func insertLacking(ctx context.Context, vectors *recall.Vectors, newJob func(uuid.UUID) river.JobArgs, outdated bool) (int, error) {
	if vectors == nil {
		return 0, nil
	}
	fresh, old, err := vectors.Owners(ctx, mostBare)
	switch {
	case err != nil:
		return 0, err
	case outdated:
		return insertMissing(ctx, old, newJob, priorityLater)
	}
	return insertMissing(ctx, fresh, newJob, priorityRepair)
}
