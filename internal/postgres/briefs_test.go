package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/memory/brief"
)

func TestFoldOfAChat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(4)
	change := b.claim(chatID, brief.KindFold)
	snapshot := change.Planned
	if snapshot.UserID != b.user.UserID || snapshot.PendingTurns != 4 || len(snapshot.Messages) != 8 || snapshot.Messages[0].Seq != 1 {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	// Two turns stay; one more comes while the model writes.
	change.Plan.SeqTo, change.Plan.LastSummarizedMessageID = 4, snapshot.Messages[3].ID
	late := turnIn(chatID, "Meanwhile.")
	b.start(late)
	b.reply(late, "Indeed.")
	var after brief.Counters
	won, err := b.briefs.Commit(t.Context(), change, func(_ context.Context, _ pgx.Tx, counters brief.Counters) error {
		after = counters
		return nil
	})
	if err != nil || !won {
		t.Fatalf("commit: %v, %v", won, err)
	}
	got := b.brief(chatID)
	if got.Version != 1 || got.CoveredSeq != 4 || got.PendingTurns != 3 || got.Leased || got.Stale || got.Summary != "They talked." {
		t.Errorf("the brief is %+v", got)
	}
	if after != (brief.Counters{BriefTokens: 3, PendingTokens: got.PendingTokens, PendingTurns: 3}) {
		t.Errorf("the fold heard of %+v", after)
	}
	if revision := ask[string](b, "select kind || seq_from || seq_to || turns || prompt_mode || global_summary from conversation_brief_revisions where version = 1"); revision != "fold144inlineThey talked." {
		t.Errorf("the revision is %s", revision)
	}
	b.checkCounters()
}

func TestClaimRefuses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(2)
	lease := brief.Lease{Token: uuid.New(), Duration: time.Minute}
	claim := func(chatID uuid.UUID, lease brief.Lease) brief.ClaimResult {
		t.Helper()
		snapshot, claimed, err := b.briefs.Claim(t.Context(), chatID, brief.KindFold, lease, 3)
		if want := map[brief.ClaimResult]int{brief.ClaimTaken: 3}[claimed]; err != nil || len(snapshot.Messages) != want {
			t.Fatalf("%d messages, want %d, %v", len(snapshot.Messages), want, err)
		}
		return claimed
	}
	if got := claim(uuid.New(), lease); got != brief.ClaimGone {
		t.Errorf("of no chat: %v", got)
	}
	tx := b.begin()
	mustExec(t, tx, "select pg_advisory_xact_lock(hashtextextended('brief:' || $1::text, 0))", chatID)
	if got := claim(chatID, lease); got != brief.ClaimBusy || b.brief(chatID).Leased {
		t.Errorf("while another holds the lock: %v, leased %v", got, b.brief(chatID).Leased)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := claim(chatID, lease); got != brief.ClaimTaken {
		t.Errorf("free: %v", got)
	}
	if got := claim(chatID, lease); got != brief.ClaimTaken {
		t.Errorf("by whoever holds the lease: %v", got)
	}
	other := brief.Lease{Token: uuid.New(), Duration: time.Minute}
	if got := claim(chatID, other); got != brief.ClaimBusy {
		t.Errorf("while the lease runs: %v", got)
	}
	b.exec("update conversation_briefs set lease_until = now() - interval '1 second'")
	if got := claim(chatID, other); got != brief.ClaimTaken {
		t.Errorf("after the lease: %v", got)
	}
}

