package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// said returns the next piece of a turn's reply.
func (b *bed) said(turn chat.NewTurn, startChar int, text string) chat.Delta {
	return chat.Delta{MessageID: turn.MessageID, UserID: b.user.UserID, Server: turn.Server, StartChar: startChar, Text: text}
}

func (b *bed) record(said []chat.Delta, ended ...uuid.UUID) {
	noError(b.t, b.turns.RecordDeltas(b.t.Context(), said, ended))
}

// find reads a turn's reply after that many characters.
func (b *bed) find(turn chat.NewTurn, from int) chat.StoredReply {
	b.t.Helper()
	stored, ok, err := b.turns.FindReply(b.t.Context(), b.user, turn.ChatID, turn.MessageID, from)
	mustBe(b.t, tuple(err, ok), tuple(nil, true), "find")
	return stored
}

func (b *bed) deltas() int {
	return b.count("message_deltas")
}

// A batch whose answer was lost is sent again, perhaps while Postgres still commits it: then it fails, and passes the next time.
func TestBatchSentAgainWhileItIsCommitted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.startTwo()
	again := []chat.Delta{b.said(one, 0, "Hello "), b.said(two, 0, "Other.")}
	committing := b.begin()
	mustExec(t, committing, "insert into message_deltas (message_id, user_id, start_char, delta) values ($1, $2, 0, 'Hello ')", one.MessageID, b.user.UserID)
	assert.Error(t, b.waitsFor(committing, func() error { return b.turns.RecordDeltas(t.Context(), again, nil) }),
		"a batch that met itself did not fail")
	b.record(again)
	got := b.find(one, 0).Content + b.find(two, 0).Content
	is(t, tuple(got, b.deltas()), tuple("Hello Other.", 2), "of … deltas")
}

// Recorded text is read from a place on. Nothing is recorded for a reply that has ended, is another user's, or does not exist.
func TestRecordedDeltasAreReadFromAPlaceOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.startTwo()
	b.record([]chat.Delta{b.said(one, 0, "Größe "), b.said(two, 0, "Other.")})
	b.record([]chat.Delta{b.said(one, 6, "ist 🎻 ")})
	b.record([]chat.Delta{b.said(one, 6, "ist 🎻 "), b.said(one, 12, "alles.")}) // the one before is sent again
	for from, want := range map[int]string{0: "Größe ist 🎻 alles.", 6: "ist 🎻 alles.", 12: "alles.", 18: "", 1000: ""} {
		got := b.find(one, from)
		is(t, tuple(got.Content, got.Status), tuple(want, memory.StatusStreaming), "from %d: %+v", from, got)
	}
	b.reply(one, "Größe ist 🎻 alles.")
	is(t, b.find(one, 12).Content, "Größe ist 🎻 alles.", "a stored reply")
	b.record(nil, one.MessageID)
	forged := b.said(two, 6, "Forged.")
	forged.UserID = b.newUser().UserID
	b.record([]chat.Delta{forged, b.said(one, 19, "Late."), b.said(firstTurn("Three."), 0, "Of none.")})
	is(t, b.deltas(), 1, "deltas are left, want the other reply's")
}

// When a server dies, its recorded text becomes an interrupted reply; a cancelled one if the user had asked
// to stop it.
func TestAbandonedRepliesKeepWhatWasRecorded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, end := range map[string]func(chat.NewTurn){
		"by whoever looks":    func(chat.NewTurn) { is(t, must(b.turns.InterruptAbandoned(t.Context()))(t), 2, "interrupted") },
		"by the next message": func(turn chat.NewTurn) { b.start(turnIn(turn.ChatID, "Are you there?")) },
	} {
		turn, stopped := b.startTwo()
		noError(t, b.turns.RequestCancel(t.Context(), b.user, stopped.MessageID))
		b.record([]chat.Delta{b.said(turn, 0, "Half of "), b.said(stopped, 0, "Enough.")})
		b.record([]chat.Delta{b.said(turn, 8, "a reply")})
		b.exec("update messages set lease_until = clock_timestamp() where id in ($1, $2)", turn.MessageID, stopped.MessageID)
		end(turn)
		got := b.find(turn, 0)
		is(t, tuple(got.Status, got.Content), tuple(memory.StatusInterrupted, "Half of a reply"), "%s: %+v", name, got)
		is(t, b.count("messages where id = $1 and token_count > 0", turn.MessageID), 1, "%s: the text counts tokens", name)
		b.start(turnIn(stopped.ChatID, "Go on."))
		got = b.find(stopped, 0)
		is(t, tuple(got.Status, got.Content), tuple(memory.StatusCancelled, "Enough."), "%s: %+v", name, got)
		is(t, b.deltas(), 0, "%s: deltas are left", name)
		b.checkCounters()
	}
}

