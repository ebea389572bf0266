package postgres

import (
	"context"
	"crypto/md5"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/move"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/supabase"
)

// cells are two databases, of which the first has the users A and B of supabase/tests, with a row in each table that has users.
type cells struct{ a, b *bed }

func newCells(t *testing.T) cells {
	t.Helper()
	c := cells{newOwnBed(t), newOwnBed(t)}
	rows, err := os.ReadFile("../../supabase/tests/rows.psql")
	noError(t, err)
	tx := c.a.begin()
	mustExec(t, tx, "create function pg_temp.id(name text) returns uuid language sql immutable as 'select md5(name)::uuid'")
	mustExec(t, tx, "insert into auth.users (id, aud, role) select pg_temp.id(n), 'authenticated', 'authenticated' from unnest(array['A', 'B']) n")
	_, err = tx.Conn().PgConn().Exec(t.Context(), string(rows)).ReadAll()
	noError(t, err)
	mustExec(t, tx, "delete from throughline.departed")
	mustExec(t, tx, "update throughline.accounts set issuer = 'https://issuer.example', subject = 'user_2x' where user_id = pg_temp.id('A')")
	noError(t, tx.Commit(t.Context()))
	return c
}

// idOf is a user's id in supabase/tests.
func idOf(name string) uuid.UUID { return md5.Sum([]byte(name)) }

// mover moves A. Through other pools it can be made to die.
func mover(from, to *pgxpool.Pool, cell string) *move.Move {
	return &move.Move{From: from, To: to, User: idOf("A"), Cell: cell, Pending: func(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
		return supabase.Pending(ctx, pool)
	}}
}

// allOf are the rows of a user, by table, with all columns.
func (b *bed) allOf(user uuid.UUID) map[string]string {
	all := map[string]string{}
	for table := range b.rowsOf(user) {
		all[table] = ask[string](b, "select string_agg(to_jsonb(t)::text, E'\\n' order by to_jsonb(t)::text) from "+table+" t where user_id = $1", user)
	}
	return all
}

// Every row arrives as it was, with what is computed of it, and nothing stays but where the user went. Other users stay. On the way
// back it is the same, also into a database that has erased the user.
func TestMoveCarriesEveryRow(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	c.a.exec("insert into throughline.deleted_messages (key) values (gen_random_uuid())")
	before, others, tables := c.a.allOf(idOf("A")), c.a.allOf(idOf("B")), len(c.a.rowsOf(idOf("A")))
	is(t, tables > 18, true, "tables with rows: %v", c.a.rowsOf(idOf("A")))
	delete(before, "throughline.work")
	noError(t, (&Accounts{Pool: c.b.pool}).Erase(t.Context(), idOf("A")))

	noError(t, mover(c.a.pool, c.b.pool, "b").Run(t.Context()))
	arrived := c.b.allOf(idOf("A"))
	account := arrived["throughline.accounts"]
	is(t, strings.Contains(account, `"auth_id": null`) && strings.Contains(account, "user_2x"), true, "the account there: %s", account)
	arrived["throughline.accounts"] = before["throughline.accounts"]
	is(t, arrived, before, "the rows there")
	is(t, c.a.rowsOf(idOf("A")), map[string]int{"throughline.departed": 1}, "what is left")
	is(t, ask[string](c.a, "select why || ' ' || cell from throughline.departed where user_id = $1", idOf("A")), "moved b", "the tombstone")
	is(t, c.a.allOf(idOf("B")), others, "another user")
	is(t, c.b.count("throughline.deleted_messages"), 1, "digests of deleted messages")

	noError(t, mover(c.b.pool, c.a.pool, "a").Run(t.Context()))
	is(t, c.a.allOf(idOf("A")), before, "the rows that are back, with their login")
	is(t, c.b.rowsOf(idOf("A")), map[string]int{"throughline.departed": 1}, "what is left there")
}