func TestLeaseIsOfOneToken(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(2)
	change := b.claim(chatID, brief.KindFold)
	other := brief.Lease{Token: uuid.New(), Duration: time.Hour}
	if held, err := b.briefs.Renew(t.Context(), chatID, other); err != nil || held {
		t.Errorf("renewed with another token: %v, %v", held, err)
	}
	if err := b.briefs.Release(t.Context(), chatID, other); err != nil || !b.brief(chatID).Leased {
		t.Errorf("released with another token: %v", err)
	}
	longer := brief.Lease{Token: change.Lease.Token, Duration: time.Hour}
	if held, err := b.briefs.Renew(t.Context(), chatID, longer); err != nil || !held {
		t.Errorf("renew: %v, %v", held, err)
	}
	if !ask[bool](b, "select lease_until > now() + interval '50 minutes' from conversation_briefs") {
		t.Error("the lease is as short as before")
	}
	if err := b.briefs.Release(t.Context(), chatID, change.Lease); err != nil || b.brief(chatID).Leased {
		t.Errorf("release: %v", err)
	}
	if held, err := b.briefs.Renew(t.Context(), chatID, change.Lease); err != nil || held {
		t.Errorf("renewed what was released: %v, %v", held, err)
	}
	if held, err := b.briefs.Renew(t.Context(), uuid.New(), change.Lease); err != nil || held {
		t.Errorf("renewed for no chat: %v, %v", held, err)
	}
}

// Each condition of the compare-and-set refuses on its own, and then nothing is written.
func TestCommitComparesBeforeItSets(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for what, spoil := range map[string]string{
		"version":               "update conversation_briefs set version = version + 1 where chat_id = $1",
		"place":                 "update conversation_briefs set brief = jsonb_set(brief, '{last_summarized_message_id}', to_jsonb(gen_random_uuid())) where chat_id = $1",
		"edited message":        "update messages set content = 'Something else.' where chat_id = $1 and seq = 1",
		"edited answered":       "update messages set reply_to = null where chat_id = $1 and seq = 2",
		"deleted message":       "delete from messages where chat_id = $1 and seq = 2",
		"lease lost":            "update conversation_briefs set lease_token = gen_random_uuid() where chat_id = $1",
		"lease cleared":         "update conversation_briefs set lease_token = null, lease_until = null where chat_id = $1",
		"the chat":              "delete from chats where id = $1",
		"nothing":               "select $1::uuid",
		"a new message":         "insert into messages (chat_id, role, content) values ($1, 'user', 'And another thing.')",
		"metadata of a message": `update messages set metadata = '{"starred": true}' where chat_id = $1`,
		"a lease that ran out":  "update conversation_briefs set lease_until = now() - interval '1 hour' where chat_id = $1",
	} {
		chatID := b.newChat(3)
		change := b.claim(chatID, brief.KindFold)
		b.exec(spoil, chatID)
		ran := false
		won, err := b.briefs.Commit(t.Context(), change, func(context.Context, pgx.Tx, brief.Counters) error { ran = true; return nil })
		harmless := map[string]bool{"nothing": true, "a new message": true, "metadata of a message": true, "a lease that ran out": true}[what]
		if err != nil || won != harmless || ran != harmless {
			t.Errorf("%s: won %v, ran %v, %v", what, won, ran, err)
		}
		if n := ask[int](b, "select count(*) from conversation_brief_revisions where chat_id = $1", chatID); (n == 1) != harmless {
			t.Errorf("%s: %d revisions", what, n)
		}
	}
	b.checkCounters()
}

// The caller's part of the transaction counts as well: if it fails nothing is written, and the job is not
// completed. It runs as the server.
func TestCommitIsOneTransaction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	change := b.claim(chatID, brief.KindFold)
	change.JobID = ask[int64](b, `insert into river.river_job (kind, queue, max_attempts, args, state) values ('fold_brief', 'memory', 1, '{}', 'running') returning id`)
	broken := errors.New("no next job")
	_, err := b.briefs.Commit(t.Context(), change, func(ctx context.Context, tx pgx.Tx, _ brief.Counters) error {
		var role string
		if err := tx.QueryRow(ctx, "select current_user").Scan(&role); err != nil || role != "postgres" {
			t.Errorf("it runs as %s, %v", role, err)
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("commit: %v", err)
	}
	if got := b.brief(chatID); got.Version != 0 || !got.Leased || ask[int](b, "select count(*) from conversation_brief_revisions") != 0 {
		t.Errorf("the brief is %+v", got)
	}
	const job = "select state || coalesce(metadata #>> '{output,result}', '') from river.river_job"
	if got := ask[string](b, job); got != "running" {
		t.Errorf("the job is %s", got)
	}
	b.mustCommit(change)
	if got := ask[string](b, job); got != "completeddone" {
		t.Errorf("the job is %s", got)
	}
}

// trips counts the round trips to Postgres: batches with their statements, and queries. A query that begins a transaction
// travels with its batch and is counted as a statement.
type trips struct{ batches, statements, queries atomic.Int64 }

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}
func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	c.statements.Add(1)
}
func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}
func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// since returns what was counted since the last call.
func (c *trips) since() string {
	return fmt.Sprintf("%d batches of %d statements, %d queries", c.batches.Swap(0), c.statements.Swap(0), c.queries.Swap(0))
}

