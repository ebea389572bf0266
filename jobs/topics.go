package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// TopicSweep is what the sweep needs of Postgres for topics.
type TopicSweep interface {
	// UnassignedChats returns chats with turns that should have a topic and have none, and no job.
	UnassignedChats(ctx context.Context) ([]uuid.UUID, error)
	// DueTopics returns the topics that are to be compacted and have no job.
	DueTopics(ctx context.Context) ([]TopicID, error)
}

// TopicID names a topic and its chat.
type TopicID = assign.TopicID

const (
	// topicsInterval is the time between two decay_topics jobs, and two merge_topics jobs.
	topicsInterval = time.Hour
	// topicsPatience is how long one of them goes on; other jobs of its queue wait.
	topicsPatience = 20 * time.Second
	topicsTimeout  = topicsPatience + time.Minute
	// assignAgain is when a chat is tried again whose topics another worker changes.
	assignAgain = time.Second
)

// AssignTopics gives a chat's indexed turns their topics.
type AssignTopics struct {
	ChatID uuid.UUID `json:"chat_id"`
}

// Kind is the job's name in River's tables.
func (AssignTopics) Kind() string { return "assign_topics" }

// InsertOpts are those of the queue of topics.
func (AssignTopics) InsertOpts() river.InsertOpts { return onceIn(QueueTopics, maxAttempts) }

func newAssign(chatID uuid.UUID) river.JobArgs { return AssignTopics{ChatID: chatID} }

// DecayTopics archives topics that faded, in chats with more than TOPIC_MAX.
type DecayTopics struct{ onceAtATime }

// Kind is the job's name in River's tables.
func (DecayTopics) Kind() string { return "decay_topics" }

// MergeTopics merges topics of a chat that are the same.
type MergeTopics struct{ onceAtATime }

// Kind is the job's name in River's tables.
func (MergeTopics) Kind() string { return "merge_topics" }

// onceAtATime is periodic for a job that others insert as well: one waits or runs.
type onceAtATime struct{ periodic }

func (o onceAtATime) InsertOpts() river.InsertOpts {
	options := o.periodic.InsertOpts()
	options.UniqueOpts = river.UniqueOpts{ByState: unfinished}
	return options
}

func (c *WorkerConfig) assignTopics(ctx context.Context, job *river.Job[AssignTopics]) error {
	chatID := job.Args.ChatID
	client := river.ClientFromContext[pgx.Tx](ctx)
	report, err := c.Topics.Assign(ctx, chatID, assign.Job{
		ID:          job.ID,
		EnqueueNext: func(ctx context.Context, tx pgx.Tx) error { return EnqueueAssign(client)(ctx, tx, chatID) },
		EnqueueCompact: func(ctx context.Context, tx pgx.Tx, topicID uuid.UUID) error {
			return EnqueueCompact(client)(ctx, tx, chatID, topicID)
		},
		EnqueueDecay: func(ctx context.Context, tx pgx.Tx) error {
			_, err := client.InsertTx(ctx, tx, DecayTopics{}, nil)
			return err
		},
	})
	if err == nil && report.Busy {
		return river.JobSnooze(assignAgain)
	}
	return err
}

// EnqueueAssign returns a function that inserts a chat's assign_topics in the caller's transaction. It comes after folds of
// chats in which somebody is talking.
func EnqueueAssign(client *Client) func(context.Context, pgx.Tx, uuid.UUID) error {
	return enqueue(client, newAssign, priorityRepair)
}

// askForTopics inserts the job of a chat whose turns were just indexed, or got their vectors. What did so is committed
// already, so a failure is only logged: the sweep inserts the job, too. It does nothing for a chat without topics.
func (c *WorkerConfig) askForTopics(ctx context.Context, chatID uuid.UUID) {
	if c.Topics == nil {
		return
	}
	wanted, err := c.Topics.Wanted(ctx, chatID)
	if err == nil && wanted {
		_, err = river.ClientFromContext[pgx.Tx](ctx).Insert(ctx, newAssign(chatID), &river.InsertOpts{Priority: priorityRepair})
	}
	if err != nil {
		c.Logger.LogAttrs(ctx, slog.LevelWarn, "turns wait for their topics", slog.String("chat_id", chatID.String()), slog.Any("error", err))
	}
}

func (c *WorkerConfig) decayTopics(ctx context.Context, _ *river.Job[DecayTopics]) error {
	done, err := c.Topics.Decay(ctx, topicsPatience)
	if done.Archived > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "faded topics archived", slog.Int("chats", done.Chats), slog.Int("archived", done.Archived))
	}
	return errors.Join(err, river.RecordOutput(ctx, done))
}

func (c *WorkerConfig) mergeTopics(ctx context.Context, _ *river.Job[MergeTopics]) error {
	done, err := c.Topics.Merge(ctx, topicsPatience, EnqueueCompact(river.ClientFromContext[pgx.Tx](ctx)))
	if done.Merged > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "topics merged", slog.Int("chats", done.Chats), slog.Int("merged", done.Merged))
	}
	return errors.Join(err, river.RecordOutput(ctx, done))
}

// sweptTopics is how many jobs of topics the sweep inserted.
type sweptTopics struct {
	assignments, compactions int
}

// sweepTopics inserts the jobs of topics that are missing.
func (c *WorkerConfig) sweepTopics(ctx context.Context) (swept sweptTopics, err error) {
	if c.Topics == nil {
		return swept, nil
	}
	chats, err := c.TopicSweep.UnassignedChats(ctx)
	if err != nil {
		return swept, err
	}
	if swept.assignments, err = insertMissing(ctx, chats, newAssign, priorityLater); err != nil {
		return swept, err
	}
	due, err := c.TopicSweep.DueTopics(ctx)
	if err != nil {
		return swept, err
	}
	swept.compactions, err = insertMissing(ctx, due, newCompact, priorityLater)
	return swept, err
}
