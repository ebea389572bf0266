package jobs

import (
	"context"
	"errors"
	"log/slog"

	"github.com/riverqueue/river"
)

// DeletedChats is the output of expire_chats and of prune_chats.
type DeletedChats struct {
	Deleted int `json:"deleted_chats"`
}

func (c *WorkerConfig) expire(ctx context.Context, _ *river.Job[ExpireChats]) error {
	return c.deleteChats(ctx, "expired chats deleted", c.ExpiredDays, c.Maintenance.DeleteExpired)
}

func (c *WorkerConfig) prune(ctx context.Context, _ *river.Job[PruneChats]) error {
	return c.deleteChats(ctx, "idle chats pruned", c.PruneDays, c.Maintenance.DeleteIdle, slog.Int("older_than_days", c.PruneDays))
}

// deleteChats does nothing for 0 days, even if the job was inserted by hand.
func (c *WorkerConfig) deleteChats(
	ctx context.Context, done string, days int, deleteOld func(ctx context.Context, days int) (int, error), attrs ...slog.Attr,
) (err error) {
	var result DeletedChats
	if days > 0 {
		result.Deleted, err = deleteOld(ctx, days)
	}
	if result.Deleted > 0 {
		c.Logger.LogAttrs(ctx, slog.LevelInfo, done, append([]slog.Attr{slog.Int("deleted_chats", result.Deleted)}, attrs...)...)
	}
	return errors.Join(err, river.RecordOutput(ctx, result))
}
