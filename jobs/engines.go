package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Folder folds chats.
type Folder interface {
	Fold(ctx context.Context, chatID uuid.UUID, attempt work.Attempt) (brief.Report, error)
}

// Grapher keeps the graph of what memories are about.
type Grapher interface {
	// UpdateGraph looks at memories that the graph does not have, until patience is over.
	UpdateGraph(ctx context.Context, patience time.Duration) (graph.Report, error)
}

var (
	_ Folder  = (*brief.Engine)(nil)
	_ Grapher = (*graph.Engine)(nil)
)

func attemptOf(row *rivertype.JobRow) work.Attempt {
	return work.Attempt{JobID: row.ID, Priority: row.Priority, Last: row.Attempt >= row.MaxAttempts}
}

// fold also asks for the vectors and topics of what the fold has indexed.
func (c *WorkerConfig) fold(ctx context.Context, job *river.Job[Args]) outcome {
	report, err := c.Folder.Fold(ctx, job.Args.ChatID, attemptOf(job.JobRow))
	if err == nil && report.Result == work.Done {
		c.afterIndexing(ctx, job.Args.ChatID)
	}
	done := engineOutcome(report.Result, report, err)
	done.again = report.Again
	return done
}

func (c *WorkerConfig) extract(ctx context.Context, job *river.Job[Args]) outcome {
	report, err := c.Learner.Extract(ctx, job.Args.ChatID, attemptOf(job.JobRow))
	if err == nil && report.Wait > 0 {
		return outcome{again: report.Wait}
	}
	return engineOutcome(report.Result, report, err)
}

func (c *WorkerConfig) compactTopic(ctx context.Context, job *river.Job[Args]) outcome {
	report, err := c.Compactor.Compact(ctx, job.Args.ChatID, job.Args.TopicID, attemptOf(job.JobRow))
	return engineOutcome(report.Result, report, err)
}

func (c *WorkerConfig) titleChat(ctx context.Context, job *river.Job[Args]) outcome {
	again, err := c.Titler.Title(ctx, job.Args.ChatID)
	return outcome{again: again, err: err}
}

// assignAgain is when a chat is tried again whose topics another worker changes.
const assignAgain = time.Second

func (c *WorkerConfig) assignTopics(ctx context.Context, job *river.Job[Args]) outcome {
	report, err := c.Topics.Assign(ctx, job.Args.ChatID, attemptOf(job.JobRow))
	if err == nil && report.Busy {
		return outcome{again: assignAgain}
	}
	return outcome{err: err}
}

func (c *WorkerConfig) updateGraph(ctx context.Context, _ *river.Job[Args]) outcome {
	report, err := c.Grapher.UpdateGraph(ctx, patience)
	if report.Memories > 0 || err != nil {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "graph of memories updated",
			slog.Int("memories", report.Memories), slog.Int("entities", report.Entities), slog.Int("relationships", report.Relationships),
			slog.Int("calls", report.Calls), slog.Int("failed_users", report.Failed))
	}
	done := outcome{output: report, err: err}
	if err == nil && report.More {
		done.result = work.Paused
	}
	return done
}

func (c *WorkerConfig) indexTurns(ctx context.Context, job *river.Job[Args]) outcome {
	err := c.Store.RunIndexTurns(ctx, job.Args.ChatID, job.ID)
	if err == nil {
		c.afterIndexing(ctx, job.Args.ChatID)
	}
	return outcome{err: err}
}

// embedTurns has turns get their topics also if their vectors do not come now; then the topic is chosen again when they do.
func (c *WorkerConfig) embedTurns(ctx context.Context, job *river.Job[Args]) outcome {
	done := embed(ctx, c.Embedder, job.Args.ChatID, job.JobRow)
	c.askForTopics(ctx, job.Args.ChatID)
	return done
}

func (c *WorkerConfig) embedMemories(ctx context.Context, job *river.Job[Args]) outcome {
	return embed(ctx, c.MemoryEmbedder, job.Args.UserID, job.JobRow)
}

// embed gives an owner's things their vectors. As long as some have none the job comes again.
func embed(ctx context.Context, vectors *recall.Vectors, owner uuid.UUID, job *rivertype.JobRow) outcome {
	done, err := vectors.Embed(ctx, owner, job.Attempt)
	if err != nil {
		return outcome{err: err}
	}
	if done.Rest > 0 || done.Paused {
		return outcome{result: work.Paused, again: done.Rest}
	}
	finished, err := vectors.Finish(ctx, owner, job.ID, done)
	if err == nil && !finished {
		return outcome{result: work.Paused}
	}
	return outcome{err: err}
}

// afterIndexing asks for the vectors of turns that were just indexed, by which embed_turns gives them topics; without an
// embedder for their topics.
func (c *WorkerConfig) afterIndexing(ctx context.Context, chatID uuid.UUID) {
	if c.Embedder == nil {
		c.askForTopics(ctx, chatID)
		return
	}
	c.ask(ctx, "vectors", work.Job{Name: work.EmbedTurns, ChatID: chatID, Priority: work.Now}, nil)
}

// askForTopics does nothing for a chat without topics.
func (c *WorkerConfig) askForTopics(ctx context.Context, chatID uuid.UUID) {
	if c.Topics == nil {
		return
	}
	if wanted, err := c.Topics.Wanted(ctx, chatID); wanted || err != nil {
		c.ask(ctx, "topics", work.Job{Name: work.AssignTopics, ChatID: chatID, Priority: work.Repair}, err)
	}
}

// ask inserts the job of what turns lack, unless something has failed before. What indexed them is committed already, so a failure is only
// logged: the sweep inserts the job, too.
func (c *WorkerConfig) ask(ctx context.Context, lacking string, job work.Job, err error) {
	if err == nil {
		_, err = insertMissing(ctx, []work.Job{job})
	}
	if err != nil {
		c.Logger.LogAttrs(ctx, slog.LevelWarn, "turns wait for their "+lacking, slog.String("chat_id", job.ChatID.String()), slog.Any("error", err))
	}
}

func (c *WorkerConfig) decayTopics(ctx context.Context, _ *river.Job[Args]) outcome {
	done, err := c.Topics.Decay(ctx, patience)
	if done.Archived > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "faded topics archived", slog.Int("chats", done.Chats), slog.Int("archived", done.Archived))
	}
	return outcome{output: done, err: err}
}

func (c *WorkerConfig) mergeTopics(ctx context.Context, _ *river.Job[Args]) outcome {
	done, err := c.Topics.Merge(ctx, patience)
	if done.Merged > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "topics merged", slog.Int("chats", done.Chats), slog.Int("merged", done.Merged))
	}
	return outcome{output: done, err: err}
}
