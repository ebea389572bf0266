package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
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
		_, left := config.ConnConfig.RuntimeParams["pgbouncer"]
		assert.Falsef(t, left, "%s: Postgres would refuse the parameter pgbouncer", dsn)
		is(t, (config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe), pooled, "%s", dsn)
	}
	_, _, err := ParseDSN("postgres://%zz")
	assert.Error(t, err, "a broken address was accepted")
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
	assert.Errorf(t, pool.QueryRow(t.Context(), "select 'four'::bytea").Scan(&short), "four bytes are %s", short)
}

// When two transactions wait for each other, Postgres ends one of them. It is tried again, and both succeed.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chats, tries := []uuid.UUID{b.newChat(1), b.newChat(1)}, make([]int, 2)
	var both sync.WaitGroup
	both.Add(2)
	together(t, 2, func(i int) error {
		return inTx(t.Context(), b.pool, func(tx pgx.Tx) error {
			tries[i]++
			if _, err := tx.Exec(t.Context(), "update chats set title = title || '.' where id = $1", chats[i]); err != nil {
				return err
			}
			if tries[i] == 1 { // each holds its own before it asks for the other's
				both.Done()
				both.Wait()
			}
			return errOf(tx.Exec(t.Context(), "update chats set title = title || '!' where id = $1", chats[1-i]))
		})
	})
	n := tries[0] + tries[1]
	assert.Truef(t, n >= 3, "%d tries: there was no deadlock", n)
	is(t, b.count("chats where title ~ '[.]' and title ~ '!' and length(title) = length('question number 1') + 2"), 2, "of 2 chats were changed by both, once")
}

// A transaction that read what another one changed meanwhile is tried again from its beginning.
func TestSerializationFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID, tries := b.newChat(1), 0
	noError(t, inTx(t.Context(), b.pool, func(tx pgx.Tx) error {
		if tries++; tries > 2 {
			t.Fatal("tried again without a conflict")
		}
		mustExec(t, tx, "set transaction isolation level repeatable read")
		title := testkit.Ask[string](t, tx, "select title from chats where id = $1", chatID)
		if tries == 1 {
			b.exec("update chats set title = 'theirs' where id = $1", chatID)
		}
		return errOf(tx.Exec(t.Context(), "update chats set title = $2 || ' and ours' where id = $1", chatID, title))
	}))
	is(t, tuple(tries, b.count("chats where title = 'theirs and ours'")), tuple(2, 1), "tries, chats")
}

// queueError queues a statement that fails with a SQLSTATE code.
func queueError(batch *pgx.Batch, code string) {
	batch.Queue("do $$ begin raise exception using errcode = '" + code + "'; end $$")
}

// An error that stays is returned after some tries. One that another try cannot help is returned at once, and so is any when the
// context has ended.
func TestRetryEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for code, want := range map[string]int{
		pgerrcode.DeadlockDetected: maxTries, pgerrcode.SerializationFailure: maxTries, pgerrcode.UniqueViolation: 1,
		pgerrcode.CheckViolation: 1, pgerrcode.QueryCanceled: 1, pgerrcode.LockNotAvailable: maxTries,
	} {
		n := 0
		err := send(t.Context(), b.pool, func(batch *pgx.Batch) {
			n++
			queueError(batch, code)
		})
		is(t, tuple(sqlState(err), n), tuple(code, want), "…: %d tries, and", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := retry(ctx, b.pool, func() error {
		n++
		batch := &pgx.Batch{}
		queueError(batch, pgerrcode.DeadlockDetected)
		defer cancel()
		return b.pool.SendBatch(t.Context(), batch).Close()
	})
	is(t, tuple(n, sqlState(err)), tuple(1, pgerrcode.DeadlockDetected), "tries until the context ended")
	err = send(ctx, b.pool, func(*pgx.Batch) { n++ })
	assert.Truef(t, n <= 2 && errors.Is(err, context.Canceled), "%d tries, %v", n, err)
}

// A connection that Postgres ended is replaced. If Postgres stays away the error is fault.NotReady.
func TestLostConnectionIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	n := 0
	err := send(t.Context(), b.pool, func(batch *pgx.Batch) {
		if n++; n == 1 {
			batch.Queue("select pg_terminate_backend(pg_backend_pid())")
		}
		batch.Queue("select 1")
	})
	is(t, tuple(err, n), tuple(nil, 2), "%d tries", n)
	gone, _, err := Open(t.Context(), "postgres://nobody@127.0.0.1:1/nothing", 1)
	noError(t, err)
	defer gone.Close()
	n = 0
	err = send(t.Context(), gone, func(batch *pgx.Batch) {
		n++
		queueError(batch, "00000")
	})
	is(t, tuple(fault.CodeOf(err), n), tuple(fault.NotReady, maxTries), "%d tries", n)
	testkit.Eventually(t, "the pool works on", func() bool { return ask[int](b, "select 1") == 1 })
}