// Jobs do not move: all that was due here is found due there.
func TestSweepFindsWhatWasDue(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	c.a.exec(`insert into chats (id, user_id) values ($1, $2)`, idOf("long"), idOf("A"))
	c.a.exec(`update conversation_briefs set pending_tokens = 90000, pending_turns = 90, extract_due_at = '-infinity', topics = 'on', indexed_seq = 1
		where chat_id = $1`, idOf("long"))
	c.a.exec(`update topics set stale = true`)
	due := func(b *bed) (found []work.Job) {
		maintenance := NewMaintenance(b.pool, memory.DefaultLimits())
		maintenance.ExtractAfter(time.Minute)
		maintenance.KeepTopics("on", "m", 1)
		for _, job := range must(maintenance.Due(t.Context()))(t) {
			if job.ChatID == idOf("long") || job.ChatID == idOf("chat of A") {
				found = append(found, job)
			}
		}
		turns, _, err := (&TurnVectors{Pool: b.pool}).Owners(t.Context(), "m", 10)
		noError(t, err)
		memories, _, err := (&MemoryVectors{Pool: b.pool}).Owners(t.Context(), "m", 10)
		noError(t, err)
		for _, id := range append(turns, memories...) {
			if id == idOf("A") || id == idOf("chat of A") {
				found = append(found, work.Job{Name: "vectors", ChatID: id})
			}
		}
		return found
	}
	here := due(c.a)
	is(t, len(here) >= 6, true, "due here: %v", here)
	noError(t, mover(c.a.pool, c.b.pool, "b").Run(t.Context()))
	is(t, due(c.b), here, "due there")
}

// death is that of a process before a statement: from then on none of its statements is sent.
type death struct{ left, sent atomic.Int64 }

func (d *death) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if d.sent.Add(1) > d.left.Load() {
		dead, cancel := context.WithCancel(ctx)
		cancel()
		return dead
	}
	return ctx
}
func (d *death) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// pool connects as a pool does, until the death.
func (d *death) pool(b *bed) *pgxpool.Pool {
	config := b.pool.Config()
	config.ConnConfig.Tracer = d
	return must(pgxpool.NewWithConfig(b.t.Context(), config))(b.t)
}

// serves reports whether a database would answer the user.
func (b *bed) serves() bool {
	return ask[bool](b, `select exists (select from throughline.accounts where user_id = $1)
		and not exists (select from throughline.departed where user_id = $1 and why in ('moving', 'erased'))`, idOf("A"))
}

// Before whichever statement the process dies, never do two cells answer, no row is lost, and the next move ends it.
func TestMoveThatDies(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	c.a.exec("delete from throughline.work")
	before := c.a.allOf(idOf("A"))
	last := int64(1 << 40)
	for at := last; at > 0; {
		d := &death{}
		d.left.Store(at)
		from, to := d.pool(c.a), d.pool(c.b)
		err := mover(from, to, "b").Run(t.Context())
		from.Close()
		to.Close()
		is(t, err == nil, at > 1<<30, "before statement %d: %v", at, err)
		is(t, c.a.serves() && c.b.serves(), false, "before statement %d: both answer", at)
		noError(t, mover(c.a.pool, c.b.pool, "b").Run(t.Context()))
		is(t, c.b.serves() && !c.a.serves(), true, "after statement %d: the other one answers", at)
		noError(t, mover(c.b.pool, c.a.pool, "a").Run(t.Context()))
		is(t, c.a.allOf(idOf("A")), before, "after statement %d", at)
		if at > 1<<30 {
			at, last = d.sent.Load(), d.sent.Load()
		}
		at--
		for testing.Short() && at < last-8 && at%10 != 0 { // the last ones commit
			at--
		}
	}
}

// refusedMove wants a move to fail for one reason, and to have left nothing: no fence, and nothing there.
func (c cells) refusedMove(m *move.Move, reason string) {
	c.a.t.Helper()
	there := c.b.allOf(m.User)
	err := m.Run(c.a.t.Context())
	is(c.a.t, err != nil && strings.Contains(err.Error(), reason), true, "%v, want: %s", err, reason)
	is(c.a.t, c.a.count("throughline.departed where why = 'moving'"), 0, "%s: fences", reason)
	is(c.a.t, c.b.allOf(m.User), there, "%s: what is there", reason)
}

