package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // -parallel on the command line still decides
	testkit.AtEnd(told.mustBeAll)
	testkit.Main(m)
}

// bed is one test's database, with the stores on it and a user.
type bed struct {
	t      *testing.T
	db     testkit.Database
	pool   *pgxpool.Pool // of the owner: of workers, and for the tests' own queries
	server *pgxpool.Pool // of throughline_server
	limits memory.Limits
	turns  *Turns
	briefs *Briefs
	work   *Work
	user   auth.Principal
	index  *TurnIndex
	// folds are the chats whose fold was enqueued, in the order of the calls; indexes those to be indexed.
	folds, indexes chan uuid.UUID
}

// newBed is a bed on a database without rows, which other tests have used before.
func newBed(t *testing.T) *bed {
	t.Helper()
	p := anyPlace(t)
	return bedOn(t, p.db, p.pool, p.server, memory.DefaultLimits())
}

// newOwnBed is a bed on a database of its own, for a test that alters it, fills it, or reads plans and statistics.
func newOwnBed(t *testing.T) *bed {
	t.Helper()
	return newBedWith(t, memory.DefaultLimits(), 20)
}

func newBedWith(t *testing.T, limits memory.Limits, conns int) *bed {
	t.Helper()
	return newBedOn(t, testkit.NewDatabase(t), limits, conns)
}

func newBedOn(t *testing.T, db testkit.Database, limits memory.Limits, conns int) *bed {
	t.Helper()
	pool, server := openPool(t, db, db.DSN, conns), openPool(t, db, db.ServerDSN, conns)
	t.Cleanup(pool.Close)
	t.Cleanup(server.Close)
	return bedOn(t, db, pool, server, limits)
}

func openPool(t testing.TB, db testkit.Database, dsn string, conns int) *pgxpool.Pool {
	t.Helper()
	pool, pooled, err := Open(context.WithoutCancel(t.Context()), dsn, conns)
	mustBe(t, tuple(err, pooled), tuple(nil, db.Pooled()), "open: …, taken for a transaction pooler")
	config := pool.Config()
	pool.Close()
	config.ConnConfig.Tracer = told
	return must(pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config))(t)
}

func bedOn(t *testing.T, db testkit.Database, pool, server *pgxpool.Pool, limits memory.Limits) *bed {
	b := &bed{t: t, db: db, pool: pool, server: server, limits: limits, folds: make(chan uuid.UUID, 10_000), indexes: make(chan uuid.UUID, 10_000)}
	into := func(enqueued chan uuid.UUID) func(context.Context, pgx.Tx, uuid.UUID) error {
		return func(_ context.Context, _ pgx.Tx, chatID uuid.UUID) error {
			enqueued <- chatID
			return nil
		}
	}
	b.turns = NewTurns(server, limits, Enqueue{Fold: into(b.folds), Index: into(b.indexes)})
	b.briefs, b.work, b.index = &Briefs{Pool: pool, Insert: noJob}, &Work{Pool: pool}, &TurnIndex{Pool: pool}
	b.user = b.newUser()
	return b
}

func (b *bed) newUser() auth.Principal {
	return principalOf(b.t, ask[uuid.UUID](b, "insert into auth.users (id, aud, role) values (gen_random_uuid(), 'authenticated', 'authenticated') returning id"))
}

func principalOf(t *testing.T, id uuid.UUID) auth.Principal {
	claims, err := json.Marshal(map[string]string{"sub": id.String(), "role": "authenticated"})
	noError(t, err)
	return auth.Principal{UserID: id, Claims: string(claims)}
}

// firstTurn returns a turn that starts a chat, turnIn one that continues it.
func firstTurn(content string) chat.NewTurn {
	turn := turnIn(uuid.New(), content)
	turn.NewChat, turn.Title = true, content
	return turn
}

func turnIn(chatID uuid.UUID, content string) chat.NewTurn {
	return chat.NewTurn{
		ChatID: chatID, UserMessageID: uuid.New(), Content: content, ContentTokens: text.Tokens(content),
		MessageID: uuid.New(), Variant: "arco", Server: uuid.New(), Lease: time.Minute, SystemPromptRoom: 1 << 20,
	}
}

// start starts a turn, which must succeed.
func (b *bed) start(turn chat.NewTurn) chat.StartedTurn {
	b.t.Helper()
	started, err := b.turns.StartTurn(b.t.Context(), b.user, turn)
	mustBe(b.t, tuple(err, started.Started), tuple(nil, true), "start: %+v", started)
	return started
}

// startTwo starts two turns, each in a chat of its own.
func (b *bed) startTwo() (one, two chat.NewTurn) {
	b.t.Helper()
	one, two = firstTurn("One."), firstTurn("Two.")
	b.start(one)
	b.start(two)
	return one, two
}

// startWithID starts a turn with a client message id.
func (b *bed) startWithID(content string) chat.NewTurn {
	b.t.Helper()
	turn := firstTurn(content)
	turn.ClientMessageID = uuid.New()
	b.start(turn)
	return turn
}

