package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Maintenance is the server's own work across all users: the repairs of the sweep and the numbers of the metrics.
// It reads ids and numbers, never content.
type Maintenance struct {
	pool   *pgxpool.Pool
	limits memory.Limits
}

// NewMaintenance returns the store.
func NewMaintenance(pool *pgxpool.Pool, limits memory.Limits) *Maintenance {
	return &Maintenance{pool: pool, limits: limits}
}

// InterruptAbandonedReplies ends replies whose lease ran out: their server died. It returns how many.
func (m *Maintenance) InterruptAbandonedReplies(ctx context.Context) (int, error) {
	return interruptAbandoned(ctx, m.pool)
}

// DeleteStrayDeltas deletes recorded deltas of replies that are not running, and returns how many. It leaves
// those of replies that changed less than young ago to their server.
func (m *Maintenance) DeleteStrayDeltas(ctx context.Context, young time.Duration) (int, error) {
	rows, err := dbsqlc.New(m.pool).DeleteStrayDeltas(ctx, young.Seconds())
	if err != nil {
		return 0, fmt.Errorf("delete stray deltas: %w", err)
	}
	return int(rows), nil
}

// MergeSearchEntries moves the pending entries of new messages into the full-text index, so that no turn has to.
func (m *Maintenance) MergeSearchEntries(ctx context.Context) error {
	if _, err := dbsqlc.New(m.pool).MergeSearchEntries(ctx); err != nil {
		return fmt.Errorf("merge search entries: %w", err)
	}
	return nil
}

// ReviveDeadFolds makes the jobs of dead workers available again and clears their leases. It leaves jobs alone
// that have run for less than young: they may not have taken their lease yet.
func (m *Maintenance) ReviveDeadFolds(ctx context.Context, young time.Duration) (jobs, leases int, err error) {
	q := dbsqlc.New(m.pool)
	revived, err := q.ReviveDeadFolds(ctx, young.Seconds())
	if err != nil {
		return 0, 0, fmt.Errorf("revive dead folds: %w", err)
	}
	cleared, err := q.ClearDeadLeases(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("clear dead leases: %w", err)
	}
	return len(revived), len(cleared), nil
}

// DueChats returns the chats that need a fold and those that need a rebuild.
func (m *Maintenance) DueChats(ctx context.Context) (folds, rebuilds []uuid.UUID, err error) {
	rows, err := dbsqlc.New(m.pool).FindDueBriefs(ctx, dbsqlc.FindDueBriefsParams{
		Threshold: m.limits.ChunkThreshold, LargestBrief: m.limits.SummaryTokenCap, KRawTurns: m.limits.KRawTurns,
		Bridge: m.limits.BridgeTokenBudget, MinTailTurns: m.limits.MinTailTurns,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("find due chats: %w", err)
	}
	for _, row := range rows {
		if row.Kind == "rebuild_brief" {
			rebuilds = append(rebuilds, row.ChatID)
		} else {
			folds = append(folds, row.ChatID)
		}
	}
	return folds, rebuilds, nil
}

// ExpiredChats returns chats that have expired and have turns which the brief does not cover.
func (m *Maintenance) ExpiredChats(ctx context.Context) ([]uuid.UUID, error) {
	ids, err := dbsqlc.New(m.pool).FindExpiredUnfolded(ctx)
	if err != nil {
		return nil, fmt.Errorf("find expired chats: %w", err)
	}
	return ids, nil
}

const (
	// deletedAtOnce bounds the locks that one statement takes.
	deletedAtOnce = 500
	// maxDays is more than the age of any chat.
	maxDays = 36_500
)

// DeleteExpired deletes chats that expired that many days ago, and returns how many.
func (m *Maintenance) DeleteExpired(ctx context.Context, days int) (int, error) {
	q := dbsqlc.New(m.pool)
	return deleteAll(func() (int64, error) {
		return q.DeleteExpiredChats(ctx, dbsqlc.DeleteExpiredChatsParams{Days: min(days, maxDays), Most: deletedAtOnce})
	})
}

// DeleteIdle deletes chats without a message in that many days, and returns how many.
func (m *Maintenance) DeleteIdle(ctx context.Context, days int) (int, error) {
	q := dbsqlc.New(m.pool)
	return deleteAll(func() (int64, error) {
		return q.DeleteIdleChats(ctx, dbsqlc.DeleteIdleChatsParams{Days: min(days, maxDays), Most: deletedAtOnce})
	})
}

// deleteAll repeats a statement, each time in its own transaction, until it deletes fewer than deletedAtOnce.
func deleteAll(some func() (int64, error)) (deleted int, err error) {
	for {
		n, err := some()
		if err != nil {
			return deleted, fmt.Errorf("delete chats: %w", err)
		}
		if deleted += int(n); n < deletedAtOnce {
			return deleted, nil
		}
	}
}

// Backlog returns how late the memory work is.
func (m *Maintenance) Backlog(ctx context.Context) (metrics.Backlog, error) {
	q := dbsqlc.New(m.pool)
	age, err := q.OldestUnfoldedTurn(ctx, dbsqlc.OldestUnfoldedTurnParams{
		Threshold: m.limits.ChunkThreshold, LargestBrief: m.limits.SummaryTokenCap, KRawTurns: m.limits.KRawTurns,
		Bridge: m.limits.BridgeTokenBudget, MinTailTurns: m.limits.MinTailTurns,
	})
	if err != nil {
		return metrics.Backlog{}, fmt.Errorf("oldest unfolded turn: %w", err)
	}
	queues, err := q.QueueDepths(ctx)
	if err != nil {
		return metrics.Backlog{}, fmt.Errorf("queue depths: %w", err)
	}
	backlog := metrics.Backlog{OldestUnfoldedTurn: age, QueueDepth: map[string]float64{"memory": 0, "maintenance": 0}}
	for _, queue := range queues {
		backlog.QueueDepth[queue.Queue] = float64(queue.Depth)
	}
	return backlog, nil
}