// A query without a row leaves the zero value, and the error of a query is returned by send.
func TestQueuedQueriesPassOnWhatComes(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	chatID := b.newChat(1)
	read := func(chatID uuid.UUID) (turns int, found uuid.UUID, err error) {
		var one dbsqlc.ReadBriefRow
		err = send(t.Context(), b.pool, func(batch *pgx.Batch) {
			dbsqlc.ReadBrief.Read(batch, chatID, set(&one))
			dbsqlc.FindImported.Read(batch, dbsqlc.FindImportedParams{ID: chatID}, set(&found))
		})
		return one.PendingTurns, found, err
	}
	turns, found, err := read(chatID)
	is(t, tuple(turns, found, err), tuple(1, chatID, nil), "a chat that is there")
	turns, found, err = read(uuid.New())
	is(t, tuple(turns, found, err), tuple(0, uuid.Nil, nil), "a chat that is not there")
	b.exec("alter table conversation_briefs rename to missing")
	is(t, sqlState(errOf2(read(chatID))), "42P01", "a table that is not there")
}

// What a statement of ours lacks are migrations; what a trigger or function of the app lacks is the app's own mistake.
func TestMissingMigrationsAreToldFromTheAppsMistakes(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	testkit.Exec(t, testkit.Connect(t, b.db.AdminDSN), `
		create schema app;
		create table app.audited (id int);
		create function app.audit() returns trigger language plpgsql as $$ begin insert into app.gone values (1); return new; end $$;
		create trigger audit after insert on app.audited for each row execute function app.audit();
		create function app.asks() returns bigint language plpgsql as $$ begin return (select count(*) from app.gone); end $$;
		grant usage on schema app to public;
		grant insert on app.audited to public`)
	for statement, want := range map[string]fault.Code{
		"select from nothing.chats":                              fault.NotReady,
		"select from public.no_such_table":                       fault.NotReady,
		"select no_such_column from public.chats":                fault.NotReady,
		"select throughline.no_such_function()":                  fault.NotReady,
		"select to_tsvector('throughline.none', 'a')":            fault.NotReady,
		"select null::throughline.no_such_type":                  fault.NotReady,
		"select set_config('role', 'throughline_nobody', true)":  fault.NotReady,
		"select set_config('role', 'the_apps_own_role', true)":   fault.Internal,
		"select now() at time zone 'Nowhere'":                    fault.Internal,
		"insert into app.audited values (1)":                     fault.Internal,
		"select app.asks()":                                      fault.Internal,
		"insert into auth.users (id) values (gen_random_uuid())": fault.ForbiddenByPolicy,
	} {
		err := send(t.Context(), b.pool, func(batch *pgx.Batch) {
			if want != fault.NotReady {
				queueActAs(batch, b.user)
			}
			batch.Queue(statement)
		})
		is(t, fault.CodeOf(err), want, "%s: %v", statement, err)
	}
}