// countTrips counts the round trips of the stores of turns and briefs from now on.
func (b *bed) countTrips() *trips {
	b.t.Helper()
	counted := &trips{}
	config, _, err := ParseDSN(b.db.DSN)
	if err != nil {
		b.t.Fatal(err)
	}
	config.ConnConfig.Tracer = counted
	pool, err := pgxpool.NewWithConfig(b.t.Context(), config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	b.briefs, b.turns.pool = NewBriefs(pool), pool
	return counted
}

// A claim is one round trip, so the brief is never locked while our own code runs. A commit is two.
func TestRoundTripsOfAFold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(4)
	counted := b.countTrips()
	change := b.claim(chatID, brief.KindFold)
	if batches, queries, statements := counted.batches.Load(), counted.queries.Load(), counted.statements.Load(); batches != 1 || queries != 0 || statements != 3 {
		t.Errorf("a claim is %d batches of %d statements and %d queries", batches, statements, queries)
	}
	b.mustCommit(change)
	if batches, queries, statements := counted.batches.Load(), counted.queries.Load(), counted.statements.Load(); batches != 2 || queries != 1 || statements != 9 {
		t.Errorf("with its commit it is %d batches of %d statements and %d queries", batches, statements, queries)
	}
}

// A fold writes a row of the index for each turn, so a trigger for each row is most of its commit.
func TestTurnsEnterTheIndexWithoutTriggers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const forEachInsertedRow = 1 | 4 // of pg_trigger.tgtype
	if names := ask[string](b, `select coalesce(string_agg(tgname, ' '), '') from pg_trigger
		where tgrelid = 'turn_index'::regclass and not tgisinternal and tgtype & $1 = $1`, forEachInsertedRow); names != "" {
		t.Errorf("a row that is inserted fires %s", names)
	}
}

// Two folds that begin at the same place cannot both be written, even if all locks failed.
func TestNoMessageIsFoldedTwice(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(3)
	b.mustCommit(b.claim(chatID, brief.KindFold))
	b.exec("insert into messages (chat_id, role, content) values ($1, 'user', 'More.')", chatID)
	change := b.claim(chatID, brief.KindFold)
	change.Plan.SeqFrom = 1
	if won, err := b.commit(change); won || sqlState(err) != uniqueViolation {
		t.Errorf("won %v, %v", won, err)
	}
}

// After an edit or a deletion of a covered message a rebuild reads what is left, and removes the text from
// every earlier revision.
func TestRebuildRedactsRevisions(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(4)
	first := b.claim(chatID, brief.KindFold)
	first.Summary = "They talked about a secret."
	b.mustCommit(first)
	b.exec("delete from messages where chat_id = $1 and seq = 3", chatID)
	if got := b.brief(chatID); !got.Stale {
		t.Fatalf("the brief is %+v", got)
	}
	rebuild := b.claim(chatID, brief.KindRebuild)
	if n := len(rebuild.Planned.Messages); n != 7 {
		t.Errorf("the rebuild reads %d messages", n)
	}
	rebuild.Plan.SeqTo = first.Plan.SeqTo
	b.mustCommit(rebuild)
	if got := b.brief(chatID); got.Stale || got.Version != 2 || got.CoveredSeq != 8 || got.Summary != "They talked." {
		t.Errorf("the brief is %+v", got)
	}
	if n := ask[int](b, "select count(*) from conversation_brief_revisions where global_summary is not null"); n != 1 {
		t.Errorf("%d revisions still have their text", n)
	}
	if ask[bool](b, "select exists (select from conversation_brief_revisions r, conversation_briefs b where (r::text || b::text) like '%secret%')") {
		t.Error("the word is still there")
	}
	b.checkCounters()
}

