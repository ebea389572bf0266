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

// TurnEmbedder gives indexed turns their vectors.
type TurnEmbedder interface {
	EmbedTurns(ctx context.Context, chatID uuid.UUID) (recall.Embedded, error)
	// Finish completes the job, unless turns were indexed meanwhile: then it reports false.
	Finish(ctx context.Context, chatID uuid.UUID, jobID int64, done recall.Embedded) (bool, error)
	// BareChats returns chats with turns without a vector and without a job. With the jobs that wait already they are at
	// most so many of each kind.
	BareChats(ctx context.Context, most int) (fresh, outdated []uuid.UUID, err error)
}

var _ TurnEmbedder = (*recall.Vectors)(nil)

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
	oncePerChat
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (EmbedTurns) Kind() string { return "embed_turns" }

// InsertOpts puts the job into a queue of its own, so that no fold waits for an embedder that is slow.
func (e EmbedTurns) InsertOpts() river.InsertOpts {
	options := e.oncePerChat.InsertOpts()
	options.Queue = QueueVectors
	return options
}

func newEmbedTurns(chatID uuid.UUID) river.JobArgs { return EmbedTurns{ChatID: chatID} }

// embed ends at once without an embedder: the job is from before it was switched off. Turns get their topics also if their
// vectors do not come now; then the topic is chosen again when they do.
func (c *WorkerConfig) embed(ctx context.Context, job *river.Job[EmbedTurns]) error {
	if c.Embedder == nil {
		return nil
	}
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

// insertEmbeddings inserts the jobs of chats with turns that have no vector at all.
func (c *WorkerConfig) insertEmbeddings(ctx context.Context) (int, error) {
	if c.Embedder == nil {
		return 0, nil
	}
	fresh, _, err := c.Embedder.BareChats(ctx, mostBareChats)
	if err != nil {
		return 0, err
	}
	return insertMissing(ctx, fresh, newEmbedTurns, priorityRepair)
}

// ReembedResult is the output of reembed.
type ReembedResult struct {
	Jobs     int `json:"inserted_embeddings"`
	Memories int `json:"inserted_memory_embeddings"`
}

// reembed inserts the jobs of chats and of memories with vectors of another model, some at a time: all others come first.
func (c *WorkerConfig) reembed(ctx context.Context, _ *river.Job[Reembed]) error {
	var result ReembedResult
	var errs [2]error
	result.Jobs, errs[0] = c.reembedTurns(ctx)
	result.Memories, errs[1] = c.reembedMemories(ctx)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	return river.RecordOutput(ctx, result)
}

func (c *WorkerConfig) reembedTurns(ctx context.Context) (int, error) {
	if c.Embedder == nil {
		return 0, nil
	}
	_, outdated, err := c.Embedder.BareChats(ctx, mostBareChats)
	if err != nil {
		return 0, err
	}
	return insertMissing(ctx, outdated, newEmbedTurns, priorityLater)
}
