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

// This is the server's own work on running replies, for all users at once.

// idsPerNotification keeps a payload within Postgres' limit of 8000 bytes.
const idsPerNotification = 200

// RecordDeltas is one batch: one round trip and one transaction.
func (t *Turns) RecordDeltas(ctx context.Context, deltas []chat.Delta, ended []uuid.UUID) error {
	var params dbsqlc.InsertDeltasParams
	for _, delta := range deltas {
		params.MessageIds = append(params.MessageIds, delta.MessageID)
		params.UserIds = append(params.UserIds, delta.UserID)
		params.StartChars = append(params.StartChars, delta.StartChar)
		params.Deltas = append(params.Deltas, delta.Text)
	}
	err := send(ctx, t.pool, func(batch *pgx.Batch) {
		if len(deltas) > 0 {
			queueExec(batch, queries.InsertDeltas, params)
		}
		if len(ended) > 0 {
			queueExec(batch, queries.DeleteSpentDeltas, ended)
		}
		queueNotifications(batch, slices.Concat(ended, params.MessageIds))
	})
	if err != nil {
		return fmt.Errorf("record deltas: %w", err)
	}
	return nil
}

// queueNotifications notifies all servers that these replies have changed.
func queueNotifications(batch *pgx.Batch, messageIDs []uuid.UUID) {
	for some := range slices.Chunk(messageIDs, idsPerNotification) {
		payload := make([]string, len(some))
		for i, id := range some {
			payload[i] = id.String()
		}
		queueExec(batch, queries.NotifyReplies, strings.Join(payload, ","))
	}
}

// CancelRequested returns those of the replies whose user asked to stop them.
func (t *Turns) CancelRequested(ctx context.Context, messageIDs []uuid.UUID) ([]uuid.UUID, error) {
	requested, err := dbsqlc.New(t.pool).CancelRequested(ctx, messageIDs)
	if err != nil {
		return nil, fmt.Errorf("look for cancellations: %w", err)
	}
	return requested, nil
}

// RenewLeases extends the leases of this server's replies, counted from now.
func (t *Turns) RenewLeases(ctx context.Context, messageIDs []uuid.UUID, lease time.Duration) error {
	err := dbsqlc.New(t.pool).RenewLeases(ctx, dbsqlc.RenewLeasesParams{MessageIds: messageIDs, LeaseSeconds: lease.Seconds()})
	if err != nil {
		return fmt.Errorf("renew leases: %w", err)
	}
	return nil
}

// InterruptAbandoned ends replies whose lease ran out: their server died. It returns how many.
func (t *Turns) InterruptAbandoned(ctx context.Context) (int, error) {
	return interruptAbandoned(ctx, t.pool)
}

// interruptAbandoned also notifies the servers, so that followers of these replies see the end.
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