// reply completes a turn's reply.
func (b *bed) reply(turn chat.NewTurn, content string) {
	b.t.Helper()
	mustBe(b.t, must(b.turns.SaveReply(b.t.Context(), b.user, finished(turn, content)))(b.t), true, "save")
}

// exchange is a whole turn.
func (b *bed) exchange(turn chat.NewTurn, reply string) chat.NewTurn {
	b.t.Helper()
	b.start(turn)
	b.reply(turn, reply)
	return turn
}

func finished(turn chat.NewTurn, content string) chat.FinishedReply {
	return chat.FinishedReply{
		ChatID: turn.ChatID, MessageID: turn.MessageID, Status: memory.StatusComplete, Content: content,
		Tokens: text.Tokens(content), Metadata: chat.ReplyMetadata{ModelVariant: turn.Variant},
	}
}

// newChat creates a chat with that many complete turns and returns its id.
func (b *bed) newChat(turns int) uuid.UUID {
	b.t.Helper()
	return b.newChatOf(memory.StrategySummary, turns)
}

// emptyChat stores a chat without messages, as SQL by hand does.
func (b *bed) emptyChat() uuid.UUID {
	return ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", b.user.UserID)
}

func (b *bed) newChatOf(strategy memory.StrategyName, turns int) uuid.UUID {
	b.t.Helper()
	first := firstTurn("question number 1")
	first.Strategy = strategy
	b.exchange(first, "answer number 1")
	for range turns - 1 {
		b.exchange(turnIn(first.ChatID, "another question"), "another answer")
	}
	return first.ChatID
}

// exec runs a statement as the server, that is as postgres.
func (b *bed) exec(sql string, args ...any) {
	testkit.Exec(b.t, b.pool, sql, args...)
}

// ask reads one value as the server.
func ask[T any](in interface{ it() *bed }, sql string, args ...any) T {
	b := in.it()
	return testkit.Ask[T](b.t, b.pool, sql, args...)
}

// it is the bed that a harness for one subject is made of.
func (b *bed) it() *bed { return b }

// count counts rows: of "messages where seq > 3", say.
func (b *bed) count(rows string, args ...any) int {
	return ask[int](b, "select count(*) from "+rows, args...)
}

// claim takes the lease for a fold of all messages, and returns the change that would commit it.
func (b *bed) claim(chatID uuid.UUID) brief.Change {
	b.t.Helper()
	lease := foldLease(chatID)
	claimed, _, err := b.work.Claim(b.t.Context(), lease)
	mustBe(b.t, tuple(err, claimed), tuple(nil, work.Taken), "claim")
	snapshot, found, err := b.briefs.Read(b.t.Context(), chatID, math.MaxInt32)
	mustBe(b.t, tuple(err, found), tuple(nil, true), "read")
	return changeOf(chatID, lease, snapshot)
}

func foldLease(chatID uuid.UUID) work.Lease {
	return work.Lease{Kind: work.Fold, Key: chatID, ChatID: chatID, Token: uuid.New(), Duration: time.Minute}
}

// changeOf covers all messages of a snapshot.
func changeOf(chatID uuid.UUID, lease work.Lease, snapshot brief.Snapshot) brief.Change {
	change := brief.Change{ChatID: chatID, Lease: lease, Planned: snapshot, Draft: brief.Draft{Summary: "They talked.", Tokens: 3}}
	change.Plan = brief.Plan{SeqFrom: snapshot.Brief.CoveredSeq + 1, SeqTo: snapshot.Brief.CoveredSeq}
	for _, m := range snapshot.Messages {
		change.Plan.SeqTo = max(change.Plan.SeqTo, m.Seq)
		change.Plan.LastSummarizedMessageID = m.ID
		if m.Role == memory.RoleUser {
			change.Plan.Turns++
		}
	}
	change.Stats = brief.CallStats{Mode: brief.ModeInline, PromptRef: "built-in@1", Model: "test", Calls: 1}
	return change
}

func (b *bed) commit(change brief.Change) (bool, error) {
	return b.briefs.Commit(b.t.Context(), change, func(brief.Counters) bool { return false })
}

// noJob stands for what inserts a job that no test asks for.
func noJob(context.Context, pgx.Tx, work.Job) error { return nil }

// mustCommit commits a change, which must succeed.
func (b *bed) mustCommit(change brief.Change) {
	b.t.Helper()
	mustBe(b.t, must(b.commit(change))(b.t), true, "commit")
}

// briefRow is what tests compare of a chat's brief.
type briefRow struct {
	Version, CoveredSeq         int64
	PendingTokens, PendingTurns int
	Leased                      bool
	Summary                     string
}

func (b *bed) brief(chatID uuid.UUID) briefRow {
	b.t.Helper()
	rows := rowsOf[briefRow](b, `select version, covered_seq, pending_tokens, pending_turns, throughline.is_at_work('fold', chat_id),
		brief ->> 'global_summary'
		from conversation_briefs where chat_id = $1`, chatID)
	mustBe(b.t, len(rows), 1, "briefs of the chat")
	return rows[0]
}

