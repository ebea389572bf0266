package jobs

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// Indexer makes turns findable, for search and recall.
type Indexer interface {
	// RunIndexTurns indexes what the index of a chat lacks, and completes the job.
	RunIndexTurns(ctx context.Context, chatID uuid.UUID, jobID int64) error
	// IndexRested indexes the last turns of chats in which nobody has spoken for that long, until patience is over. It
	// returns the number of chats.
	IndexRested(ctx context.Context, rest, patience time.Duration) (int, error)
}

const (
	// indexRest is after how long without a message the last turns of a chat are indexed. Somebody who is talking
	// needs no index of them, because they are in the prompt; in another chat they may be asked for soon.
	indexRest = time.Minute
	// indexPatience is how long one sweep indexes. It has other work, and comes back.
	indexPatience = 5 * time.Second
)

func (c *WorkerConfig) indexTurns(ctx context.Context, job *river.Job[IndexTurns]) error {
	err := c.Indexer.RunIndexTurns(ctx, job.Args.ChatID, job.ID)
	if err == nil {
		c.afterIndexing(ctx, job.Args.ChatID)
	}
	return err
}

// afterIndexing asks for the vectors of turns that were just indexed, by which embed_turns gives them topics; without an
// embedder for their topics.
func (c *WorkerConfig) afterIndexing(ctx context.Context, chatID uuid.UUID) {
	if c.Embedder == nil {
		c.askForTopics(ctx, chatID)
		return
	}
	c.askForVectors(ctx, chatID)
}
