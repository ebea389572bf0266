package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/work"
	"github.com/riverqueue/river"
)

// DecayResult is the output of decay_memories.
type DecayResult struct {
	// Day is the day for which memories have faded.
	Day      string `json:"day"`
	Decayed  int    `json:"decayed"`
	Archived int    `json:"archived"`
	Deleted  int    `json:"deleted"`
}

func (c *WorkerConfig) decay(ctx context.Context, _ *river.Job[Args]) outcome {
	day := decayDay(time.Now(), decayAt)
	result := DecayResult{Day: day.Format(time.DateOnly)}
	var err error
	result.Decayed, result.Archived, result.Deleted, err = c.Store.Decay(ctx, day, c.ArchiveDeleteDays)
	if result.Decayed+result.Archived+result.Deleted > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "unused memories faded", slog.String("day", result.Day),
			slog.Int("decayed", result.Decayed), slog.Int("archived", result.Archived), slog.Int("deleted", result.Deleted))
	}
	return outcome{output: result, err: err}
}

// decayAt is when memories fade, after midnight in UTC.
const decayAt = 3 * time.Hour

// decayDay returns the day for which memories fade: before the time of day that of yesterday, so that a server that was
// down at that time catches up when it starts.
func decayDay(now time.Time, at time.Duration) time.Time {
	return now.UTC().Add(-at).Truncate(24 * time.Hour)
}

// daily is a River schedule: every day at a time after midnight, in UTC.
type daily time.Duration

// Next returns the next time after current.
func (d daily) Next(current time.Time) time.Time {
	return decayDay(current, time.Duration(d)).Add(24*time.Hour + time.Duration(d))
}

func (c *WorkerConfig) expire(ctx context.Context, _ *river.Job[Args]) outcome {
	return c.deleteChats(ctx, "expired chats deleted", c.ExpiredDays, c.Store.DeleteExpired)
}

func (c *WorkerConfig) prune(ctx context.Context, _ *river.Job[Args]) outcome {
	return c.deleteChats(ctx, "idle chats pruned", c.PruneDays, c.Store.DeleteIdle, slog.Int("older_than_days", c.PruneDays))
}

// deleteChats does nothing for 0 days, even if the job was inserted by hand.
func (c *WorkerConfig) deleteChats(
	ctx context.Context, done string, days int, deleteOld func(ctx context.Context, days int) (int, error), attrs ...slog.Attr,
) outcome {
	var deleted int
	var err error
	if days > 0 {
		deleted, err = deleteOld(ctx, days)
	}
	if deleted > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, done, append([]slog.Attr{slog.Int("deleted_chats", deleted)}, attrs...)...)
	}
	return outcome{output: map[string]int{"deleted_chats": deleted}, err: err}
}

// reembed inserts the jobs of chats and of memories with vectors of another model, some at a time: all others come first.
func (c *WorkerConfig) reembed(ctx context.Context, _ *river.Job[Args]) outcome {
	_, outdated, err := c.bare(ctx)
	inserted, errInsert := insertMissing(ctx, outdated)
	output := map[string]int{"inserted_embeddings": inserted[work.EmbedTurns], "inserted_memory_embeddings": inserted[work.EmbedMemories]}
	return outcome{output: output, err: errors.Join(err, errInsert)}
}
