package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// Expiry is what the jobs for old chats need from Postgres.
type Expiry interface {
	// ExpiredChats returns chats that expired with turns that their brief does not cover.
	ExpiredChats(ctx context.Context) ([]uuid.UUID, error)
	// DeleteExpired deletes the chats that expired that many days ago and returns their number.
	DeleteExpired(ctx context.Context, days int) (int, error)
	// DeleteIdle deletes the chats without a message in that many days and returns their number.
	DeleteIdle(ctx context.Context, days int) (int, error)
}

// ExpireResult is the output of expire_chats.
type ExpireResult struct {
	// Folds is the number of jobs inserted for expired chats, so that a chat that is brought back remembers
	// all of its turns.
	Folds   int `json:"inserted_folds"`
	Deleted int `json:"deleted_chats"`
}

type expireWorker struct {
	river.WorkerDefaults[ExpireChats]
	expiry Expiry
	logger *slog.Logger
	days   int // after which an expired chat is deleted; 0 for never
}

func (*expireWorker) Timeout(*river.Job[ExpireChats]) time.Duration { return deleteTimeout }

// Work deletes even if inserting folds fails.
func (w *expireWorker) Work(ctx context.Context, _ *river.Job[ExpireChats]) error {
	var result ExpireResult
	unfolded, err := w.expiry.ExpiredChats(ctx)
	if err == nil {
		result.Folds, err = insertMissing(ctx, unfolded, newFold)
	}
	var errDelete error
	if w.days > 0 {
		result.Deleted, errDelete = w.expiry.DeleteExpired(ctx, w.days)
	}
	if result != (ExpireResult{}) {
		w.logger.LogAttrs(ctx, slog.LevelInfo, "chats expired",
			slog.Int("inserted_folds", result.Folds), slog.Int("deleted_chats", result.Deleted))
	}
	return errors.Join(err, errDelete, river.RecordOutput(ctx, result))
}

// PruneResult is the output of prune_chats.
type PruneResult struct {
	Deleted int `json:"deleted_chats"`
}

type pruneWorker struct {
	river.WorkerDefaults[PruneChats]
	expiry Expiry
	logger *slog.Logger
	days   int // after which an idle chat is deleted; 0 for never
}

func (*pruneWorker) Timeout(*river.Job[PruneChats]) time.Duration { return deleteTimeout }

// Work does nothing if days is 0, even if the job was inserted by hand.
func (w *pruneWorker) Work(ctx context.Context, _ *river.Job[PruneChats]) error {
	var result PruneResult
	var err error
	if w.days > 0 {
		result.Deleted, err = w.expiry.DeleteIdle(ctx, w.days)
	}
	if result.Deleted > 0 {
		w.logger.LogAttrs(ctx, slog.LevelInfo, "idle chats pruned",
			slog.Int("deleted_chats", result.Deleted), slog.Int("older_than_days", w.days))
	}
	return errors.Join(err, river.RecordOutput(ctx, result))
}
