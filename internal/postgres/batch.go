package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
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

// A generated query runs one statement in one round trip. The functions here queue it into a batch instead, with
// its named parameters: they call its method with a database that records the statement and its arguments. When
// the batch's results come, queueOne and queueMany call the method again, with a database that returns these rows.

// queries names the generated queries, such as queries.ReadBrief.
type queries = *dbsqlc.Queries

// query is the method of a generated query that returns rows or a number of rows.
type query[Params, Result any] = func(queries, context.Context, Params) (Result, error)

// statement is the method of a generated query that returns nothing. Queries whose rows are scanned into types of ours are
// such, too: :exec for sqlc, so that no code is generated which reads them.
type statement[Params any] = func(queries, context.Context, Params) error

// queue adds a query that returns something. The caller decides how that is read.
func queue[Params, Result any](batch *pgx.Batch, run query[Params, Result], params Params) *pgx.QueuedQuery {
	db := recorder{batch: batch}
	_, _ = run(dbsqlc.New(&db), context.Background(), params) // always errQueued
	return db.queued
}

// queueExec adds a query that returns nothing, or whose rows the caller reads.
func queueExec[Params any](batch *pgx.Batch, run statement[Params], params Params) *pgx.QueuedQuery {
	db := recorder{batch: batch}
	_ = run(dbsqlc.New(&db), context.Background(), params) // always errQueued
	return db.queued
}

// queueBare adds a query without parameters that returns nothing.
func queueBare(batch *pgx.Batch, run func(queries, context.Context) error) *pgx.QueuedQuery {
	return queueExec(batch, func(q queries, ctx context.Context, _ struct{}) error { return run(q, ctx) }, struct{}{})
}

// bare makes a query without parameters one like all others.
func bare[Result any](run func(queries, context.Context) (Result, error)) query[struct{}, Result] {
	return func(q queries, ctx context.Context, _ struct{}) (Result, error) { return run(q, ctx) }
}

// queueActAsServer returns to the role of the connection, which may insert jobs.
func queueActAsServer(batch *pgx.Batch) { queueBare(batch, queries.ActAsServer) }

// queueOne adds a query of at most one row, and passes that to read.
func queueOne[Params, Row any](batch *pgx.Batch, run query[Params, Row], params Params, read func(Row)) {
	queue(batch, run, params).QueryRow(func(row pgx.Row) error {
		found, err := run(dbsqlc.New(received{row: row}), context.Background(), params)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		read(found)
		return nil
	})
}

// queueMany adds a query of any number of rows, and passes each to read.
func queueMany[Params, Row any](batch *pgx.Batch, run query[Params, []Row], params Params, read func(Row)) {
	queue(batch, run, params).Query(func(rows pgx.Rows) error {
		found, err := run(dbsqlc.New(received{rows: rows}), context.Background(), params)
		for _, row := range found {
			read(row)
		}
		return err
	})
}

// errQueued is what a query returns that was queued instead of run.
var errQueued = errors.New("the query is queued")

// recorder is the database of a query that is queued.
type recorder struct {
	batch  *pgx.Batch
	queued *pgx.QueuedQuery
}

func (r *recorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r.queued = r.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, errQueued
}

func (r *recorder) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	_, err := r.Exec(ctx, sql, args...)
	return nil, err
}

func (r *recorder) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	_, _ = r.Exec(ctx, sql, args...)
	return r
}

// Scan makes the recorder its own row, which has not come yet.
func (r *recorder) Scan(...any) error { return errQueued }

// received is the database of a query whose rows have come. It has no Exec: queries without rows are not run again.
type received struct {
	dbsqlc.DBTX
	rows pgx.Rows
	row  pgx.Row
}

func (r received) Query(context.Context, string, ...any) (pgx.Rows, error) { return r.rows, nil }
func (r received) QueryRow(context.Context, string, ...any) pgx.Row        { return r.row }

// set stores the row of a query; without one the value is zero.
func set[Row any](into *Row) func(Row) {
	*into = *new(Row)
	return func(row Row) { *into = row }
}

// one scans the row of a query by name into a type of ours; without one the value is zero.
func one[Row any](into *Row) func(pgx.Rows) error {
	return each(set(into))
}

// perhaps is one for a pointer, which is nil without a row.
func perhaps[Row any](into **Row) func(pgx.Rows) error {
	*into = nil
	return each(func(row Row) { *into = &row })
}

// each scans the rows of a query by name into a type of ours, and passes each to read.
func each[Row any](read func(Row)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Row])
		for _, row := range found {
			read(row)
		}
		return err
	}
}

// all scans the rows of a query by name into a type of ours.
func all[Row any](into *[]Row) func(pgx.Rows) error {
	*into = nil
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, pgx.RowToStructByName[Row])
		return err
	}
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

// messages scans the rows of ReadBuffer, ReadKept and ReadFoldable, which come by the hundred. All are scanned
// into the same variables, and ids as bytes, because uuid.UUID would have them formatted and parsed again.
func messages(into *[]memory.Message) func(pgx.Rows) error {
	*into = nil
	return func(rows pgx.Rows) error {
		if err := rows.Err(); err != nil { // a connection that breaks within a batch leaves nothing to describe
			return err
		}
		var m memory.Message
		var name string
		var toolCalls []byte
		columns := []any{
			(*[16]byte)(&m.ID), (*[16]byte)(&m.ReplyTo), &m.Seq, &m.Role, &m.Status, &m.Content, &m.Tokens, &m.CreatedAt,
			&m.Pinned, &m.Importance, (*zeronull.Text)(&name), &toolCalls,
		}
		if len(rows.FieldDescriptions()) > len(columns) {
			columns = append(columns, &m.TimeZone) // only ReadFoldable reads it
		}
		_, err := pgx.ForEachRow(rows, columns, func() error {
			if name != "" || toolCalls != nil {
				m.Content = prompt.ToolText(m.Role, m.Content, name, toolCalls)
			}
			*into = append(*into, m)
			return nil
		})
		return err
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
