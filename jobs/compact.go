package jobs

import (
	"context"
	"fmt"

	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// compactAttempts is how often a topic is tried whose summaries are refused, or whose model fails; then it is put off.
const compactAttempts = 5

// CompactTopic summarizes the older messages of a topic and packs them.
type CompactTopic struct {
	ChatID  uuid.UUID `json:"chat_id"`
	TopicID uuid.UUID `json:"topic_id"`
}

// Kind is the job's name in River's tables.
func (CompactTopic) Kind() string { return "compact_topic" }

// InsertOpts are those of a queue in which jobs wait for the model.
func (CompactTopic) InsertOpts() river.InsertOpts { return onceIn(QueueMemories, compactAttempts) }

func newCompact(topic TopicID) river.JobArgs {
	return CompactTopic{ChatID: topic.ChatID, TopicID: topic.ID}
}

// EnqueueCompact returns a function that inserts a topic's compact_topic in the caller's transaction. It comes after folds
// of chats in which somebody is talking.
func EnqueueCompact(client *Client) func(ctx context.Context, tx pgx.Tx, chatID, topicID uuid.UUID) error {
	return func(ctx context.Context, tx pgx.Tx, chatID, topicID uuid.UUID) error {
		_, err := client.InsertTx(ctx, tx, CompactTopic{ChatID: chatID, TopicID: topicID}, &river.InsertOpts{Priority: priorityRepair})
		if err != nil {
			return fmt.Errorf("enqueue compact_topic: %w", err)
		}
		return nil
	}
}

func (c *WorkerConfig) compactTopic(ctx context.Context, job *river.Job[CompactTopic]) error {
	chatID, topicID := job.Args.ChatID, job.Args.TopicID
	report, err := c.Compactor.Compact(ctx, chatID, topicID, pack.Job{
		ID: job.ID, Last: job.Attempt >= job.MaxAttempts,
		EnqueueNext: func(ctx context.Context, tx pgx.Tx) error {
			return EnqueueCompact(river.ClientFromContext[pgx.Tx](ctx))(ctx, tx, chatID, topicID)
		},
	})
	return finish(ctx, job.JobRow, report.Result, report, err)
}