// The sweep deletes the deltas of a server that died between storing a reply and deleting them.
func TestStrayDeltasAreDeleted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	running, over := b.startTwo()
	b.record([]chat.Delta{b.said(running, 0, "Here."), b.said(over, 0, "Spent.")})
	b.reply(over, "Spent.")
	b.exec("insert into message_deltas (message_id, user_id, start_char, delta) values (gen_random_uuid(), $1, 0, 'x')", b.user.UserID)
	is(t, must(NewMaintenance(b.pool, b.limits).DeleteStrayDeltas(t.Context(), time.Hour))(t), 1, "of replies that ended a moment ago were deleted")
	n, err := NewMaintenance(b.pool, b.limits).DeleteStrayDeltas(t.Context(), 0)
	is(t, tuple(err, n, b.deltas()), tuple(nil, 1, 1), "%d deleted, … left", n)
}

// What it takes to go on with a reply is kept while that is open, and a day after it has failed; the text is not.
func TestWhatItTakesToGoOnIsKeptForADay(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	b.exec("alter table messages disable trigger messages_check_update") // which sets updated_at
	for _, kept := range []struct {
		status memory.Status
		hours  int // since then
		kept   bool
	}{
		{memory.StatusStreaming, 25, true}, {memory.StatusAwaiting, 25, true}, {memory.StatusFailed, 23, true}, {memory.StatusFailed, 25, false},
		{memory.StatusInterrupted, 23, true}, {memory.StatusInterrupted, 25, false}, {memory.StatusComplete, 1, false}, {memory.StatusCancelled, 1, false},
	} {
		turn := firstTurn("Who is Ada?")
		b.start(turn)
		b.record([]chat.Delta{b.said(turn, 0, "One.")})
		b.change(turn, step(turn, "One.", "call_1"))
		state := ask[string](b, "select data::text from message_deltas where message_id = $1 and start_char = -1", turn.MessageID)
		b.exec("update messages set status = $1, updated_at = now() - make_interval(hours => $2) where id = $3", string(kept.status), kept.hours, turn.MessageID)
		b.exec(`insert into message_deltas (message_id, user_id, start_char, delta, data) values ($1, $2, -1, '', $3)
			on conflict do nothing`, turn.MessageID, b.user.UserID, state)
		must(NewMaintenance(b.pool, b.limits).DeleteStrayDeltas(t.Context(), time.Second))(t)
		left := ask[[]int](b, "select coalesce(array_agg(start_char order by start_char), '{}') from message_deltas where message_id = $1", turn.MessageID)
		want := []int{}
		if kept.kept {
			want = append(want, -1)
		}
		if kept.status == memory.StatusStreaming {
			want = append(want, 0)
		}
		is(t, left, want, "%s for %d hours", kept.status, kept.hours)
	}
}

// A thousand replies in one batch need several notifications.
func TestManyRepliesAreRecordedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const many = 450
	var said []chat.Delta
	for range many {
		turn := firstTurn("One.")
		b.start(turn)
		said = append(said, b.said(turn, 0, strings.Repeat("x", 100)))
	}
	audience := b.listen()
	b.record(said)
	changed := map[uuid.UUID]bool{}
	for len(changed) < many {
		changed[testkit.Receive(t, fmt.Sprintf("more than %d replies", len(changed)), audience.replies)] = true
	}
	is(t, b.deltas(), many, "deltas")
}