func TestMoveIsRefused(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	here := mover(c.a.pool, c.b.pool, "b")
	unknown := mover(c.a.pool, c.b.pool, "b")
	unknown.User = uuid.New()
	c.refusedMove(unknown, "no such user")
	c.refusedMove(mover(c.a.pool, c.a.pool, "b"), "the target has an account of this user: it is this database")
	away := must(pgxpool.New(t.Context(), "postgres://postgres@127.0.0.1:1/x"))(t)
	defer away.Close()
	c.refusedMove(mover(c.a.pool, away, "b"), "the target: ")

	unable := strings.Replace(c.b.db.Name, "test_", "unable_", 1)
	admin := testkit.Connect(t, c.b.db.AdminDSN)
	testkit.Exec(t, admin, "create role "+unable+" login bypassrls; grant usage on schema public, throughline, auth, supabase_migrations to "+unable+
		"; grant all on all tables in schema public, throughline, supabase_migrations to "+unable)
	defer func() { testkit.Exec(t, admin, "drop owned by "+unable+"; drop role "+unable) }()
	powerless := must(pgxpool.New(t.Context(), strings.Replace(c.b.db.Direct(), "//postgres@", "//"+unable+"@", 1)))(t)
	defer powerless.Close()
	c.refusedMove(mover(c.a.pool, powerless, "b"), "may not set session_replication_role")

	for _, difference := range []struct {
		at                 *bed
		make, undo, reason string
	}{
		{c.a, "update memories set embedding = array_fill(0, array[512])::vector, embedding_model = 'x'",
			"update memories set embedding = null, embedding_model = null",
			"another EMBEDDING_MODEL than x"},
		{c.b, "alter table chats add mood text", "alter table chats drop mood", "public.chats has other columns"},
		{c.b, "update supabase_migrations.schema_migrations set name = 'x' where name = 'usage'",
			"update supabase_migrations.schema_migrations set name = 'usage' where name = 'x'", "migrations are pending at the target: 20261124000122_usage"},
		{c.a, "create table notes (chat_id uuid references chats on delete cascade); insert into notes select id from chats", "drop table notes",
			"rows of notes, which is not Throughline's"},
		{c.a, "create table guarded (user_id uuid references throughline.accounts); insert into guarded select user_id from chats", "drop table guarded",
			"rows of guarded, which is not Throughline's"},
		{c.a, "insert into throughline.departed (user_id, why, cell) select user_id, 'moved', 'c' from throughline.accounts", "delete from throughline.departed",
			"the user is moved to cell c"},
		{c.a, "insert into throughline.departed (user_id, why) select user_id, 'erased' from throughline.accounts", "delete from throughline.departed", "was erased"},
	} {
		difference.at.exec(difference.make)
		c.refusedMove(here, difference.reason)
		difference.at.exec(difference.undo)
	}
	c.b.exec("insert into throughline.departed (user_id, why, cell) values ($1, 'moving', 'a')", idOf("A"))
	c.refusedMove(here, "leaving the target")

}

// A refusal also ends the fence of a move that died, and deletes its copy.
func TestRefusalAfterADeath(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	for copied, where := range map[string]string{"": "before the copy", "x": "after it"} {
		c.a.exec("insert into throughline.departed (user_id, why, cell) values ($1, 'moving', 'b')", idOf("A"))
		if copied != "" {
			c.b.exec("insert into throughline.accounts (user_id) values ($1)", idOf("A"))
			c.b.exec("insert into chats (user_id) values ($1)", idOf("A"))
			c.b.exec("insert into throughline.departed (user_id, why) values ($1, 'moving')", idOf("A"))
		}
		c.a.exec("update messages set status = 'streaming', role = 'assistant', lease_until = now() + interval '1 day' where user_id = $1", idOf("A"))
		is(t, strings.Contains(mover(c.a.pool, c.b.pool, "b").Run(t.Context()).Error(), "still streams"), true, "the reason")
		is(t, tuple(c.a.serves(), c.b.rowsOf(idOf("A"))), tuple(true, map[string]int{}), "%s", where)
	}
}

