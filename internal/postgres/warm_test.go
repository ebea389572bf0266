package postgres

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// openForTurns opens a pool of that size, and waits until it has opened what it keeps open.
func openForTurns(t *testing.T, dsn string, maxConns int) *pgxpool.Pool {
	t.Helper()
	pool, _, err := OpenForTurns(t.Context(), dsn, maxConns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	testkit.Eventually(t, "the pool has opened its connections", func() bool {
		return pool.Stat().IdleConns() >= pool.Config().MinConns
	})
	return pool
}

// turnOver starts and ends a turn in a pool.
func (b *bed) turnOver(pool *pgxpool.Pool, turn chat.NewTurn) {
	b.t.Helper()
	turns := NewTurns(pool, memory.DefaultLimits(), b.turns.enqueue)
	if started, err := turns.StartTurn(b.t.Context(), b.user, turn); err != nil || !started.Started {
		b.t.Fatalf("started: %+v, %v", started, err)
	}
	reply := chat.FinishedReply{ChatID: turn.ChatID, MessageID: turn.MessageID, Status: memory.StatusComplete, Content: "Hello."}
	if saved, err := turns.SaveReply(b.t.Context(), b.user, reply); err != nil || !saved {
		b.t.Fatalf("saved: %v, %v", saved, err)
	}
}

// prepared returns how many statements a connection has prepared, and how often Postgres planned one for its values.
func prepared(t *testing.T, pool *pgxpool.Pool) (statements, plannings int) {
	t.Helper()
	const count = "select count(*), coalesce(sum(custom_plans), 0) from pg_prepared_statements"
	if err := pool.QueryRow(t.Context(), count, pgx.QueryExecModeSimpleProtocol).Scan(&statements, &plannings); err != nil {
		t.Fatal(err)
	}
	return statements, plannings
}

// The first turn on a connection finds everything parsed and planned.
func TestFirstTurnOnAConnectionPlansNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(2)
	pool := openForTurns(t, b.db.Direct(), 1)
	statements, plannings := prepared(t, pool)
	b.turnOver(pool, turnIn(chatID, "Hello?"))
	if nowStatements, nowPlannings := prepared(t, pool); nowStatements != statements || nowPlannings != plannings {
		t.Errorf("the turn prepared %d statements and planned %d for their values", nowStatements-statements, nowPlannings-plannings)
	}
	if statements == 0 || pool.Stat().NewConnsCount() != 1 {
		t.Errorf("%d statements prepared, %d connections opened", statements, pool.Stat().NewConnsCount())
	}
	b.checkCounters()
}

func TestPoolForTurnsKeepsAThirdOpen(t *testing.T) {
	t.Parallel()
	for parameter, want := range map[string]int32{"": 4, "&pool_min_conns=2": 2, "&pool_min_conns=0": 0, "&pool_max_conns=2": 1} {
		pool, _, err := OpenForTurns(t.Context(), "postgres://u@127.0.0.1:1/x?sslmode=disable"+parameter, 12)
		if err != nil {
			t.Fatal(err)
		}
		if got := pool.Config().MinConns; got != want {
			t.Errorf("%q: keeps %d open, want %d", parameter, got, want)
		}
		pool.Close()
	}
}

