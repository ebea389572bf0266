package testkit

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// NewPool opens a pool of connections for a test's own queries. It is closed when the test ends.
func NewPool(t testing.TB, dsn string) *pgxpool.Pool {
	config, err := parseDSN(dsn)
	check(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	check(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// Connect opens one connection for a test's own queries. It is closed when the test ends.
func Connect(t testing.TB, dsn string) *pgx.Conn {
	conn, err := connectTo(t.Context(), dsn)
	check(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // the test's context is over
	return conn
}

func connectTo(ctx context.Context, dsn string) (*pgx.Conn, error) {
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config.ConnConfig)
}

// Querier is a connection, a pool or a transaction.
type Querier = kit.Querier

// Ask reads one value.
func Ask[T any](t testing.TB, in Querier, sql string, args ...any) T {
	var answer T
	require.NoErrorf(t, in.QueryRow(t.Context(), sql, args...).Scan(&answer), "%s", sql)
	return answer
}

// Want checks that a query reads this one value.
func Want[T comparable](t testing.TB, in Querier, want T, sql string, args ...any) {
	got := Ask[T](t, in, sql, args...)
	assert.Truef(t, got == want, "%s: %v, want %v", sql, got, want)
}

// Await waits until a query reads this one value. what names the condition in a failure.
func Await[T comparable](t testing.TB, in Querier, what string, want T, sql string, args ...any) {
	Eventually(t, what, func() bool { return Ask[T](t, in, sql, args...) == want })
}

// Exec runs a statement and returns the number of rows affected.
func Exec(t testing.TB, in kit.Execer, sql string, args ...any) int64 {
	tag, err := in.Exec(t.Context(), sql, args...)
	require.NoErrorf(t, err, "%s", sql)
	return tag.RowsAffected()
}

// Lease gives a worker that is not there a lease of background work, for as long as an interval of Postgres, in place of
// another's.
func Lease(t testing.TB, in kit.Execer, kind string, key, user uuid.UUID, alive string) {
	Exec(t, in, `insert into throughline.work (kind, key, user_id, lease_token, lease_until)
		values ($1, $2, $3, gen_random_uuid(), now() + $4::text::interval)
		on conflict (kind, key) do update set lease_token = excluded.lease_token, lease_until = excluded.lease_until`, kind, key, user, alive)
}