// A move waits for replies and leases, and no job takes another lease meanwhile.
func TestMoveWaitsForWork(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	for busy, rest := range map[string]string{
		"update messages set status = 'streaming', role = 'assistant', lease_until = now() + interval '1 day'"://
		"update messages set status = 'complete', lease_until = null",
		"update throughline.work set lease_until = now() + interval '1 day'": "update throughline.work set lease_until = now()",
	} {
		c.a.exec(busy)
		c.refusedMove(mover(c.a.pool, c.b.pool, "b"), "after 0s a reply of the user still streams, or a job works for them")
		waiting, done := mover(c.a.pool, c.b.pool, "b"), make(chan error, 1)
		waiting.Wait = time.Minute
		go func() { done <- waiting.Run(t.Context()) }()
		testkit.Eventually(t, "the fence is there", func() bool { return c.a.count("throughline.departed where why = 'moving'") > 0 })
		claimed := ask[string](c.a, "select state from throughline.claim_work('extract', $1, $2, gen_random_uuid(), 60, 0, null)", idOf("chat of A"), idOf("A"))
		is(t, claimed, "gone", "a claim of other work")
		c.a.exec(rest)
		noError(t, testkit.Receive(t, "the move", done))
		noError(t, mover(c.b.pool, c.a.pool, "a").Run(t.Context()))
		c.a.exec(`insert into throughline.work (kind, key, user_id, lease_token, lease_until)
			select 'fold', id, user_id, gen_random_uuid(), now() from chats on conflict do nothing`)
	}
}

// What was admitted before the fence waits for the locks and leaves no row behind: it is told
// where the user is, or that the row is gone.
func TestLateWritesFindNoUser(t *testing.T) {
	t.Parallel()
	c := newCells(t)
	late := principalOf(t, idOf("A"))
	late.Begun = true // a fence does not stop it
	slow := c.b.begin()
	mustExec(t, slow, "lock table throughline.deleted_messages") // when all rows are copied
	moved := make(chan error, 1)
	go func() { moved <- mover(c.a.pool, c.b.pool, "b").Run(t.Context()) }()
	c.b.awaitBlocked(1)

	writes := map[string]func() error{
		"first message": func() error { return errOf(c.a.turns.StartTurn(t.Context(), late, firstTurn("Late."))) },
		"message":       func() error { return errOf(c.a.turns.StartTurn(t.Context(), late, turnIn(idOf("chat of A"), "Late."))) },
		"usage": func() error {
			return errOf(c.a.pool.Exec(t.Context(), "insert into usage_events (user_id, purpose) values ($1, 'fold')", idOf("A")))
		},
	}
	for name, sql := range map[string]string{
		"chat": "insert into chats (user_id) values ($1)", "memory": "insert into memories (user_id, content) values ($1, 'Late.')",
		"title": "update chats set title = 'Late'", "pin": "update messages set pinned = true",
	} {
		writes[name] = func() error { return c.a.as(late, strings.ReplaceAll(sql, "$1", "'"+idOf("A").String()+"'")) }
	}
	ended := make(chan string, len(writes))
	for name, write := range writes {
		go func() { ended <- name + ": " + fmt.Sprint(write()) }()
	}
	c.a.awaitBlocked(len(writes))
	noError(t, slow.Commit(t.Context()))
	noError(t, testkit.Receive(t, "the move", moved))
	said := map[string]string{}
	for range writes {
		name, outcome, _ := strings.Cut(testkit.Receive(t, "a late write", ended), ": ")
		said[name] = outcome
	}
	for name, outcome := range map[string]string{"first message": "wrong_cell", "message": "wrong_cell", "usage": "TL007", "chat": "TL007",
		"memory": "memories_user_id_fkey",
		"title":  "<nil>", "pin": "<nil>"} {
		is(t, strings.Contains(said[name], outcome), true, "%s: %s", name, said[name])
	}
	is(t, c.a.rowsOf(idOf("A")), map[string]int{"throughline.departed": 1}, "what is left")
}
