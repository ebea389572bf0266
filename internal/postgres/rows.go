package postgres

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const uniqueViolation = "23505"

func isUniqueViolation(err error) bool {
	violation, ok := errors.AsType[*pgconn.PgError](err)
	return ok && violation.Code == uniqueViolation
}

// answerTimeout bounds a piece of work in Postgres with all its tries: a connection whose other end is silent
// says nothing about it, so whoever waits for an answer waits for ever. Most callers are less patient.
const answerTimeout = 30 * time.Second

// send runs a batch that build makes, which is one round trip and one transaction, and makes and sends it
// again when that may help: what it does twice it must do once.
func send(ctx context.Context, pool *pgxpool.Pool, build func() *pgx.Batch) error {
	return sendWithin(ctx, answerTimeout, pool, build)
}

// sendWithin is send for what may take another time.
func sendWithin(ctx context.Context, most time.Duration, pool *pgxpool.Pool, build func() *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return retry(ctx, pool, func() error { return pool.SendBatch(ctx, build()).Close() })
}

// The waits between tries are short, and for a try that lost against another transaction they differ, so
// that the two do not meet again.
const (
	tries     = 4
	firstWait = 5 * time.Millisecond
)

// retry repeats work that another transaction or a lost connection stood in the way of, after growing
// waits. A connection that a restart of Postgres broke says so only when it is used: then the pool's others
// are broken as well. When Postgres stays away the error says that it is not ready.
func retry(ctx context.Context, pool *pgxpool.Pool, work func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := work()
		lost := connectionLost(err)
		if lost {
			pool.Reset()
		}
		if try == tries || !lost && !lostRace(err) || !pause(ctx, wait+rand.N(wait)) { //nolint:gosec // spreads load, guards nothing
			return orNotReady(err)
		}
		wait *= 4
	}
}

// pause waits, and tells whether that was worth it.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// orNotReady tells the caller to come back when err is about the connection, or Postgres did not answer in
// time. That time is always one of ours: a request has none.
func orNotReady(err error) error {
	if connectionLost(err) || errors.Is(err, context.DeadlineExceeded) {
		return &fault.Error{Code: fault.NotReady, Message: "The database is not available. Try again in a moment.", RetryAfter: time.Second, Err: err}
	}
	return err
}

// lostRace tells whether Postgres rolled a transaction back because of another one.
func lostRace(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refusal.Code == pgerrcode.DeadlockDetected || refusal.Code == pgerrcode.SerializationFailure)
}

// connectionLost tells whether err is about the connection and not about what was asked: Postgres
// shuts down, starts up or cannot be reached.
func connectionLost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refusal.Code {
		case pgerrcode.AdminShutdown, pgerrcode.CrashShutdown, pgerrcode.CannotConnectNow:
			return true
		}
		return pgerrcode.IsConnectionException(refusal.Code)
	}
	_, unreachable := errors.AsType[net.Error](err)
	return unreachable || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// inTx runs work in a transaction: committed when it returns nil, rolled back otherwise. Like send it
// tries again, so work starts from nothing each time.
func inTx(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	return retry(ctx, pool, func() error { return pgx.BeginFunc(ctx, pool, work) })
}

// sendInTx sends a batch that begins a transaction, which is one round trip, and lets work decide what
// becomes of it: committed when it returns nil, rolled back otherwise. It tries once: whether a commit whose
// answer was lost has happened is for the caller to find out.
func sendInTx(ctx context.Context, pool *pgxpool.Pool, batch *pgx.Batch, work func(pgx.Tx) error) error {
	sent := pool.SendBatch(ctx, batch)
	tx := sent.Tx()
	defer func() { _ = tx.Rollback(ctx) }() // of what was not committed; without it the connection is closed
	if err := sent.Close(); err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// each reads a batch result row by row into the struct that sqlc made for its query.
func each[Row any](take func(Row)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
		for _, row := range found {
			take(row)
		}
		return err
	}
}

// nullable gives the nil uuid as SQL's null.
func nullable(id uuid.UUID) uuid.NullUUID {
	return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil}
}

// orNull gives SQL's null for a zero value.
func orNull[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// messages reads the rows of ReadBuffer, ReadKept and ReadFoldable, which come by the hundred: into one
// place, and ids as bytes, because uuid.UUID would have them written out and parsed again.
func messages(into *[]memory.Message) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var m memory.Message
		var name *string
		var toolCalls []byte
		columns := []any{
			(*[16]byte)(&m.ID), (*[16]byte)(&m.ReplyTo), &m.Seq, &m.Role, &m.Status, &m.Content, &m.Tokens, &m.CreatedAt,
			&m.Pinned, &m.Importance, &name, &toolCalls,
		}
		_, err := pgx.ForEachRow(rows, columns, func() error {
			if name != nil || toolCalls != nil {
				m.Content = prompt.ToolText(m.Role, m.Content, deref(name), toolCalls)
			}
			*into = append(*into, m)
			return nil
		})
		return err
	}
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func briefOf(row dbsqlc.ReadBriefRow) memory.Brief {
	return memory.Brief{
		Summary: row.GlobalSummary, Tokens: row.BriefTokens, Version: row.Version, CoveredSeq: row.CoveredSeq,
		LastSummarizedMessageID: row.LastSummarizedMessageID, Stale: row.Stale, ClearedSeq: row.ClearedSeq, Unreadable: !row.Readable,
	}
}
