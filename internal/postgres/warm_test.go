package postgres

import (
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
	started := must(turns.StartTurn(b.t.Context(), b.user, turn))(b.t)
	mustBe(b.t, started.Started, true, "started: %+v", started)
	reply := chat.FinishedReply{ChatID: turn.ChatID, MessageID: turn.MessageID, Status: memory.StatusComplete, Content: "Hello."}
	mustBe(b.t, must(turns.SaveReply(b.t.Context(), b.user, reply))(b.t), true, "saved")
}

// prepared returns how many statements a connection has prepared, and how often Postgres planned one for its values.
func prepared(t *testing.T, pool *pgxpool.Pool) (statements, plannings int) {
	t.Helper()
	const count = "select count(*), coalesce(sum(custom_plans), 0) from pg_prepared_statements"
	noError(t, pool.QueryRow(t.Context(), count, pgx.QueryExecModeSimpleProtocol).Scan(&statements, &plannings))
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

// What keeps statements from being run on a new connection does not keep the connection from being used.
func TestConnectionsThatCannotBeWarmedAreUsed(t *testing.T) {
	t.Parallel()
	t.Run("migrations are pending", func(t *testing.T) {
		t.Parallel()
		openForTurns(t, testkit.NewEmptyDatabase(t).Direct(), 3)
	})
	t.Run("a table is locked", func(t *testing.T) {
		t.Parallel()
		b := newOwnBed(t)
		mustExec(t, b.begin(), "lock table public.chats")
		openForTurns(t, b.db.Direct(), 3)
	})
	t.Run("Postgres allows fewer connections", func(t *testing.T) {
		t.Parallel()
		b := newOwnBed(t)
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
		b := newOwnBed(t)
		chatID := b.newChat(2)
		b.turnOver(openForTurns(t, testkit.NewTransactionPooler(t, b.db), 6), turnIn(chatID, "Hello?"))
	})
}

// However many turns wait for Postgres, the recorder and readers find a connection; and when the turns can go on, all do.
func TestTurnsLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	running, waiting, locked := firstTurn("One."), make([]chat.NewTurn, 12), make([]uuid.UUID, 12)
	b.start(running)
	for i := range locked {
		locked[i] = b.newChat(2)
		waiting[i] = turnIn(locked[i], "Hello?")
	}
	turns := NewTurns(openForTurns(t, b.db.Direct(), 6), memory.DefaultLimits(), b.turns.enqueue)
	tx := b.begin()
	mustExec(t, tx, "select from public.chats where id = any($1) for update", locked)
	noError(t, b.waitsFor(tx, func() error {
		_ = b.startAtOnce(waiting, turns)
		return nil
	}, func() {
		b.awaitBlocked(2)
		fine(t, turns.RecordDeltas(t.Context(), []chat.Delta{{MessageID: running.MessageID, UserID: b.user.UserID, Text: "Hi"}}, nil), "an error")
		if found, _, err := turns.FindReply(t.Context(), b.user, running.ChatID, running.MessageID, 0); err != nil || found.Content != "Hi" {
			t.Errorf("found %q, %v", found.Content, err)
		}
	}))
	is(t, b.count("messages where status = 'streaming'"), 13, "replies run")
	b.checkCounters()
}

// After Postgres has dropped all connections, many turns at once open no more of them than run at once, beside those that the
// pool opens to keep.
func TestTurnsOpenFewConnectionsAfterARestart(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	pool := openForTurns(t, b.db.Direct(), 12)
	turns := NewTurns(pool, memory.DefaultLimits(), b.turns.enqueue)
	testkit.Exec(t, testkit.Connect(t, b.db.AdminDSN),
		"select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'throughline'")
	together(t, 60, func(int) error {
		found, err := turns.StartTurn(t.Context(), b.user, firstTurn("Hello?"))
		is(t, found.Started, true, "started: %+v", found)
		return err
	})
	if open := pool.Stat().TotalConns(); open > turnsAtOnce(12)+keptOpen(12) {
		t.Errorf("%d connections for 60 turns", open)
	}
}

func TestPoolForTurnsKeepsAThirdOpen(t *testing.T) {
	t.Parallel()
	for parameter, want := range map[string]int32{"": 4, "&pool_min_conns=2": 2, "&pool_min_conns=0": 0, "&pool_max_conns=2": 1} {
		pool, _, err := OpenForTurns(t.Context(), "postgres://u@127.0.0.1:1/x?sslmode=disable"+parameter, 12)
		noError(t, err)
		is(t, pool.Config().MinConns, want, "%s", parameter)
		pool.Close()
	}
}
