package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What follows is the server's own work on running replies, for all users at once.

// idsPerNotification keeps a payload within the 8000 bytes that Postgres takes.
const idsPerNotification = 200

// RecordDeltas is one batch: one round trip and one transaction.
func (t *Turns) RecordDeltas(ctx context.Context, said []chat.Delta, ended []uuid.UUID) error {
	changed := slices.Clone(ended)
	for _, delta := range said {
		changed = append(changed, delta.MessageID)
	}
	err := send(ctx, t.pool, func() *pgx.Batch {
		batch := &pgx.Batch{}
		queueDeltas(batch, said)
		if len(ended) > 0 {
			batch.Queue(dbsqlc.DeleteSpentDeltas, ended)
		}
		queueNotifications(batch, changed)
		return batch
	})
	if err != nil {
		return fmt.Errorf("record deltas: %w", err)
	}
	return nil
}

func queueDeltas(batch *pgx.Batch, said []chat.Delta) {
	if len(said) == 0 {
		return
	}
	messages, users := make([]uuid.UUID, len(said)), make([]uuid.UUID, len(said))
	starts, texts := make([]int, len(said)), make([]string, len(said))
	for i, delta := range said {
		messages[i], users[i], starts[i], texts[i] = delta.MessageID, delta.UserID, delta.StartChar, delta.Text
	}
	batch.Queue(dbsqlc.InsertDeltas, messages, users, starts, texts)
}

// queueNotifications tells all servers to look at these replies.
func queueNotifications(batch *pgx.Batch, messageIDs []uuid.UUID) {
	for some := range slices.Chunk(messageIDs, idsPerNotification) {
		payload := make([]string, len(some))
		for i, id := range some {
			payload[i] = id.String()
		}
		batch.Queue(dbsqlc.NotifyReplies, strings.Join(payload, ","))
	}
}

// CancelRequested gives those of the replies that somebody asked to stop.
func (t *Turns) CancelRequested(ctx context.Context, messageIDs []uuid.UUID) ([]uuid.UUID, error) {
	asked, err := dbsqlc.New(t.pool).CancelRequested(ctx, messageIDs)
	if err != nil {
		return nil, fmt.Errorf("look for cancellations: %w", err)
	}
	return asked, nil
}

// RenewLeases says that this server's replies are alive.
func (t *Turns) RenewLeases(ctx context.Context, messageIDs []uuid.UUID, lease time.Duration) error {
	err := dbsqlc.New(t.pool).RenewLeases(ctx, dbsqlc.RenewLeasesParams{MessageIds: messageIDs, LeaseSeconds: lease.Seconds()})
	if err != nil {
		return fmt.Errorf("renew leases: %w", err)
	}
	return nil
}

// InterruptAbandoned ends replies whose server was not heard of for longer than its lease.
func (t *Turns) InterruptAbandoned(ctx context.Context) (int, error) {
	return interruptAbandoned(ctx, t.pool)
}

// interruptAbandoned ends them and wakes whoever follows them.
func interruptAbandoned(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	ended, err := dbsqlc.New(pool).InterruptAbandonedReplies(ctx)
	if err != nil {
		return 0, fmt.Errorf("interrupt abandoned replies: %w", err)
	}
	if len(ended) == 0 {
		return 0, nil
	}
	batch := &pgx.Batch{}
	queueNotifications(batch, ended)
	if err := pool.SendBatch(ctx, batch).Close(); err != nil {
		return len(ended), fmt.Errorf("tell of interrupted replies: %w", err)
	}
	return len(ended), nil
}