// The claims decide, for any user id that the Go code passes and any chat that it names.
func TestClaimsDecide(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	theirs := b.newChat(2)
	before := ask[string](b, "select count(*) || '/' || sum(length(content)) from messages")
	stranger := b.newUser()
	confused := auth.Principal{UserID: b.user.UserID, Claims: stranger.Claims} // a mistake of ours
	for _, claims := range []string{"", "{}", `{"sub": null}`, `{"sub": "` + uuid.NewString() + `"}`} {
		tx := b.begin()
		noError(t, actAs(t.Context(), tx, auth.Principal{Claims: claims}))
		is(t, testkit.Ask[int](t, tx, "select count(*) from messages"), 0, "messages with the claims %q", claims)
	}
	started, err := b.turns.StartTurn(t.Context(), confused, turnIn(theirs, "Let me in."))
	if err != nil || started.Started || started.SystemPrompt != "" || len(started.Buffer) != 0 || started.Brief.Version != 0 || started.PendingTurns > 0 {
		t.Errorf("a turn in another user's chat: %+v, %v", started, err)
	}
	wantFault(t, errOf(b.turns.StartTurn(t.Context(), confused, firstTurn("A chat in their name."))), fault.ForbiddenByPolicy, "a chat in another user's name")
	running := turnIn(theirs, "Mine.")
	running.ClientMessageID = uuid.New()
	b.start(running)
	is(t, must(b.turns.SaveReply(t.Context(), confused, finished(running, "Not theirs to write.")))(t), false, "saved another user's reply")
	noError(t, b.turns.RequestCancel(t.Context(), confused, running.MessageID))
	is(t, ask[bool](b, "select cancel_requested from messages where id = $1", running.MessageID), false, "cancelled another user's reply")
	again := firstTurn("Mine.") // a client message id that another user has used does not matter
	again.ClientMessageID = running.ClientMessageID
	is(t, must(b.turns.StartTurn(t.Context(), stranger, again))(t).Started, true, "a turn with another user's id of it")
	b.exec("delete from chats where id = $1", again.ChatID)
	is(t, must(b.turns.StartTurn(t.Context(), b.user, turnIn(uuid.New(), "Hello?")))(t), chat.StartedTurn{}, "a turn in no chat")
	b.reply(running, "")
	b.exec("delete from messages where id in ($1, $2)", running.MessageID, running.UserMessageID)
	is(t, ask[string](b, "select count(*) || '/' || sum(length(content)) from messages"), before, "the messages were … and")
}

// Thousands of requests of many users on four connections, cancelled at any moment, half of them for another's chat: they read
// and write nothing of others, and no user's settings stay on a connection.
func TestNoRoleOrClaimsAreLeftBehind(t *testing.T) {
	t.Parallel()
	b := newBedWith(t, memory.DefaultLimits(), 4)
	owner := b.user
	users, chats := make([]auth.Principal, 50), make([]uuid.UUID, 50)
	for i := range users {
		users[i] = b.newUser()
		b.user = users[i]
		chats[i] = b.newChat(1)
		noError(t, b.index.RunIndexTurns(t.Context(), chats[i], 0))
	}
	b.user = owner
	together(t, 16, func(worker int) (err error) {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		for range races(10_000) / 16 {
			a := random.IntN(len(users))
			z := (a + 1 + random.IntN(len(users)-1)) % len(users)
			ctx, cancel := context.WithCancel(t.Context())
			if random.IntN(3) == 0 {
				time.AfterFunc(time.Duration(random.IntN(3000))*time.Microsecond, cancel)
			}
			failed := b.anyRequest(ctx, random.IntN(3), users[a], chats[a])
			if random.IntN(2) == 0 {
				failed = b.trespass(ctx, random.IntN(4), users[a], chats[z])
			}
			if ctx.Err() == nil || errors.Is(failed, errTrespassed) {
				err = errors.Join(err, failed)
			}
			cancel()
		}
		return err
	})
	b.checkConnectionsAreClean()
	is(t, b.count("messages m join chats c on c.id = m.chat_id where m.user_id <> c.user_id or content = 'Let me in.'"), 0, "messages of others")
	b.checkCounters()
}

