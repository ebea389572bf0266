package main

import (
	"context"
	"crypto/md5" //nolint:gosec // names rows, protects nothing
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/uuid"
)

const (
	chatMessages = 50 // of an ordinary chat
	userChats    = 20 // of one user
	coveredUpTo  = chatMessages - 20
	// longShare of the messages are those of one chat, number 0.
	longShare = 10
)

func (s size) chats() int { return max(userChats, (s.rows-s.rows/longShare)/chatMessages) }
func (s size) owners() int {
	return max(1, s.chats()/userChats)
}

// named is the id of a thing by its kind and number, here and in SQL.
func named(kind string, n int) uuid.UUID {
	return md5.Sum([]byte(kind + "-" + strconv.Itoa(n))) //nolint:gosec // see the import
}

// fillMessages writes in the order of time, in which the messages of one chat are not side by side. Every chat
// lasts a month somewhere in the year, the long one the whole year.
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

// fill writes users, chats, briefs and messages in bulk: triggers and foreign keys are off for that, and what
// they would have kept is written as they would have. later are the indexes.
func fill(ctx context.Context, d *database, s size, later []string) error {
	if err := d.do(ctx, "set session_replication_role = replica", "set synchronous_commit = off", "set work_mem = '256MB'"); err != nil {
		return err
	}
	long := s.rows / longShare
	for _, step := range []struct {
		query string
		args  []any
	}{
		{`insert into auth.users (id, aud, role, created_at, updated_at)
			select md5('user-' || n)::uuid, 'authenticated', 'authenticated', now(), now() from generate_series(0, $1::int - 1) n`, []any{s.owners()}},
		{fillMessages, []any{s.chats(), s.owners(), chatMessages, texts(), long}},
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

// texts are messages of some 60 tokens.
func texts() []string {
	sentences := []string{
		"The second movement still falls apart around bar forty, where the shift comes too early.",
		"I practised the scales with a metronome for twenty minutes before anything else today.",
		"My teacher thinks the bow arm is too stiff and wants long notes on open strings again.",
		"We could move the lesson to Thursday, since the hall is free then and I am not at work.",
		"A slower tempo helps, but the phrase loses its direction when I think about every note.",
		"There is a concert in six weeks, and the programme is not quite settled yet.",
		"Record yourself once a week and write down one thing that became better and one that did not.",
	}
	all := make([]string, 64)
	for n := range all {
		said := make([]string, 4)
		for i := range said {
			said[i] = sentences[(n*3+i*5+n/8)%len(sentences)]
		}
		all[n] = strings.Join(said, " ")
	}
	return all
}

// tokensOf counts as the server does.
func tokensOf(content string) int { return text.Tokens(content) }
