package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
)

// Decayer lets memories fade that nobody uses.
type Decayer interface {
	// Decay lets memories fade for a day, once however often it is called, and archives what has faded. deleteDays is
	// after how many days an archived one is deleted; 0 for never. It returns how many memories that were.
	Decay(ctx context.Context, day time.Time, deleteDays int) (decayed, archived, deleted int, err error)
}

// DecayResult is the output of decay_memories.
type DecayResult struct {
	// Day is the day for which memories have faded.
	Day      string `json:"day"`
	Decayed  int    `json:"decayed"`
	Archived int    `json:"archived"`
	Deleted  int    `json:"deleted"`
}

// DecayMemories lets memories fade that nobody uses.
type DecayMemories struct{ periodic }

// Kind is the job's name in River's tables.
func (DecayMemories) Kind() string { return "decay_memories" }

func (c *WorkerConfig) decay(ctx context.Context, _ *river.Job[DecayMemories]) error {
	day := decayDay(time.Now(), c.DecayAt)
	result := DecayResult{Day: day.Format(time.DateOnly)}
	var err error
	result.Decayed, result.Archived, result.Deleted, err = c.Decayer.Decay(ctx, day, c.ArchiveDeleteDays)
	if result.Decayed+result.Archived+result.Deleted > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "unused memories faded", slog.String("day", result.Day),
			slog.Int("decayed", result.Decayed), slog.Int("archived", result.Archived), slog.Int("deleted", result.Deleted))
	}
	return errors.Join(err, river.RecordOutput(ctx, result))
}

// decayDay returns the day for which memories fade: before the time of day that of yesterday, so that a server that was
// down at that time catches up when it starts.
func decayDay(now time.Time, at time.Duration) time.Time {
	return now.UTC().Add(-at).Truncate(24 * time.Hour)
}

// daily is a River schedule: every day at a time after midnight, in UTC.
type daily time.Duration

// Next returns the next time after current.
func (d daily) Next(current time.Time) time.Time {
	next := current.UTC().Truncate(24 * time.Hour).Add(time.Duration(d))
	if !next.After(current) {
		next = next.Add(24 * time.Hour)
	}
	return next
}