// anyRequest is one of a user in their own chat.
func (b *bed) anyRequest(ctx context.Context, kind int, user auth.Principal, chatID uuid.UUID) error {
	switch kind {
	case 0:
		return errOf(b.turns.ReadChat(ctx, user, chatID))
	case 1:
		turn := turnIn(chatID, "More.")
		turn.Lease = time.Millisecond
		return errOf(b.turns.StartTurn(ctx, user, turn))
	default:
		found, ok, err := b.turns.FindReply(ctx, user, chatID, uuid.Nil, 0)
		if err != nil || !ok {
			return err
		}
		return errOf(b.turns.SaveReply(ctx, user, finished(chat.NewTurn{ChatID: chatID, MessageID: found.MessageID}, "Yes.")))
	}
}

// errTrespassed is that somebody reached another user's rows.
var errTrespassed = errors.New("trespassed")

// trespass is an attempt of a user at another's chat.
func (b *bed) trespass(ctx context.Context, kind int, user auth.Principal, chatID uuid.UUID) error {
	var got any
	var err error
	var reached bool
	store := &Recall{Pool: b.pool}
	switch kind {
	case 0:
		found, errFound := store.Matches(ctx, user, recall.Query{ChatID: chatID}, [][]string{{"question"}})
		got, reached = found, errFound == nil || len(found.Found) > 0
	case 1:
		found, errFound := store.Matches(ctx, user, recall.Query{}, [][]string{{"question"}})
		stolen := recall.Span{TurnID: recall.TurnID{ChatID: chatID, Seq: 1}, LastSeq: 2}
		texts, _, errTexts := store.Texts(ctx, user, []recall.Span{stolen}, uuid.Nil)
		others := slices.ContainsFunc(found.Found, func(m recall.Match) bool { return m.ChatID == chatID })
		got, reached, err = found, others || len(texts) > 0 || errFound == nil && len(found.Found) == 0, errors.Join(errFound, errTexts)
	case 2:
		started, errStart := b.turns.StartTurn(ctx, user, turnIn(chatID, "Let me in."))
		got, reached, err = started, started.Started || len(started.Buffer) > 0 || started.Running != uuid.Nil || started.Earlier != nil, errStart
	default:
		got, reached, _ = b.turns.FindReply(ctx, user, chatID, uuid.Nil, 0)
	}
	if reached {
		return fmt.Errorf("%w: %+v", errTrespassed, got)
	}
	return err
}

// checkConnectionsAreClean checks every connection of the pool.
func (b *bed) checkConnectionsAreClean() {
	b.t.Helper()
	total := int(b.pool.Config().MaxConns)
	for i := range total {
		conn := must(b.pool.Acquire(b.t.Context()))(b.t)
		defer conn.Release() // all of them are held until the last was looked at
		var role, claims string
		err := conn.QueryRow(b.t.Context(), `select current_setting('role') || '/' || current_user, concat(current_setting('request.jwt.claims', true),
			current_setting('request.jwt.claim.sub', true))`).Scan(&role, &claims)
		is(b.t, tuple(err, role, claims), tuple(nil, "none/postgres", ""), "connection %d has the role … and the claims", i)
	}
}

// throughline.uid() reads the older variable of sub before the claims. One that somebody left on a pooled connection is not
// the user of our transactions, nor of a job's.
func TestUserLeftOnAConnectionDoesNotCount(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stranger, mine := b.newUser(), b.newChat(1)
	conn := must(b.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	for who, act := range map[string]func(tx pgx.Tx) error{
		"user":  func(tx pgx.Tx) error { return actAs(t.Context(), tx, b.user) },
		"owner": func(tx pgx.Tx) error { return errOf(dbsqlc.ActAsChatOwner.One(t.Context(), tx, mine)) },
	} {
		tx := must(conn.Begin(t.Context()))(t)
		mustExec(t, tx, "select set_config('request.jwt.claim.sub', $1, false)", stranger.UserID.String())
		noError(t, act(tx))
		is(t, testkit.Ask[uuid.UUID](t, tx, "select throughline.uid()"), b.user.UserID, "%s: acts as", who)
		noError(t, tx.Rollback(t.Context()))
	}
}

// errRolledBack ends a transaction that must leave nothing behind.
var errRolledBack = errors.New("rolled back")
