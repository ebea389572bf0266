package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
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
		change := b.claim(chatID)
		b.exec(spoil, chatID)
		ran := false
		won, err := b.briefs.Commit(t.Context(), change, func(brief.Counters) bool { ran = true; return false })
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
	change := b.claim(chatID)
	change.JobID = ask[int64](b, `insert into river.river_job (kind, queue, max_attempts, args, state) values ('fold_brief', 'memory', 1, '{}',
		'running') returning id`)
	broken := errors.New("no next job")
	briefs := &Briefs{Pool: b.pool, Insert: func(ctx context.Context, tx pgx.Tx, job work.Job) error {
		var role string
		if err := tx.QueryRow(ctx, "select current_user").Scan(&role); err != nil || role != "postgres" || job.ChatID != chatID {
			t.Errorf("it runs as %s, %v, for %+v", role, err, job)
		}
		return broken
	}}
	_, err := briefs.Commit(t.Context(), change, func(brief.Counters) bool { return true })
	assert.ErrorIsf(t, err, broken, "commit: %v", err)
	got := b.brief(chatID)
	is(t, tuple(got.Version, got.Leased, b.count("conversation_brief_revisions")), tuple(0, true, 0), "the brief is %+v", got)
	const job = "select state || coalesce(metadata #>> '{output,result}', '') from river.river_job"
	is(t, ask[string](b, job), "running", "the job")
	b.mustCommit(change)
	is(t, ask[string](b, job), "completeddone", "the job")
}

// trips counts the round trips to Postgres: batches with their statements, and queries. A query that begins a transaction
// travels with its batch and is counted as a statement.
type trips struct {
	batches, statements, queries atomic.Int64
	sent                         []string // the names of the statements
}

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}
func (c *trips) TraceBatchQuery(_ context.Context, _ *pgx.Conn, sent pgx.TraceBatchQueryData) {
	c.statements.Add(1)
	name, _, _ := strings.Cut(strings.TrimPrefix(sent.SQL, "-- name: "), " ")
	c.sent = append(c.sent, name)
}
func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}
func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// since returns the counts since the last call.
func (c *trips) since() string {
	return fmt.Sprintf("%d batches of %d statements, %d queries", c.batches.Swap(0), c.statements.Swap(0), c.queries.Swap(0))
}

// countTrips counts the round trips of the stores of turns and briefs from now on.
func (b *bed) countTrips() *trips {
	counted := &trips{}
	config, _, err := ParseDSN(b.db.DSN)
	require.NoError(b.t, err)
	config.ConnConfig.Tracer = counted
	pool := must(pgxpool.NewWithConfig(b.t.Context(), config))(b.t)
	b.t.Cleanup(pool.Close)
	b.briefs, b.work, b.turns.pool = &Briefs{Pool: pool, Insert: noJob}, &Work{Pool: pool}, pool
	return counted
}

// A claim is one round trip and what it reads another, so the brief is never locked while our own code runs. A commit is two.
func TestRoundTripsOfAFold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(4)
	counted := b.countTrips()
	change := b.claim(chatID)
	is(t, counted.since(), "1 batches of 5 statements, 1 queries", "a claim")
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
		change, running := b.claim(chatID), turnIn(chatID, "A reply is under way.")
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