// As many turns as a user may have streams wait for a locked chat, and a turn of another chat does not wait for them.
func TestTurnsOfALockedChatLeaveRoom(t *testing.T) {
	t.Parallel()
	const streams = 8 // config's default
	b := newBed(t)
	locked, free := b.newChat(1), b.newChat(1)
	pool := openForTurns(t, b.db.Direct(), 24) // app's default
	turns := NewTurns(pool, memory.DefaultLimits(), b.turns.enqueue)
	lock := b.begin()
	mustExec(t, lock, "select from chats where id = $1 for update", locked)
	var waiting sync.WaitGroup
	for range streams {
		waiting.Go(func() {
			if _, err := turns.StartTurn(t.Context(), b.user, turnIn(locked, "Hello?")); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Eventually(t, "all of them wait for the lock", func() bool {
		return testkit.Ask[int](t, b.pool, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == streams
	})
	if started, err := turns.StartTurn(t.Context(), b.user, turnIn(free, "Hello?")); err != nil || !started.Started {
		t.Errorf("started: %+v, %v", started, err)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
}

// What keeps statements from being run on a new connection does not keep the connection from being used.
func TestConnectionsThatCannotBeWarmedAreUsed(t *testing.T) {
	t.Parallel()
	t.Run("migrations are pending", func(t *testing.T) {
		t.Parallel()
		openForTurns(t, testkit.NewEmptyDatabase(t).Direct(), 3)
	})
	t.Run("a table is locked", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		mustExec(t, b.begin(), "lock table public.chats")
		openForTurns(t, b.db.Direct(), 3)
	})
	t.Run("Postgres allows fewer connections", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		chatID := b.newChat(2)
		b.pool.Close()
		testkit.Exec(t, testkit.Connect(t, b.db.AdminDSN), "alter database "+b.db.Name+" connection limit 3")
		pool, _, err := OpenForTurns(t.Context(), b.db.Direct(), 12)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		testkit.Eventually(t, "the pool has tried to open its connections", func() bool {
			return pool.Stat().NewConnsCount() >= 4 && pool.Stat().ConstructingConns() == 0
		})
		testkit.Eventually(t, "those that Postgres refused are gone", func() bool { return pool.Ping(t.Context()) == nil })
		b.turnOver(pool, turnIn(chatID, "Hello?"))
	})
	t.Run("through a transaction pooler", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		chatID := b.newChat(2)
		b.turnOver(openForTurns(t, testkit.NewTransactionPooler(t, b.db), 6), turnIn(chatID, "Hello?"))
	})
}

// However many turns wait for Postgres, the recorder and readers find a connection; and when the turns can go on, all do.
func TestTurnsLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	running, locked := firstTurn("One."), make([]uuid.UUID, 12)
	b.start(running)
	for i := range locked {
		locked[i] = b.newChat(2)
	}
	pool := openForTurns(t, b.db.Direct(), 6)
	turns := NewTurns(pool, memory.DefaultLimits(), b.turns.enqueue)
	tx := b.begin()
	mustExec(t, tx, "select from public.chats where id = any($1) for update", locked)
	var started sync.WaitGroup
	for _, chatID := range locked {
		started.Go(func() {
			if found, err := turns.StartTurn(t.Context(), b.user, turnIn(chatID, "Hello?")); err != nil || !found.Started {
				t.Errorf("started: %+v, %v", found, err)
			}
		})
	}
	b.awaitBlocked(2)
	if err := turns.RecordDeltas(t.Context(), []chat.Delta{{MessageID: running.MessageID, UserID: b.user.UserID, Text: "Hi"}}, nil); err != nil {
		t.Error(err)
	}
	if found, _, err := turns.FindReply(t.Context(), b.user, running.ChatID, running.MessageID, 0); err != nil || found.Content != "Hi" {
		t.Errorf("found %q, %v", found.Content, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	started.Wait()
	b.checkCounters()
}

// After Postgres has dropped all connections, many turns at once open no more of them than run at once, beside those that the
// pool opens to keep.
func TestTurnsOpenFewConnectionsAfterARestart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	pool := openForTurns(t, b.db.Direct(), 12)
	turns := NewTurns(pool, memory.DefaultLimits(), b.turns.enqueue)
	testkit.Exec(t, testkit.Connect(t, b.db.AdminDSN),
		"select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'throughline'")
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			if found, err := turns.StartTurn(t.Context(), b.user, firstTurn("Hello?")); err != nil || !found.Started {
				t.Errorf("started: %+v, %v", found, err)
			}
		})
	}
	all.Wait()
	if open := pool.Stat().TotalConns(); open > turnsAtOnce(12)+keptOpen(12) {
		t.Errorf("%d connections for 60 turns", open)
	}
}
