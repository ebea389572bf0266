package jobs

import (
	"context"
	"errors"
	"log/slog"

	"github.com/riverqueue/river"
)

// ExpireResult is the output of expire_chats.
type ExpireResult struct {
	Deleted int `json:"deleted_chats"`
}

// expire does nothing if ExpiredDays is 0.
func (c *WorkerConfig) expire(ctx context.Context, _ *river.Job[ExpireChats]) error {
	var result ExpireResult
	var err error
	if c.ExpiredDays > 0 {
		result.Deleted, err = c.Maintenance.DeleteExpired(ctx, c.ExpiredDays)
	}
	if result.Deleted > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "expired chats deleted", slog.Int("deleted_chats", result.Deleted))
	}
	return errors.Join(err, river.RecordOutput(ctx, result))
}

// PruneResult is the output of prune_chats.
type PruneResult struct {
	Deleted int `json:"deleted_chats"`
}

// prune does nothing if PruneDays is 0, even if the job was inserted by hand.
func (c *WorkerConfig) prune(ctx context.Context, _ *river.Job[PruneChats]) error {
	var result PruneResult
	var err error
	if c.PruneDays > 0 {
		result.Deleted, err = c.Maintenance.DeleteIdle(ctx, c.PruneDays)
	}
	if result.Deleted > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, "idle chats pruned",
			slog.Int("deleted_chats", result.Deleted), slog.Int("older_than_days", c.PruneDays))
	}
	return errors.Join(err, river.RecordOutput(ctx, result))
}
