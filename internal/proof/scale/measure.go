package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// messageTables selects the tables that hold messages: the partitions, or the table itself.
const messageTables = `
select relid::oid from pg_partition_tree('public.messages') where isleaf
 union select oid from pg_class where oid = 'public.messages'::regclass and relkind = 'r'`

var layoutNotes = []string{
	"turns: the server's own statements (StartTurn, FindReply, SaveReply) as the user under RLS, with all triggers, durable at commit",
	"folds and jobs fill the full-text index of turns, not the turns that are measured; its cost per 100 000 messages is a row of its own",
	"pages touched: blocks that one statement asks for, from cache or not, planning left out; CPU and WAL are Postgres's own counts",
	"vacuum: after one message in twenty was changed; all of the table, one partition after the other",
}

// measureLayout fills a database and returns the layout's column.
func measureLayout(ctx context.Context, d *database, l layout, s size, progress io.Writer) (figures []figure, err error) {
	later, err := l.apply(ctx, d)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := fill(ctx, d, s, later); err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "%s: filled in %.0f s\n", l.name, time.Since(began).Seconds())
	for _, measure := range []func(context.Context, *database, size) ([]figure, error){
		measureSizes, measureTurns, measurePlans, measureVacuum, measureErasure, measureSearch,
	} {
		began := time.Now()
		found, err := measure(ctx, d, s)
		if err != nil {
			return nil, err
		}
		figures = append(figures, found...)
		fmt.Fprintf(progress, "%s: %s and more in %.0f s\n", l.name, found[0].what, time.Since(began).Seconds())
	}
	return figures, nil
}

func measureSizes(ctx context.Context, d *database, _ size) ([]figure, error) {
	var found []figure
	for _, f := range []struct{ what, query string }{
		{"table", "select sum(pg_table_size(relid)) / 1e6 from (" + messageTables + ") t"},
		{"indexes", "select sum(pg_indexes_size(relid)) / 1e6 from (" + messageTables + ") t"},
		{"index by user, chat and place", `select sum(pg_relation_size(indexrelid)) / 1e6 from pg_index
			where indrelid in (` + messageTables + `) and pg_get_indexdef(indexrelid) like '%(user_id, chat_id, seq%'`},
	} {
		mb, err := d.ask(ctx, f.query)
		if err != nil {
			return nil, err
		}
		found = append(found, figure{f.what, "MB", mb})
	}
	return found, nil
}

func measureTurns(ctx context.Context, d *database, s size) ([]figure, error) {
	t, done, err := newTalker(ctx, d, s)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, err := t.oneByOne(ctx, min(s.samples, 20)); err != nil { // each statement is planned a few times at first
		return nil, err
	}
	before, err := t.usage(ctx, d)
	if err != nil {
		return nil, err
	}
	took, err := t.oneByOne(ctx, s.samples)
	if err != nil {
		return nil, err
	}
	after, err := t.usage(ctx, d)
	if err != nil {
		return nil, err
	}
	rate, err := t.atOnce(ctx, clients*s.samples)
	if err != nil {
		return nil, err
	}
	n := float64(s.samples)
	return []figure{
		{"start a turn: two rows, memory read, p50", "ms", took.start.MS(.5)}, {"start a turn, p99", "ms", took.start.MS(.99)},
		{"save the reply, p50", "ms", took.save.MS(.5)}, {"save the reply, p99", "ms", took.save.MS(.99)},
		{"find a chat's latest reply, p50", "ms", took.find.MS(.5)},
		{"turns of 8 clients", "/s", rate},
		{"Postgres's CPU per turn", "ms", kit.Milliseconds(after.CPU-before.CPU) / n},
		{"WAL per turn", "kB", float64(after.wal-before.wal) / 1e3 / n},
		{"cache hits of messages and its indexes", "%", 100 * (after.hits - before.hits) / max(1, after.hits-before.hits+after.reads-before.reads)},
	}, nil
}

func measureVacuum(ctx context.Context, d *database, s size) ([]figure, error) {
	if err := d.do(ctx, "set session_replication_role = replica",
		fmt.Sprintf("update public.messages set pinned = true where hashint8(seq) %% %d = 0 and created_at < now() - interval '1 hour'", s.vacuumed),
		"reset session_replication_role", "checkpoint"); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := d.do(ctx, "vacuum (index_cleanup on) public.messages"); err != nil {
		return nil, err
	}
	whole := time.Since(began)
	pieces, err := d.ask(ctx, "select count(*) from ("+messageTables+") t")
	return []figure{{"vacuum of all messages", "s", whole.Seconds()}, {"pieces that it does one by one", "", pieces}}, err
}

// measureErasure deletes chats, and then a user with all chats, as Supabase's auth server does.
func measureErasure(ctx context.Context, d *database, s size) ([]figure, error) {
	timed := func(statement string, args ...any) (time.Duration, error) {
		began := time.Now()
		tag, err := d.admin.Exec(ctx, statement, args...)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%s: %d rows", statement, tag.RowsAffected())
		}
		return time.Since(began), err
	}
	var chats kit.Times
	for n := range s.erased {
		took, err := timed("delete from public.chats where id = $1", kit.ID("chat", s.chats()-1-n))
		if err != nil {
			return nil, err
		}
		chats = append(chats, took)
	}
	user, err := timed("delete from auth.users where id = $1", kit.ID("user", s.owners()-1))
	if err != nil {
		return nil, err
	}
	long, err := timed("delete from public.chats where id = $1", kit.ID("chat", 0))
	if err != nil && s.owners() > 1 { // with one owner, the user was its own
		return nil, err
	}
	return []figure{
		{"erase a chat of 50 messages, p50", "ms", chats.MS(.5)},
		{"erase a user of about 20 chats", "ms", kit.Milliseconds(user)},
		{"erase a chat that is a tenth of all messages", "s", long.Seconds()},
	}, nil
}