// rowsOf reads rows as the server, whose columns are a struct's fields in their order.
func rowsOf[T any](in interface{ it() *bed }, sql string, args ...any) []T {
	b := in.it()
	rows := must(b.pool.Query(b.t.Context(), sql, args...))(b.t)
	return must(pgx.CollectRows(rows, pgx.RowToStructByPos[T]))(b.t)
}

// checkCounters compares the counters that triggers maintain with the rows, for all chats.
func (b *bed) checkCounters() {
	b.t.Helper()
	wrong := ask[int](b, `
		select count(*) from chats c join conversation_briefs b on b.chat_id = c.id
		  cross join lateral (select count(*) as n, coalesce(max(seq), 0) as last,
		      coalesce(sum(token_count) filter (where seq > b.covered_seq), 0) as tokens,
		      count(*) filter (where role = 'user' and token_count > 0) as all_turns,
		      count(*) filter (where seq > b.covered_seq and role = 'user' and token_count > 0) as turns
		    from messages m where m.chat_id = c.id) real
		 where (c.message_count, c.turn_count, b.pending_tokens, b.pending_turns) is distinct from (real.n, real.all_turns, real.tokens, real.turns)
		    or c.last_seq < real.last`)
	is(b.t, wrong, 0, "the counters of … chats are wrong")
}

// place is a database that tests use one after the other, with the server's pool on it: most tests take less time than a
// clone of the template, and less than new connections need to plan what triggers do.
type place struct {
	db           testkit.Database
	pool, server *pgxpool.Pool
	// wiper deletes a test's rows, without triggers.
	wiper *pgx.Conn
}

// places are the ones that no test uses now.
var places = make(chan place, 64)

// anyPlace is a place for the test alone, until it ends.
func anyPlace(t *testing.T) place {
	t.Helper()
	var p place
	select {
	case p = <-places:
	default:
		p = newPlace(t)
	}
	t.Cleanup(func() {
		if !t.Failed() && p.wipe(t) {
			places <- p
		}
	})
	return p
}

// lasting is a test whose database outlives it.
type lasting struct{ testing.TB }

func (lasting) Cleanup(do func()) { testkit.AtEnd(do) }

func newPlace(t *testing.T) place {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it outlives the test
	p := place{db: testkit.NewDatabase(lasting{t})}
	p.pool, p.server = openPool(t, p.db, p.db.DSN, 20), openPool(t, p.db, p.db.ServerDSN, 20)
	p.wiper = must(pgx.Connect(ctx, p.db.AdminDSN))(t)
	testkit.AtEnd(func() {
		p.pool.Close()
		p.server.Close()
		_ = p.wiper.Close(ctx) // the tests are over
	})
	noError(t, errOf(p.wiper.Exec(ctx, "set session_replication_role = replica")))
	return p
}

// wipe deletes all rows, unless somebody is at work yet.
func (p place) wipe(t *testing.T) bool {
	const everyRow = `do $$ declare name regclass; begin
		for name in select oid from pg_class where relkind = 'r' and relname <> 'river_migration'
		  and relnamespace::regnamespace::text in ('public', 'auth', 'realtime', 'river') loop
		  execute format('delete from %s', name);
		end loop; end $$`
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if p.pool.Stat().AcquiredConns()+p.server.Stat().AcquiredConns() > 0 {
		return false
	}
	_, err := p.wiper.Exec(ctx, everyRow)
	return err == nil
}

// difference is empty for equal values: nil and an empty slice are equal.
func difference[T any](got, want T) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Exporter(func(reflect.Type) bool { return true }))
}

// is says so when something is otherwise than wanted.
func is[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if diff := difference(got, want); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}

// mustBe is is, and ends the test: the rest would make no sense.
func mustBe[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if diff := difference(got, want); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}

// wantFault says so when something was not refused for this reason.
func wantFault(t testing.TB, err error, reason fault.Code, what string, args ...any) {
	t.Helper()
	if fault.CodeOf(err) != reason {
		t.Errorf("%s: %v, want %s", fmt.Sprintf(what, args...), err, reason)
	}
}

// faultOf is the details of an error of the contract, which must have this code.
func faultOf(t testing.TB, err error, code fault.Code) map[string]any {
	known, ok := errors.AsType[*fault.Error](err)
	require.Truef(t, ok && known.Code == code, "refused with %v, want %s", err, code)
	return known.Details
}

// noError ends the test for an error.
func noError(t testing.TB, err error) {
	require.NoError(t, err)
}

// must is the value of a call that must succeed: must(call())(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		noError(t, err)
		return value
	}
}

// fine says so when something failed.
func fine(t testing.TB, err error, what string, args ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// tuple is several values to compare at once.
func tuple(columns ...any) []string {
	texts := make([]string, len(columns))
	for i, column := range columns {
		texts[i] = fmt.Sprint(column)
	}
	return texts
}

// errOf is the error of a call whose value does not matter.
func errOf[T any](_ T, err error) error { return err }

func errOf2[A, B any](_ A, _ B, err error) error { return err }
