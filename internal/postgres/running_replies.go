package postgres

import (
	"context"
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
	return failed("record deltas", send(ctx, t.pool, func(batch *pgx.Batch) {
		if len(deltas) > 0 {
			queueExec(batch, queries.InsertDeltas, params)
		}
		if len(ended) > 0 {
			queueExec(batch, queries.DeleteSpentDeltas, ended)
		}
		queueNotifications(batch, slices.Concat(params.MessageIds, ended))
	}))
}

// queueNotifications notifies all servers of these replies.
func queueNotifications(batch *pgx.Batch, messageIDs []uuid.UUID) {
	for some := range slices.Chunk(messageIDs, idsPerNotification) {
		payload := make([]string, len(some))
		for i, id := range some {
			payload[i] = id.String()
		}
		queueExec(batch, queries.NotifyServers, dbsqlc.NotifyServersParams{Channel: channelReplies, MessageIds: strings.Join(payload, ",")})
	}
}

// CancelRequested returns those of the replies whose user asked to stop them.
func (t *Turns) CancelRequested(ctx context.Context, messageIDs []uuid.UUID) ([]uuid.UUID, error) {
	requested, err := dbsqlc.New(t.pool).CancelRequested(ctx, messageIDs)
	return requested, failed("look for cancellations", err)
}

// RenewLeases sets until when the leases of this server's replies last, counted from now.
func (t *Turns) RenewLeases(ctx context.Context, messageIDs []uuid.UUID, lease time.Duration) error {
	params := dbsqlc.RenewLeasesParams{MessageIds: messageIDs, LeaseSeconds: lease.Seconds()}
	return failed("renew leases", dbsqlc.New(t.pool).RenewLeases(ctx, params))
}

// InterruptAbandoned ends replies whose lease ran out: their server died. It returns how many.
func (t *Turns) InterruptAbandoned(ctx context.Context) (int, error) {
	return interruptAbandoned(ctx, t.pool, t.enqueue.delay())
}

// interruptAbandoned also notifies the servers, so that followers of these replies see the end. extractDelay is nil without
// long-term memory.
func interruptAbandoned(ctx context.Context, pool *pgxpool.Pool, extractDelay *float64) (int, error) {
	ended, err := dbsqlc.New(pool).InterruptAbandonedReplies(ctx, extractDelay)
	if err != nil || len(ended) == 0 {
		return 0, failed("interrupt abandoned replies", err)
	}
	batch := &pgx.Batch{}
	queueNotifications(batch, ended)
	return len(ended), failed("tell of interrupted replies", pool.SendBatch(ctx, batch).Close())
}
