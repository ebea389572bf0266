package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

type size struct {
	rows          int // messages
	sharedBuffers string
	samples       int // of each statement
	vacuumed      int // one row in so many is changed before the vacuum
	erased        int // chats
	users         int // of the routing
}

var (
	full = size{rows: 200_000, sharedBuffers: "256MB", samples: 400, vacuumed: 20, erased: 20, users: 200_000}
	tiny = size{rows: 2000, sharedBuffers: "64MB", samples: 3, vacuumed: 20, erased: 2, users: 5000}
)

// database holds one layout.
type database struct {
	server string    // the address that the server connects to
	admin  *pgx.Conn // superuser: prepares and inspects, is never measured
}

// withDatabase lends a database, a copy of the cluster's empty project, to work, and drops it. Each statement on
// databases is a transaction of its own, as Postgres requires.
func withDatabase(ctx context.Context, p *kit.Postgres, name string, work func(*database) error) (err error) {
	home, err := pgx.Connect(ctx, p.Cluster.DSN(localpg.Superuser, "template1"))
	if err != nil {
		return err
	}
	defer func() { _ = home.Close(context.WithoutCancel(ctx)) }() // nothing of it is left to do
	if err := kit.Exec(ctx, home, "create database "+name+" template postgres", "grant all on database "+name+" to postgres"); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, kit.Exec(context.WithoutCancel(ctx), home, "drop database "+name+" with (force)"))
	}()
	admin, err := pgx.Connect(ctx, p.Cluster.DSN(localpg.Superuser, name))
	if err != nil {
		return err
	}
	return errors.Join(work(&database{server: p.Cluster.DSN("postgres", name), admin: admin}), admin.Close(context.WithoutCancel(ctx)))
}

// do runs statements as the superuser.
func (d *database) do(ctx context.Context, statements ...string) error {
	return kit.Exec(ctx, d.admin, statements...)
}

// ask reads one number as the superuser.
func (d *database) ask(ctx context.Context, query string) (float64, error) {
	var n float64
	err := d.admin.QueryRow(ctx, query).Scan(&n)
	return n, err
}

const (
	chatMessages = 50 // of an ordinary chat
	userChats    = 20 // of one user
	coveredUpTo  = chatMessages - 20
	// longShare of the messages are those of one chat, number 0.
	longShare = 10
)

func (s size) chats() int  { return max(userChats, (s.rows-s.rows/longShare)/chatMessages) }
func (s size) owners() int { return max(1, s.chats()/userChats) }

// fillMessages writes in the order of time, so that the messages of a chat do not lie side by side. A chat lasts
// a month somewhere in the year, the long one the whole year.
const fillMessages = `
insert into public.messages (id, chat_id, user_id, seq, role, content, reply_to, token_count, created_at)
select md5('message-' || c || '-' || s)::uuid, md5('chat-' || c)::uuid, md5('user-' || c % $2)::uuid, s,
       case when s % 2 = 1 then 'user' else 'assistant' end, ($4::text[])[1 + (c * 31 + s) % array_length($4::text[], 1)],
       case when s % 2 = 0 then md5('message-' || c || '-' || s - 1)::uuid end, 60, at
  from (select c, s, now() - interval '1 day' - interval '30 days' * case when c = 0 then 11.0 * (1 - s::float8 / n)
                 else abs(hashint4(c)) % 1000 / 100.0 + 1 - s::float8 / n end as at
          from (select c, case when c = 0 then $5::int else $3::int end as n from generate_series(0, $1::int - 1) c) chats
         cross join lateral generate_series(1, n) s
         order by at) m`

const fillChats = `
insert into public.chats (id, user_id, title, last_seq, message_count, turn_count, last_message_at)
select md5('chat-' || c)::uuid, md5('user-' || c % $2)::uuid, 'Chat ' || c, n, n, n / 2, now()
  from (select c, case when c = 0 then $4::int else $3::int end as n from generate_series(0, $1::int - 1) c) chats`

// fillBriefs: each covers all but the last messages.
const fillBriefs = `
insert into public.conversation_briefs (chat_id, user_id, brief, brief_tokens, version, covered_seq, pending_tokens, pending_turns)
select id, user_id, jsonb_build_object('global_summary', 'The user plays the cello and practises at night.', 'last_summarized_message_id',
         md5('message-' || n || '-' || last_seq - $2)::uuid), 12, 1, last_seq - $2, 60 * $2, $2 / 2
  from (select c.*, n from generate_series(0, $1::int - 1) n join public.chats c on c.id = md5('chat-' || n)::uuid) c`

// fill writes users, chats, briefs and messages in bulk, with triggers and foreign keys off; what triggers would
// have set is written as they would have. later creates the indexes.
func fill(ctx context.Context, d *database, s size, later []string) error {
	if err := d.do(ctx, "set session_replication_role = replica", "set synchronous_commit = off", "set work_mem = '256MB'"); err != nil {
		return err
	}
	long := s.rows / longShare
	texts := make([]string, kit.Texts)
	for n := range texts {
		texts[n] = kit.Text(n)
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{kit.InsertUsers, []any{s.owners()}},
		{fillMessages, []any{s.chats(), s.owners(), chatMessages, texts, long}},
		{fillChats, []any{s.chats(), s.owners(), chatMessages, long}},
		{fillBriefs, []any{s.chats(), chatMessages - coveredUpTo}},
	} {
		if _, err := d.admin.Exec(ctx, step.query, step.args...); err != nil {
			return err
		}
	}
	if err := d.do(ctx, "reset session_replication_role", "reset synchronous_commit"); err != nil {
		return err
	}
	if err := d.do(ctx, later...); err != nil {
		return err
	}
	return d.do(ctx, "vacuum (analyze) public.chats, public.conversation_briefs, public.messages, auth.users", "checkpoint")
}
