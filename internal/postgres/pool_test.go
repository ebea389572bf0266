package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
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
		if err != nil || got != pooled {
			t.Errorf("%s: a transaction pooler %v, %v", dsn, got, err)
			continue
		}
		if _, left := config.ConnConfig.RuntimeParams["pgbouncer"]; left {
			t.Errorf("%s: Postgres would refuse the parameter pgbouncer", dsn)
		}
		if mode := config.ConnConfig.DefaultQueryExecMode; (mode == pgx.QueryExecModeCacheDescribe) != pooled {
			t.Errorf("%s: %s", dsn, mode)
		}
	}
	if _, _, err := ParseDSN("postgres://%zz"); err == nil {
		t.Error("a broken address was accepted")
	}
}

func TestOpenBoundsThePool(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]int32{"postgres://u@127.0.0.1:1/x": 7, "postgres://u@127.0.0.1:1/x?pool_max_conns=3": 3} {
		pool, _, err := Open(t.Context(), dsn, 7)
		if err != nil {
			t.Fatal(err)
		}
		if got := pool.Config().MaxConns; got != want {
			t.Errorf("%s: at most %d connections, want %d", dsn, got, want)
		}
		pool.Close()
	}
}

// All stores work the same through a transaction pooler, where each transaction may get another connection.
func TestStoresThroughTransactionPooler(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	pool, pooled, err := Open(t.Context(), testkit.NewTransactionPooler(t, b.db), 8)
	if err != nil || !pooled {
		t.Fatalf("a transaction pooler: %v, %v", pooled, err)
	}
	t.Cleanup(pool.Close)
	b.turns, b.briefs = NewTurns(pool, memory.DefaultLimits(), b.turns.enqueue), NewBriefs(pool)
	chatID := b.newChat(3)
	b.mustCommit(b.claim(chatID, brief.KindFold))
	turn := turnIn(chatID, "And now?")
	if started := b.start(turn); started.Brief.Version != 1 || len(started.Buffer) != 0 {
		t.Errorf("started %+v", started)
	}
	if err := b.turns.RequestCancel(t.Context(), b.user, turn.MessageID); err != nil {
		t.Fatal(err)
	}
	b.reply(turn, "Now.")
	if found, ok, err := b.turns.FindReply(t.Context(), b.user, chatID, turn.MessageID, 0); err != nil || !ok || found.Content != "Now." {
		t.Errorf("found %+v, %v, %v", found, ok, err)
	}
	if _, _, err := NewMaintenance(pool, b.limits).DueChats(t.Context()); err != nil {
		t.Error(err)
	}
	stranger, err := b.turns.StartTurn(t.Context(), b.newUser(), turnIn(chatID, "Let me in."))
	if err != nil || stranger.Started || len(stranger.Buffer) != 0 {
		t.Errorf("another user: %+v, %v", stranger, err)
	}
	b.checkCounters()
}