// Counters stay right whenever messages are edited and deleted around folds and rebuilds.
func TestCountersUnderRandomChanges(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chats := []uuid.UUID{b.newChat(3), b.newChat(3)}
	failed := make([]error, 8)
	var all sync.WaitGroup
	for worker := range failed {
		random := rand.New(rand.NewPCG(3, uint64(worker)))
		all.Go(func() {
			for range 40 {
				failed[worker] = errors.Join(failed[worker], b.changeSomething(random, chats[random.IntN(len(chats))]))
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Error(err)
	}
	b.checkCounters()
}

func (b *bed) changeSomething(random *rand.Rand, chatID uuid.UUID) error {
	ctx := b.t.Context()
	one := "(select id from messages where chat_id = $1 and status <> 'streaming' order by random() limit 1)"
	var sql string
	switch random.IntN(8) {
	case 0:
		sql = "update messages set content = content || ' and more' where id = " + one
	case 1:
		sql = "delete from messages where id = " + one
	case 2:
		sql = "insert into messages (chat_id, role, content) select $1, 'user', 'line ' || n from generate_series(1, 3) n"
	case 3, 4:
		lease := brief.Lease{Token: uuid.New(), Duration: time.Minute}
		snapshot, claimed, err := b.briefs.Claim(ctx, chatID, brief.KindFold, lease, 2000)
		if err != nil || claimed != brief.ClaimTaken {
			return err
		}
		if len(snapshot.Messages) <= 2 || snapshot.Brief.Stale {
			return b.briefs.Release(ctx, chatID, lease)
		}
		if won, err := b.commit(changeOf(chatID, brief.KindFold, lease, snapshot)); err != nil || won {
			return err
		}
		return b.briefs.Release(ctx, chatID, lease)
	default:
		turn := turnIn(chatID, "Hello again.")
		started, err := b.turns.StartTurn(ctx, b.user, turn)
		if err != nil || !started.Started {
			return err
		}
		_, err = b.turns.SaveReply(ctx, b.user, finished(turn, "Hello, you."))
		return err
	}
	if _, err := b.pool.Exec(ctx, sql, chatID); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// Deleting a chat or its owner wins against everything that is running in it, and nothing of it reappears.
func TestDeletionRaces(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	admin, err := pgx.Connect(t.Context(), b.db.AdminDSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	for round := range 100 {
		b.user = b.newUser()
		chatID := b.newChat(3)
		change := b.claim(chatID, brief.KindFold)
		running := turnIn(chatID, "A reply is under way.")
		b.start(running)
		var all sync.WaitGroup
		all.Go(func() { _, _ = b.commit(change) })                                                           // lost or won, both are fine
		all.Go(func() { _, _ = b.turns.SaveReply(t.Context(), b.user, finished(running, "Just in time.")) }) // likewise
		all.Go(func() { _, _ = b.turns.StartTurn(t.Context(), b.user, turnIn(chatID, "One more.")) })        // likewise
		if round%2 == 0 {
			b.exec("delete from chats where id = $1", chatID)
		}
		if round%2 == 1 {
			if _, err := admin.Exec(t.Context(), "delete from auth.users where id = $1", b.user.UserID); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		all.Wait()
		if n := ask[int](b, `select (select count(*) from chats) + (select count(*) from messages)
			+ (select count(*) from conversation_briefs) + (select count(*) from conversation_brief_revisions)`); n != 0 {
			t.Fatalf("round %d: %d rows came back", round, n)
		}
	}
}