// audience records its calls.
type audience struct {
	replies   chan uuid.UUID // uuid.Nil for all of them
	cancels   chan struct{}
	listening chan bool
}

func (a *audience) RepliesChanged(ids ...uuid.UUID) {
	if len(ids) == 0 {
		ids = []uuid.UUID{uuid.Nil}
	}
	for _, id := range ids {
		a.replies <- id
	}
}
func (a *audience) ChatsRead(ids ...uuid.UUID) { a.RepliesChanged(ids...) }
func (a *audience) CancelsRequested()          { a.cancels <- struct{}{} }
func (a *audience) Listening(now bool)         { a.listening <- now }

// receives waits for a call.
func receives[T comparable](t *testing.T, calls <-chan T, want T) {
	t.Helper()
	is(t, testkit.Receive(t, fmt.Sprintf("receive %v", want), calls), want, "received")
}

// listen starts a listener that ends with the test, and waits until it is connected.
func (b *bed) listen() *audience {
	b.t.Helper()
	return b.listenAt(b.db.Direct())
}

func (b *bed) listenAt(dsn string) *audience {
	b.t.Helper()
	calls := &audience{replies: make(chan uuid.UUID, 10_000), cancels: make(chan struct{}, 100), listening: make(chan bool, 100)}
	listener, err := NewListener(dsn, calls, slog.New(slog.DiscardHandler))
	require.Truef(b.t, err == nil && listener != nil, "%v, %v", listener, err)
	ctx, cancel := context.WithCancel(b.t.Context())
	var done sync.WaitGroup
	done.Go(func() { listener.Run(ctx) })
	b.t.Cleanup(func() { cancel(); done.Wait() })
	b.receivesAll(calls)
	return calls
}

// receivesAll waits for the calls that follow a new connection.
func (b *bed) receivesAll(calls *audience) {
	b.t.Helper()
	receives(b.t, calls.listening, true)
	receives(b.t, calls.replies, uuid.Nil)
	receives(b.t, calls.cancels, struct{}{})
}

// A change is passed on. A refused request of another user is not announced.
func TestListenerPassesOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	calls := b.listen()
	turn := firstTurn("One.")
	b.start(turn)
	noError(t, b.turns.RequestCancel(t.Context(), b.newUser(), turn.MessageID))
	b.record([]chat.Delta{b.said(turn, 0, "Hello.")}) // comes after, and alone
	receives(t, calls.replies, turn.MessageID)
	is(t, tuple(len(calls.cancels), len(calls.replies)), tuple(0, 0), "a stranger's request was announced")
	noError(t, b.turns.RequestCancel(t.Context(), b.user, turn.MessageID))
	receives(t, calls.cancels, struct{}{})
	b.exec("select pg_notify($1, 'not an id, nor this')", channelReplies) // means nothing
	b.exec("update messages set lease_until = clock_timestamp() where id = $1", turn.MessageID)
	noError(t, errOf(b.turns.InterruptAbandoned(t.Context())))
	receives(t, calls.replies, turn.MessageID)
	noError(t, dbsqlc.NotifyRead.Run(t.Context(), b.pool, turn.ChatID))
	receives(t, calls.replies, turn.ChatID)
}

// A lost connection is replaced, and then the audience is told that everything may have changed. Behind a transaction pooler
// nothing listens.
func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	calls := b.listen()
	b.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'throughline listener'")
	receives(t, calls.listening, false)
	b.receivesAll(calls)
	listener, err := NewListener(testkit.NewTransactionPooler(t, b.db), &audience{}, slog.New(slog.DiscardHandler))
	assert.Truef(t, listener == nil && err == nil, "%v, %v", listener, err)
	_, err = NewListener("postgres://%zz", &audience{}, slog.New(slog.DiscardHandler))
	assert.Error(t, err, "a malformed connection string was taken")
}

