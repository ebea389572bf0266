package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// Each condition of the compare-and-set refuses on its own, and then nothing is written.
func TestCommitComparesBeforeItSets(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for what, spoil := range map[string]string{
		"version": "update conversation_briefs set version = version + 1 where chat_id = $1",
		"place": `update conversation_briefs set brief = jsonb_set(brief, '{last_summarized_message_id}', to_jsonb(gen_random_uuid()))
			where chat_id = $1`,
		"edited message":        "update messages set content = 'Something else.' where chat_id = $1 and seq = 1",
		"edited answered":       "update messages set reply_to = null where chat_id = $1 and seq = 2",
		"deleted message":       "delete from messages where chat_id = $1 and seq = 2",
		"lease lost":            "update throughline.work set lease_token = gen_random_uuid() where key = $1",
		"lease cleared":         "update throughline.work set lease_token = null, lease_until = null where key = $1",
		"the chat":              "delete from chats where id = $1",
		"nothing":               "select $1::uuid",
		"a new message":         "insert into messages (chat_id, role, content) values ($1, 'user', 'And another thing.')",
		"metadata of a message": `update messages set metadata = '{"starred": true}' where chat_id = $1`,
		"a lease that ran out":  "update throughline.work set lease_until = now() - interval '1 hour' where key = $1",
	} {
		chatID := b.newChat(3)
		change := b.claim(chatID, brief.KindFold)
		b.exec(spoil, chatID)
		ran := false
		won, err := b.briefs.Commit(t.Context(), change, func(context.Context, pgx.Tx, brief.Counters) error { ran = true; return nil })
		harmless := map[string]bool{"nothing": true, "a new message": true, "metadata of a message": true, "a lease that ran out": true}[what]
		is(t, tuple(err, won, ran), tuple(nil, harmless, harmless), "%s: won …, ran", what)
		is(t, b.count("conversation_brief_revisions where chat_id = $1", chatID) == 1, harmless, "%s: a revision", what)
		is(t, b.count("turn_index where chat_id = $1", chatID) == 3, harmless, "%s: turns in the index", what)
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
	change.JobID = ask[int64](b, `insert into river.river_job (kind, queue, max_attempts, args, state) values ('fold_brief', 'memory', 1, '{}',
		'running') returning id`)
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
	got := b.brief(chatID)
	is(t, tuple(got.Version, got.Leased, b.count("conversation_brief_revisions")), tuple(0, true, 0), "the brief is %+v", got)
	const job = "select state || coalesce(metadata #>> '{output,result}', '') from river.river_job"
	is(t, ask[string](b, job), "running", "the job")
	b.mustCommit(change)
	is(t, ask[string](b, job), "completeddone", "the job")
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
	pool := must(pgxpool.NewWithConfig(b.t.Context(), config))(b.t)
	b.t.Cleanup(pool.Close)
	b.briefs, b.work, b.turns.pool = NewBriefs(pool), NewWork(pool), pool
	return counted
}

// A claim is one round trip and what it reads another, so the brief is never locked while our own code runs. A commit is two.
func TestRoundTripsOfAFold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(4)
	counted := b.countTrips()
	change := b.claim(chatID, brief.KindFold)
	is(t, counted.since(), "1 batches of 3 statements, 1 queries", "a claim")
	b.mustCommit(change)
	is(t, counted.since(), "1 batches of 7 statements, 1 queries", "a commit")
}

// Deleting a chat or its owner wins against everything that is running in it, and nothing of it reappears.
func TestDeletionRaces(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for round := range 100 {
		b.user = b.newUser()
		chatID := b.newChat(3)
		change, running := b.claim(chatID, brief.KindFold), turnIn(chatID, "A reply is under way.")
		b.start(running)
		calls := []func(){ // lost or won, both are fine
			func() { _, _ = b.commit(change) },
			func() { _, _ = b.turns.SaveReply(t.Context(), b.user, finished(running, "Just in time.")) },
			func() { _, _ = b.turns.StartTurn(t.Context(), b.user, turnIn(chatID, "One more.")) },
		}
		together(t, len(calls)+1, func(n int) error {
			switch {
			case n < len(calls):
				calls[n]()
				return nil
			case round%2 == 0:
				return errOf(b.pool.Exec(t.Context(), "delete from chats where id = $1", chatID))
			default:
				return <-b.deleteUser()
			}
		})
		mustBe(t, ask[int](b, `select (select count(*) from chats) + (select count(*) from messages)
			+ (select count(*) from conversation_briefs) + (select count(*) from conversation_brief_revisions)`), 0, "round %d: rows came back", round)
	}
}