// measureSearch makes the full-text index for a tenth of the messages: a whole one takes long.
func measureSearch(ctx context.Context, d *database, s size) ([]figure, error) {
	part := max(1, s.rows/10)
	if err := d.do(ctx, fmt.Sprintf(`create table public.searched as select * from public.messages where content <> '' limit %d`, part)); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := d.do(ctx, `create index searched_idx on public.searched using gin ((array_to_tsvector(array['user ' || user_id::text])
		|| to_tsvector('throughline.words'::regconfig, left(content, 50000))))`); err != nil {
		return nil, err
	}
	took := time.Since(began)
	rows, err := d.ask(ctx, "select count(*) from public.searched")
	if err != nil {
		return nil, err
	}
	bytes, err := d.ask(ctx, "select pg_relation_size('public.searched_idx')")
	per := 100_000 / max(1, rows)
	return []figure{{"full-text index of 100 000 messages", "MB", bytes / 1e6 * per}, {"making that index", "s", took.Seconds() * per}}, err
}

// statements are those of a turn that partitions affect most: the buffer's read, and the save, which names the
// reply by id alone; and the same save if it named the chat as well.
var statements = []struct{ what, sql string }{
	{"read a chat's tail", `select m.id, m.seq, m.role, m.content, m.token_count from public.messages m
		where m.chat_id = '%[1]s' and m.seq > %[2]d order by m.seq desc limit 1000`},
	{"save by id", `update public.messages set content = 'x', status = 'complete', token_count = 1
		where id = '%[3]s' and superseded_by is null and status in ('streaming', 'interrupted', 'complete')`},
	{"save by chat and id", `update public.messages set content = 'x', status = 'complete', token_count = 1
		where chat_id = '%[1]s' and id = '%[3]s' and superseded_by is null and status in ('streaming', 'interrupted', 'complete')`},
}

// measurePlans explains the statements as the user, in an ordinary chat and in the tail of the long one, and
// measures the connection's memory afterwards.
func measurePlans(ctx context.Context, d *database, s size) ([]figure, error) {
	if err := d.do(ctx, "grant pg_read_all_stats to postgres"); err != nil { // to see its own connection's memory
		return nil, err
	}
	conn, err := pgx.Connect(ctx, d.server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was committed
	long := s.rows / longShare
	var found []figure
	for i, statement := range statements {
		reply := kit.ID("message-1", 2*(i+1)) // another one each time: what is rolled back leaves dead rows
		pages, planning, err := explain(ctx, conn, s, 1, fmt.Sprintf(statement.sql, kit.ID("chat", 1), coveredUpTo, reply))
		if err != nil {
			return nil, err
		}
		found = append(found, figure{statement.what + ": planning", "ms", planning}, figure{statement.what + ": pages touched", "", pages})
	}
	pages, _, err := explain(ctx, conn, s, 0, fmt.Sprintf(statements[0].sql, kit.ID("chat", 0), long-(chatMessages-coveredUpTo), ""))
	if err != nil {
		return nil, err
	}
	found = append(found, figure{"read the long chat's tail: pages touched", "", pages})
	var kept float64
	if err := conn.QueryRow(ctx, "select sum(total_bytes) / 1e6 from pg_backend_memory_contexts").Scan(&kept); err != nil {
		return nil, err
	}
	return append(found, figure{"memory of a connection after that", "MB", kept}), nil
}

// explain runs a statement as a chat's owner a few times, and rolls back. It returns the pages of the first run
// and the shortest planning time in milliseconds: the rest is noise.
func explain(ctx context.Context, conn *pgx.Conn, s size, chat int, statement string) (pages, planning float64, err error) {
	owner, err := s.ownerOf(chat)
	if err != nil {
		return 0, 0, err
	}
	for n := range 5 {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return 0, 0, err
		}
		var found []struct {
			Plan struct {
				Hits  float64 `json:"Shared Hit Blocks"`
				Reads float64 `json:"Shared Read Blocks"`
			} `json:"Plan"`
			Planning float64 `json:"Planning Time"`
		}
		_, err = tx.Exec(ctx, "select set_config('role', 'throughline_app', true), set_config('request.jwt.claims', $1, true)", owner.Claims)
		if err == nil {
			err = tx.QueryRow(ctx, "explain (analyze, buffers, format json) "+statement).Scan(&found)
		}
		if err := errors.Join(err, tx.Rollback(ctx)); err != nil {
			return 0, 0, err
		}
		if n == 0 {
			pages, planning = found[0].Plan.Hits+found[0].Plan.Reads, found[0].Planning
		}
		planning = min(planning, found[0].Planning)
	}
	return pages, planning, nil
}
