package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

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
	// mostBareChats bounds the jobs that wait after a change of the model, and while it is away.
	mostBareChats = 100
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

// embed has turns get their topics also if their vectors do not come now; then the topic is chosen again when they do.
func (c *WorkerConfig) embed(ctx context.Context, job *river.Job[EmbedTurns]) error {
	done, err := c.Embedder.EmbedTurns(ctx, job.Args.ChatID)
	finished := false
	if err == nil && done.Rest == 0 && !done.Paused {
		finished, err = c.Embedder.Finish(ctx, job.Args.ChatID, job.ID, done)
	}
	c.askForTopics(ctx, job.Args.ChatID)
	switch {
	case err != nil:
		return err
	case !finished:
		return river.JobSnooze(done.Rest)
	}
	return nil
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
	var errMemories error
	if c.Embedder != nil {
		turns, err = insertLacking(ctx, c.Embedder.BareChats, newEmbedTurns, outdated)
	}
	if c.MemoryEmbedder != nil {
		remembered, errMemories = insertLacking(ctx, c.MemoryEmbedder.BareUsers, newEmbedMemories, outdated)
	}
	return turns, remembered, errors.Join(err, errMemories)
}

func insertLacking(
	ctx context.Context, find func(context.Context, int) (fresh, outdated []uuid.UUID, err error), newJob func(uuid.UUID) river.JobArgs, outdated bool,
) (int, error) {
	fresh, old, err := find(ctx, mostBareChats)
	switch {
	case err != nil:
		return 0, err
	case outdated:
		return insertMissing(ctx, old, newJob, priorityLater)
	}
	return insertMissing(ctx, fresh, newJob, priorityRepair)
}
