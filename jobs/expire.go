package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// Expiry is what the jobs about old chats ask of Postgres.
type Expiry interface {
	// ExpiredChats gives chats that expired with turns out of their brief.
	ExpiredChats(ctx context.Context) ([]uuid.UUID, error)
	// DeleteExpired deletes chats that expired so many days ago, DeleteIdle those without a message in so
	// many days. Both tell how many.
	DeleteExpired(ctx context.Context, days int) (int, error)
	DeleteIdle(ctx context.Context, days int) (int, error)
}

// Expired is what one run of expire_chats did.
type Expired struct {
	// Folds inserted for chats that have ended with turns out of their brief, so that a chat that is brought
	// back remembers all of itself.
	Folds   int `json:"inserted_folds"`
	Deleted int `json:"deleted_chats"`
}

type expireWorker struct {
	river.WorkerDefaults[ExpireChats]
	expiry Expiry
	logger *slog.Logger
	// days after which an expired chat is deleted; 0 for never.
	days int
}

func (*expireWorker) Timeout(*river.Job[ExpireChats]) time.Duration { return deleteTimeout }

// Work does each of the two whatever became of the other.
func (w *expireWorker) Work(ctx context.Context, _ *river.Job[ExpireChats]) error {
	var done Expired
	unfolded, err := w.expiry.ExpiredChats(ctx)
	if err == nil {
		done.Folds, err = insertAll(ctx, unfolded, func(id uuid.UUID) river.JobArgs { return FoldBrief{ChatID: id} })
	}
	var errDelete error
	if w.days > 0 {
		done.Deleted, errDelete = w.expiry.DeleteExpired(ctx, w.days)
	}
	if done != (Expired{}) {
		w.logger.LogAttrs(ctx, slog.LevelInfo, "chats expired", slog.Int("inserted_folds", done.Folds), slog.Int("deleted_chats", done.Deleted))
	}
	return errors.Join(err, errDelete, river.RecordOutput(ctx, done))
}

// Pruned is what one run of prune_chats did.
type Pruned struct {
	Deleted int `json:"deleted_chats"`
}

type pruneWorker struct {
	river.WorkerDefaults[PruneChats]
	expiry Expiry
	logger *slog.Logger
	days   int // 0 for never
}

func (*pruneWorker) Timeout(*river.Job[PruneChats]) time.Duration { return deleteTimeout }

// Work does nothing where nobody asked for it, also when somebody inserts the job by hand.
func (w *pruneWorker) Work(ctx context.Context, _ *river.Job[PruneChats]) error {
	var done Pruned
	var err error
	if w.days > 0 {
		done.Deleted, err = w.expiry.DeleteIdle(ctx, w.days)
	}
	if done.Deleted > 0 {
		w.logger.LogAttrs(ctx, slog.LevelInfo, "idle chats pruned", slog.Int("deleted_chats", done.Deleted), slog.Int("older_than_days", w.days))
	}
	return errors.Join(err, river.RecordOutput(ctx, done))
}