// A connection may answer and be deaf, because a pooler has given it another session. It is noticed within seconds of silence.
func TestDeafListenerComesBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	gateway, err := kit.StartGateway(testkit.HostOf(b.db.Direct()))
	noError(t, err)
	t.Cleanup(gateway.Close)
	calls := b.listenAt(strings.Replace(b.db.Direct(), testkit.HostOf(b.db.Direct()), gateway.Address(), 1))
	heard := time.Now()
	gateway.ChangeServer()
	receives(t, calls.listening, false)
	assert.Less(t, time.Since(heard), 10*time.Second, "it counted as listening")
	b.receivesAll(calls)
	b.exec("select pg_notify($1, $2)", channelReplies, b.user.UserID.String())
	receives(t, calls.replies, b.user.UserID)
}

// Every database user may notify. A payload names replies or is ignored: it never means all replies.
func FuzzNotification(f *testing.F) {
	id := uuid.NewString()
	for _, payload := range []string{"", id, id + "," + id, id + ",", "x," + id, ",,,,", "{" + id + "}", strings.Repeat(id+",", 200), "\x00", "\xff"} {
		f.Add(channelReplies, payload)
		f.Add(channelCancels, payload)
	}
	f.Fuzz(func(t *testing.T, channel, payload string) {
		calls := &audience{replies: make(chan uuid.UUID, len(payload)+1), cancels: make(chan struct{}, 2)}
		(&Listener{audience: calls}).forward(&pgconn.Notification{Channel: channel, Payload: payload})
		if replies := len(calls.replies); replies > strings.Count(payload, ",")+1 || len(calls.cancels) > 1 || len(calls.cancels) == 1 && channel != channelCancels {
			t.Errorf("%q on %q: %d replies, %d cancels", payload, channel, replies, len(calls.cancels))
		}
		for len(calls.replies) > 0 {
			is(t, <-calls.replies != uuid.Nil || strings.Contains(payload, uuid.Nil.String()), true, "%q on %q means all replies", payload, channel)
		}
	})
}

// openForTurns opens a pool of that size, and waits until it has opened what it keeps open.
func openForTurns(t *testing.T, dsn string, maxConns int) *pgxpool.Pool {
	pool, _, err := OpenForTurns(t.Context(), dsn, maxConns)
	require.NoError(t, err)
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
	nowStatements, nowPlannings := prepared(t, pool)
	assert.Truef(t, nowStatements == statements && nowPlannings == plannings,
		"the turn prepared %d statements and planned %d for their values", nowStatements-statements, nowPlannings-plannings)
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
		admin := testkit.Connect(t, b.db.AdminDSN)
		var open int // a pooler keeps the connections of the pools above
		noError(t, admin.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname = $1", b.db.Name).Scan(&open))
		testkit.Exec(t, admin, fmt.Sprintf("alter database %s connection limit %d", b.db.Name, open+3))
		pool, _, err := OpenForTurns(t.Context(), b.db.Direct(), 12)
		require.NoError(t, err)
		defer pool.Close()
		testkit.Eventually(t, "the pool has tried to open its connections", func() bool {
			return pool.Stat().NewConnsCount() >= 4 && pool.Stat().ConstructingConns() == 0
		})
		testkit.Eventually(t, "the refused ones are gone", func() bool { return pool.Ping(t.Context()) == nil })
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
		fine(t, turns.RecordDeltas(t.Context(), []chat.Delta{b.said(running, 0, "Hi")}, nil), "an error")
		found, _, err := turns.FindReply(t.Context(), b.user, running.ChatID, running.MessageID, 0)
		assert.Truef(t, err == nil && found.Content == "Hi", "found %q, %v", found.Content, err)
	}))
	is(t, b.count("messages where status = 'streaming'"), 13, "replies run")
	b.checkCounters()
}

// After Postgres has dropped all connections, many turns at once open no more of them than run at once, beside the ones that the
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
