package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The SQLSTATE codes that we act on, see appendix A of Postgres' manual.
const (
	uniqueViolation      = "23505"
	foreignKeyViolation  = "23503"
	checkViolation       = "23514"
	insufficientRights   = "42501"
	raisedException      = "P0001"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	cannotConnectNow     = "57P03"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	undefinedFunction    = "42883"
	undefinedObject      = "42704" // a type, a configuration of the full-text search
	invalidSchema        = "3F000"
	queryCanceled        = "57014" // also by statement_timeout
	invalidParameter     = "22023" // also of set_config('role', …) for a role that does not exist
	connectionException  = "08"    // the class: its codes begin with it
)

// failed puts what was being done before an error; nil for nil.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// sqlState returns the SQLSTATE code of an error that Postgres sent; "" for other errors.
func sqlState(err error) string {
	if sent, ok := errors.AsType[*pgconn.PgError](err); ok {
		return sent.Code
	}
	return ""
}

// Waits between tries are short. They vary, so that two transactions that stopped each other do not meet again.
const (
	maxTries  = 4
	firstWait = 5 * time.Millisecond
)

// retry repeats work that failed because of another transaction or a lost connection, after growing waits. When
// Postgres restarts, a connection fails only when it is used: then the others in the pool are broken as well.
// If Postgres stays unreachable the error is fault.NotReady.
func retry(ctx context.Context, pool *pgxpool.Pool, work func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := work()
		lost := connectionLost(err)
		if lost {
			pool.Reset()
		}
		if try == maxTries || !lost && !lostRace(err) || !pause(ctx, wait+rand.N(wait)) { //nolint:gosec // spreads load, guards nothing
			return explained(err)
		}
		wait *= 4
	}
}

// pause waits, and reports whether the whole time passed before ctx ended.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// explained returns the fault that an error of Postgres means for the caller, if it means one: fault.NotReady if it is
// about the connection, or if Postgres did not answer before a deadline. The deadline is always one of ours: a request
// has none.
func explained(err error) error {
	if connectionLost(err) || errors.Is(err, context.DeadlineExceeded) {
		return &fault.Error{Code: fault.NotReady, Message: "The database is not available. Try again in a moment.", RetryAfter: time.Second, Err: err}
	}
	sent, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	if message := notPrepared(sent); message != "" {
		return &fault.Error{Code: fault.NotReady, Message: message, RetryAfter: notPreparedRetry, Err: err}
	}
	return refused(sent, err)
}

// lostRace reports whether Postgres rolled the transaction back because of another one.
func lostRace(err error) bool {
	code := sqlState(err)
	return code == deadlockDetected || code == serializationFailure
}

// connectionLost reports whether err is about the connection: Postgres shuts down, starts up or cannot be reached.
func connectionLost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch code := sqlState(err); code {
	case "":
	case adminShutdown, crashShutdown, cannotConnectNow:
		return true
	default:
		return strings.HasPrefix(code, connectionException)
	}
	_, unreachable := errors.AsType[net.Error](err)
	return unreachable || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
