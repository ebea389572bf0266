package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/postgres/query"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// answerTimeout bounds work in Postgres with all its tries: a silent connection would otherwise be waited for
// without end. Most callers have shorter deadlines.
const answerTimeout = 30 * time.Second

// send sends a batch, which is one round trip and one transaction. It may try again: then fill is called with a
// new batch, and must forget what an earlier try has read.
//
// The batch says begin and commit itself. Postgres and PgBouncer take a pipeline for one transaction also without, but other
// poolers make each statement one of its own, without an error: the role and the claims would be gone with the first.
func send(ctx context.Context, pool *pgxpool.Pool, fill func(*pgx.Batch)) error {
	return sendWithin(ctx, answerTimeout, pool, fill)
}

// sendWithin is send with another timeout.
func sendWithin(ctx context.Context, timeout time.Duration, pool *pgxpool.Pool, fill func(*pgx.Batch)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return retry(ctx, pool, func() error { return sendOnce(ctx, pool, fill) })
}

func sendOnce(ctx context.Context, pool *pgxpool.Pool, fill func(*pgx.Batch)) error {
	batch := &pgx.Batch{}
	batch.Queue("begin")
	fill(batch)
	batch.Queue("commit")
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err = conn.SendBatch(ctx, batch).Close(); err != nil {
		_, _ = conn.Exec(ctx, "rollback") // so that the connection stays; one that is broken is closed
	}
	return err
}

// queueActAs makes the statements that follow act as the user, if the user is served here.
func queueActAs(batch *pgx.Batch, user auth.Principal) { dbsqlc.ActAsUser.Queue(batch, naming(user)) }

// actAs is queueActAs in a transaction that goes on.
func actAs(ctx context.Context, tx pgx.Tx, user auth.Principal) error {
	return dbsqlc.ActAsUser.Run(ctx, tx, naming(user))
}

func naming(user auth.Principal) dbsqlc.ActAsUserParams {
	return dbsqlc.ActAsUserParams{Claims: user.Claims, Cell: user.Cell.Name, AdmitsNew: user.Cell.AdmitsNew, Begun: user.Begun}
}

// sendAs sends a batch with the user's rights. Errors begin with doing.
func sendAs(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, doing string, fill func(*pgx.Batch)) error {
	return failed(doing, send(ctx, pool, func(batch *pgx.Batch) {
		queueActAs(batch, user)
		fill(batch)
	}))
}

// sendAbout is sendAs for one chat. It returns an error if the chat does not exist or has expired.
func sendAbout(ctx context.Context, pool *pgxpool.Pool, user auth.Principal, chatID uuid.UUID, doing string, fill func(*pgx.Batch)) error {
	var state dbsqlc.ChatStateRow
	err := sendAs(ctx, pool, user, doing, func(batch *pgx.Batch) {
		dbsqlc.ChatState.Read(batch, chatID, set(&state))
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
		dbsqlc.ActAsChatOwner.Read(batch, chatID, set(&owner))
		fill(batch)
	})
	return owner.UserID, failed(doing, err)
}

// sendAsRemembered sends a batch with the rights of a user who is remembered. For others the statements see no rows. Errors
// begin with doing.
func sendAsRemembered(ctx context.Context, pool *pgxpool.Pool, userID uuid.UUID, doing string, fill func(*pgx.Batch)) error {
	return failed(doing, send(ctx, pool, func(batch *pgx.Batch) {
		dbsqlc.ActAsMemoryOwner.Queue(batch, userID)
		fill(batch)
	}))
}

// try runs one query with the rights of the server, again if it has to be. run is one of its methods.
func try[Params, Result any](
	ctx context.Context, pool *pgxpool.Pool, run func(context.Context, query.DB, Params) (Result, error), params Params,
) (result Result, err error) {
	err = retry(ctx, pool, func() (err error) {
		result, err = run(ctx, pool, params)
		return err
	})
	return result, err
}

// inTx runs work in a transaction: committed when it returns nil, rolled back otherwise. Like send it may try
// again, so work must start from nothing each time.
func inTx(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	return retry(ctx, pool, func() error { return pgx.BeginFunc(ctx, pool, work) })
}

// errOvertaken rolls a transaction back that found something else than was planned from: somebody was faster.
var errOvertaken = errors.New("somebody else has changed it meanwhile")

// committed reports whether a transaction ended well; one that was overtaken is no error.
func committed(doing string, err error) (bool, error) {
	if errors.Is(err, errOvertaken) {
		return false, nil
	}
	return err == nil, failed(doing, err)
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

// queueActAsServer returns to the role of the connection, which may insert jobs.
func queueActAsServer(batch *pgx.Batch) { dbsqlc.ActAsServer.Queue(batch, struct{}{}) }

// The functions here say what becomes of the rows of a query that is read in a batch. Each try begins from the start.

// set stores the row of a query; without one the value is zero.
func set[Row any](into *Row) func(Row) {
	*into = *new(Row)
	return func(row Row) { *into = row }
}

// perhaps is set for a pointer, which is nil without a row.
func perhaps[Row any](into **Row) func(Row) {
	*into = nil
	return func(row Row) { *into = &row }
}

// all stores the rows of a query. A slice without any is no null in JSON.
func all[Row any](into *[]Row) func(Row) {
	*into = []Row{}
	return func(row Row) { *into = append(*into, row) }
}

// cut returns a page of rows without the one more that shows whether there is a next page.
func cut[Row any](rows []Row, limit int) (page []Row, more bool) {
	return rows[:min(len(rows), limit)], len(rows) > limit
}

// affects reports whether a statement changed that many rows.
func affects(rows int64, is *bool) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*is = tag.RowsAffected() == rows
		return nil
	}
}

// counts keeps how many rows a statement changed.
func counts(rows *int64) func(pgconn.CommandTag) error {
	*rows = 0
	return func(tag pgconn.CommandTag) error {
		*rows = tag.RowsAffected()
		return nil
	}
}

// messages stores rows that are messages. What tools and calls say is part of their content.
func messages(into *[]memory.Message) func(dbsqlc.ReadBufferRow) {
	*into = nil
	return func(row dbsqlc.ReadBufferRow) {
		row.Content = prompt.ReplyText(row.Content, memory.ReadParts(row.Parts))
		if name := zeroNull(row.Name); name != "" || row.ToolCalls != nil {
			row.Content = prompt.ToolText(row.Role, row.Content, name, row.ToolCalls)
		}
		*into = append(*into, row.Message)
	}
}

// nullID is null for the nil id.
func nullID(id uuid.UUID) uuid.NullUUID {
	return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil}
}

// nullZero is null for the zero value.
func nullZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// zeroNull is the reverse of nullZero.
func zeroNull[T any](value *T) T {
	if value == nil {
		return *new(T)
	}
	return *value
}

// real32 is a number as a column of type real has it.
func real32(value *float64) *float32 {
	if value == nil {
		return nil
	}
	return new(float32(*value))
}
