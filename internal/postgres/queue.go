package postgres

import (
	"context"
	"errors"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
