package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestParseDSN(t *testing.T) {
	t.Parallel()
	for dsn, pooled := range map[string]bool{
		"postgres://u:p@db.example.supabase.co:5432/postgres":                                  false,
		"postgres://u:p@aws-0-eu-central-1.pooler.supabase.com:5432/postgres":                  false,
		"postgres://u:p@aws-0-eu-central-1.pooler.supabase.com:6543/postgres":                  true,
		"postgresql://u:p@aws-0-eu-central-1.pooler.supabase.com:6543/postgres?pgbouncer=true": true,
		"postgres://u:p@127.0.0.1:6432/postgres?sslmode=disable&pgbouncer=true":                true,
		"postgres://u:p@127.0.0.1:6432/postgres?pgbouncer=false":                               false,
		"host=db.example.com port=6543 user=u dbname=postgres":                                 true,
		"host=db.example.com port=5432 user=u dbname=postgres":                                 false,
	} {
		config, got, err := ParseDSN(dsn)
		mustBe(t, tuple(err, got), tuple(nil, pooled), "%s: a transaction pooler", dsn)
		if _, left := config.ConnConfig.RuntimeParams["pgbouncer"]; left {
			t.Errorf("%s: Postgres would refuse the parameter pgbouncer", dsn)
		}
		is(t, (config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe), pooled, "%s", dsn)
	}
	if _, _, err := ParseDSN("postgres://%zz"); err == nil {
		t.Error("a broken address was accepted")
	}
	for parameters, want := range map[string][]string{
		"": tuple(connectTimeout, pingTimeout, 7),
		"connect_timeout=11&pool_ping_timeout=300ms&pool_max_conns=3": tuple(11*time.Second, 300*time.Millisecond, 3),
	} {
		pool, _, err := Open(t.Context(), "postgres://u@127.0.0.1:1/x?"+parameters, 7)
		noError(t, err)
		is(t, tuple(pool.Config().ConnConfig.ConnectTimeout, pool.Config().PingTimeout, pool.Config().MaxConns), want, "%s", parameters)
		pool.Close()
	}
}

// If Postgres takes a statement and never answers, the call ends after its timeout with fault.NotReady, and the next one uses
// another connection. A server that accepts connections and stays silent is given up after connect_timeout, and occupies the pool
// no longer.
func TestSilentPostgresIsNotReady(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for parameters, timeout := range map[string]time.Duration{"": 300 * time.Millisecond, "&connect_timeout=1": testkit.Patience} {
		network := testkit.NewProxy(t, testkit.HostOf(b.db.Direct()))
		pool, _, err := Open(t.Context(), network.DSN(b.db.Direct())+parameters, 2)
		noError(t, err)
		t.Cleanup(pool.Close)
		look := func(most time.Duration) error {
			return sendWithin(t.Context(), most, pool, func(batch *pgx.Batch) { batch.Queue("select 1") })
		}
		if parameters == "" {
			noError(t, look(testkit.Patience))
		}
		network.Break(testkit.Faults{HalfOpen: true})
		for range 3 { // more than the pool has places
			is(t, fault.CodeOf(look(timeout)), fault.NotReady, "silent, %s", parameters)
			if parameters == "" {
				break
			}
		}
		network.Heal()
		// A busy machine may need longer than connect_timeout.
		testkit.Eventually(t, "it is connected to", func() bool { return look(testkit.Patience) == nil })
	}
}

// Ids come back as they went, whichever protocol the server speaks with Postgres.
func TestIDsGoThereAndBack(t *testing.T) {
	t.Parallel()
	pool := newBed(t).pool
	id, other := uuid.New(), uuid.New()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe} {
		var one, none uuid.UUID
		var maybe, missing *uuid.UUID
		var nullable uuid.NullUUID
		var text string
		var all []uuid.UUID
		noError(t, pool.QueryRow(t.Context(), "select $1::uuid, null::uuid, $2::uuid, null::uuid, $1::uuid, $1::uuid::text, $3::uuid[]", mode, id, &other,
			[]uuid.UUID{id, other}).Scan(&one, &none, &maybe, &missing, &nullable, &text, &all))
		is(t, tuple(one, none, *maybe, missing == nil, nullable.UUID, text, all), tuple(id, uuid.Nil, other, true, id, id, []uuid.UUID{id, other}), "%s", mode)
	}
	var short uuid.UUID
	if err := pool.QueryRow(t.Context(), "select 'four'::bytea").Scan(&short); err == nil {
		t.Errorf("four bytes are %s", short)
	}
}
