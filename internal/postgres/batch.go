package postgres

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// answerTimeout bounds work in Postgres with all its tries: a silent connection would otherwise be waited for
// without end. Most callers have shorter deadlines.
const answerTimeout = 30 * time.Second

// send sends a batch, which is one round trip and one transaction. It may try again: then fill is called with a
// new batch, and must forget what an earlier try has read.
func send(ctx context.Context, pool *pgxpool.Pool, fill func(*pgx.Batch)) error {
	return sendWithin(ctx, answerTimeout, pool, fill)
}

// sendWithin is send with another timeout.
func sendWithin(ctx context.Context, timeout time.Duration, pool *pgxpool.Pool, fill func(*pgx.Batch)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return retry(ctx, pool, func() error {
		batch := &pgx.Batch{}
		fill(batch)
		return pool.SendBatch(ctx, batch).Close()
	})
}

// sendAs sends a batch with the user's rights. Errors begin with doing.
func sendAs(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, doing string, fill func(*pgx.Batch)) error {
	return failed(doing, send(ctx, pool, func(batch *pgx.Batch) {
		queueExec(batch, queries.ActAsUser, user.Claims)
		fill(batch)
	}))
}

// sendAbout is sendAs for one chat. It returns an error if the chat does not exist or has expired.
func sendAbout(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, chatID uuid.UUID, doing string, fill func(*pgx.Batch)) error {
	var state chatState
	err := sendAs(ctx, pool, user, doing, func(batch *pgx.Batch) {
		queueExec(batch, queries.ChatState, chatID).Query(one(&state))
		fill(batch)
	})
	if err != nil {
		return err
	}
	return refusal(state)
}

// sendAsOwner sends a batch with the rights of the chat's owner, whose id it returns. If the chat does not exist
// the id is nil, and the statements see no rows. Errors begin with doing.
func sendAsOwner(ctx context.Context, pool *pgxpool.Pool, chatID uuid.UUID, doing string, fill func(*pgx.Batch)) (uuid.UUID, error) {
	var owner dbsqlc.ActAsChatOwnerRow
	err := send(ctx, pool, func(batch *pgx.Batch) {
		queueOne(batch, queries.ActAsChatOwner, chatID, set(&owner))
		fill(batch)
	})
	return owner.UserID, failed(doing, err)
}

// changeAsOwner sends one statement with the rights of the chat's owner, and reports whether it changed a row.
func changeAsOwner[Params any](
	ctx context.Context, pool *pgxpool.Pool, chatID uuid.UUID, doing string, run query[Params, int64], params Params,
) (changed bool, err error) {
	_, err = sendAsOwner(ctx, pool, chatID, doing, func(batch *pgx.Batch) { queue(batch, run, params).Exec(affects(1, &changed)) })
	return changed && err == nil, err
}

// try runs one query with the rights of the server, again if it has to be.
func try[Params, Result any](ctx context.Context, pool *pgxpool.Pool, run query[Params, Result], params Params) (result Result, err error) {
	err = retry(ctx, pool, func() (err error) {
		result, err = run(dbsqlc.New(pool), ctx, params)
		return err
	})
	return result, err
}

// inTx runs work in a transaction: committed when it returns nil, rolled back otherwise. Like send it may try
// again, so work must start from nothing each time.
func inTx(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	return retry(ctx, pool, func() error { return pgx.BeginFunc(ctx, pool, work) })
}

// sendInTx sends a batch that begins a transaction, in one round trip, and then runs work: if it returns nil
// the transaction is committed, otherwise rolled back. It tries once: only the caller can find out whether a
// commit whose answer was lost has happened.
func sendInTx(ctx context.Context, pool *pgxpool.Pool, batch *pgx.Batch, work func(pgx.Tx) error) error {
	sent := pool.SendBatch(ctx, batch)
	tx := sent.Tx()
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after the commit; without it the connection is closed
	if err := sent.Close(); err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