// awaitBlocked waits until that many backends of the test's database wait for a lock.
func (b *bed) awaitBlocked(n int) {
	testkit.Eventually(b.t, "somebody waits for a lock", func() bool {
		return b.count(`pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) >= n
	})
}

// waitsFor makes a call that has to wait for what a transaction has locked. Once it does, the transaction makes its last
// statements and commits. It returns the error of the call.
func (b *bed) waitsFor(tx pgx.Tx, call func() error, last ...func()) error {
	b.t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	b.awaitBlocked(1)
	for _, do := range last {
		do()
	}
	noError(b.t, tx.Commit(b.t.Context()))
	return testkit.Receive(b.t, "the call that waited ends", done)
}

// together makes so many calls at once, which must succeed.
func together(t testing.TB, calls int, call func(n int) error) {
	failed := make([]error, calls)
	var all sync.WaitGroup
	for n := range failed {
		all.Go(func() { failed[n] = call(n) })
	}
	all.Wait()
	noError(t, errors.Join(failed...))
}

func (s shelf) clear(chatID uuid.UUID) api.Cleared {
	return must(s.ClearChat(s.t.Context(), s.user, chatID))(s.t)
}

// lastRevision returns kind, range, turns and summary of a chat's latest revision.
func (s shelf) lastRevision(chatID uuid.UUID) string {
	return ask[string](s, `select concat_ws(' ', version, kind, seq_from, seq_to, turns, '"' || global_summary || '"', prompt_mode, prompt_ref, model = '')
		from conversation_brief_revisions where chat_id = $1 order by version desc limit 1`, chatID)
}

func TestClearedChatBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(2)
	s.mustCommit(s.claim(chatID))
	running := turnIn(chatID, "And a third.")
	s.start(running)
	before := s.brief(chatID)
	_, err := s.ClearChat(t.Context(), s.user, chatID)
	is(t, faultOf(t, err, fault.GenerationInProgress)["message_id"], any(running.MessageID), "the reply that runs")
	is(t, s.brief(chatID), before, "the brief")
	s.reply(running, "Noted.")
	want := api.Cleared{ChatID: chatID, ClearedSeq: 6, BriefVersion: 2}
	for _, name := range []string{"at first", "a second time"} {
		is(t, s.clear(chatID), want, "%s", name)
	}
	is(t, s.brief(chatID), (briefRow{Version: 2, CoveredSeq: 6}), "the brief")
	is(t, s.lastRevision(chatID), `2 clear 5 6 1 "" none none t`, "the revision")
	is(t, ask[string](s, "select concat_ws(' ', cleared_seq, brief_tokens, brief::text) from conversation_briefs"),
		`6 0 {"global_summary": "", "last_summarized_message_id": null}`, "the brief")
	next := turnIn(chatID, "Who are you?")
	started := s.start(next)
	is(t, tuple(len(started.Buffer), started.Brief.Summary, started.PendingTurns), tuple(0, "", 0), "the next turn begins with %+v", started)
	s.reply(next, "A model.")
	s.mustCommit(s.claim(chatID))
	is(t, s.lastRevision(chatID), `3 fold 7 8 1 "They talked." inline built-in@1 f`, "the next fold")
	is(t, len(must(s.ListMessages(t.Context(), s.user, chatID, api.MessagesQuery{}))(t).Messages), 8, "messages are stored")
	s.checkCounters()
	// A clear empties a brief that covers all messages. An empty chat stays as it is.
	is(t, s.clear(chatID), api.Cleared{ChatID: chatID, ClearedSeq: 8, BriefVersion: 4}, "of covered messages")
	is(t, s.lastRevision(chatID), `4 clear 9 8 0 "" none none t`, "the revision")
	is(t, s.brief(chatID), briefRow{Version: 4, CoveredSeq: 8}, "the brief")
	empty := s.emptyChat()
	is(t, s.clear(empty), api.Cleared{ChatID: empty}, "of an empty chat")
	is(t, s.count("conversation_brief_revisions where chat_id = $1", empty), 0, "revisions of it")
}

// revisions reads one page, as a line for each version, and whether there are more.
func (s shelf) revisions(chatID uuid.UUID, query api.BriefRevisionsQuery) (lines string, more bool) {
	page := must(s.ListBriefRevisions(s.t.Context(), s.user, chatID, query))(s.t)
	var all []string
	for _, r := range page.Revisions {
		text := "-"
		if r.Text != nil {
			text = fmt.Sprintf("%q", *r.Text)
		}
		assert.Falsef(s.t, r.CreatedAt.IsZero(), "version %d has no date", r.Version)
		undone := ""
		if r.UndoneBy != nil {
			undone = fmt.Sprintf(" undone by %d", *r.UndoneBy)
		}
		all = append(all, fmt.Sprintf("%d %s %d-%d %d %s %s %s%s", r.Version, r.Kind, r.SeqFrom, r.SeqTo, r.Turns, text, r.PromptRef, r.Model, undone))
	}
	return strings.Join(all, "\n"), page.HasMore
}

// Versions come the latest first, in pages that meet. An erasure takes texts and leaves the rest.
func TestRevisionsOfABrief(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(2)
	lines, more := s.revisions(chatID, api.BriefRevisionsQuery{Limit: 9})
	assert.Truef(t, lines == "" && !more, "before the first fold: %q, %v", lines, more)
	s.mustCommit(s.claim(chatID))
	turn := s.exchange(turnIn(chatID, "And a third."), "Noted.")
	s.mustCommit(s.claim(chatID))
	first, second := `1 fold 1-4 2 "They talked." built-in@1 test`, `2 fold 5-6 1 "They talked." built-in@1 test`
	for _, c := range []struct {
		query api.BriefRevisionsQuery
		want  string
		more  bool
	}{
		{api.BriefRevisionsQuery{Limit: 2}, second + "\n" + first, false},
		{api.BriefRevisionsQuery{Limit: 1}, second, true},
		{api.BriefRevisionsQuery{Limit: 1, BeforeVersion: new(int64(2))}, first, false},
		{api.BriefRevisionsQuery{Limit: 1, BeforeVersion: new(int64(1))}, "", false},
	} {
		lines, more := s.revisions(chatID, c.query)
		assert.Truef(t, lines == c.want && more == c.more, "%+v: more %v\n%s", c.query, more, lines)
	}
	noError(t, s.DeleteMessage(t.Context(), s.user, turn.UserMessageID))
	is(t, s.brief(chatID), briefRow{Version: 3, CoveredSeq: 4, PendingTokens: s.brief(chatID).PendingTokens, Summary: "They talked."}, "the brief")
	is(t, len(s.claim(chatID).Planned.Messages), 1, "the next fold reads … messages")
	s.clear(chatID)
	want := `4 clear 5-6 0 "" none ` + `
3 rollback 5-4 0 "They talked." none ` + `
2 fold 5-6 1 - built-in@1 test undone by 3
1 fold 1-4 2 "They talked." built-in@1 test`
	lines, _ = s.revisions(chatID, api.BriefRevisionsQuery{Limit: 9})
	assert.Equal(t, want, lines, "after a deletion and a clear:\n")
}
