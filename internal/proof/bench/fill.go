package main

import (
	"context"
	"crypto/md5" //nolint:gosec // names rows, protects nothing
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The kinds of chats that fill makes. Their ids follow from kind and number, here and in SQL.
const (
	shortChat = "short" // shortTurns turns, none of them folded
	longChat  = "long"  // folded but for the last shortTurns turns
	dueChat   = "due"   // just over the threshold, and never folded
)

// numbered is the id of a thing by its kind and number.
func numbered(kind string, n int) uuid.UUID {
	return md5.Sum([]byte(kind + "-" + strconv.Itoa(n))) //nolint:gosec // see the import
}

func (e *environment) shortChats() int {
	return max(1, (e.messages-e.longChats*2*e.longTurns)/(2*shortTurns))
}

// batchOfChats is what one statement of fill inserts.
type batchOfChats struct {
	kind           string
	chats, turns   int
	covered        int // the last seq that the brief covers
	summary        string
	version        int
	fromSeq, toSeq int
}

// fill writes users, chats, briefs and messages in bulk: triggers and foreign keys are off for that,
// and what the triggers would have kept is set to what they would have made of it. The full-text
// index is made anew for what is written from then on: a million messages would take it ten minutes, and a turn
// pays for its own messages alone, however many there are.
func (e *environment) fill(ctx context.Context) error {
	conn, err := e.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, statement := range []string{
		"set session_replication_role = replica", "set synchronous_commit = off",
		"create temporary table texts (n int primary key, content text, tokens int)",
		"create temporary table put_off as select indexdef from pg_indexes where indexname = 'messages_search_idx'",
		"drop index public.messages_search_idx",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := copyTexts(ctx, conn.Conn()); err != nil {
		return err
	}
	if err := e.fillTables(ctx, conn.Conn()); err != nil {
		return err
	}
	for _, statement := range []string{
		"reset session_replication_role", "reset synchronous_commit", "drop table texts",
		"do $$ begin execute (select format('%s and created_at > %L', indexdef, now()) from put_off); end $$", "drop table put_off",
		"create schema bench", "create table bench.plain (id uuid primary key, chat_id uuid not null, content text not null)",
		"grant usage on schema bench to postgres", "grant all on bench.plain to postgres",
		"vacuum (analyze) public.chats, public.messages, public.conversation_briefs", "checkpoint",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (e *environment) fillTables(ctx context.Context, conn *pgx.Conn) error {
	const users = `insert into auth.users (id, aud, role, created_at, updated_at)
		select md5('user-' || n)::uuid, 'authenticated', 'authenticated', now(), now() from generate_series(0, $1::int - 1) n`
	if _, err := conn.Exec(ctx, users, e.users); err != nil {
		return err
	}
	long := batchOfChats{
		kind: longChat, chats: e.longChats, turns: e.longTurns, covered: 2 * (e.longTurns - shortTurns),
		summary: summaryText(), version: e.longTurns / 30,
	}
	short := batchOfChats{kind: shortChat, chats: e.shortChats(), turns: shortTurns}
	due := batchOfChats{kind: dueChat, chats: e.folds, turns: dueTurns()}
	// In stripes, because the messages of one chat do not lie side by side in a real table either.
	const stripes = 2 * shortTurns
	for stripe := range stripes {
		for _, b := range []batchOfChats{long, short, due} {
			rows := 2 * b.turns
			b.fromSeq, b.toSeq = stripe*rows/stripes+1, (stripe+1)*rows/stripes
			if err := b.insertMessages(ctx, conn, e.users); err != nil {
				return err
			}
		}
	}
	for _, b := range []batchOfChats{long, short, due} {
		if err := b.insertChats(ctx, conn, e.users); err != nil {
			return err
		}
	}
	return nil
}

func (b batchOfChats) insertMessages(ctx context.Context, conn *pgx.Conn, users int) error {
	_, err := conn.Exec(ctx, `
		insert into public.messages (id, chat_id, user_id, seq, role, content, reply_to, token_count)
		select md5($1 || '-' || c || '-' || s)::uuid, md5($1 || '-' || c)::uuid, md5('user-' || c % $3)::uuid, s,
		       case when s % 2 = 1 then 'user' else 'assistant' end, t.content,
		       case when s % 2 = 0 then md5($1 || '-' || c || '-' || s - 1)::uuid end, t.tokens
		  from generate_series($4::int, $5::int) s cross join generate_series(0, $2::int - 1) c
		  join texts t on t.n = (c * 31 + s) % (select count(*) from texts)`,
		b.kind, b.chats, users, b.fromSeq, b.toSeq)
	return err
}

func (b batchOfChats) insertChats(ctx context.Context, conn *pgx.Conn, users int) error {
	_, err := conn.Exec(ctx, `
		insert into public.chats (id, user_id, title, last_seq, message_count, turn_count, last_message_at)
		select md5($1 || '-' || c)::uuid, md5('user-' || c % $3)::uuid, 'Chat ' || c, 2 * $4::int, 2 * $4::int, $4::int, now()
		  from generate_series(0, $2::int - 1) c`,
		b.kind, b.chats, users, b.turns)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `
		insert into public.conversation_briefs (chat_id, user_id, brief, brief_tokens, version, covered_seq, pending_tokens, pending_turns)
		select c.id, c.user_id,
		       jsonb_build_object('global_summary', $2::text, 'last_summarized_message_id',
		         (select m.id from public.messages m where m.chat_id = c.id and m.seq = $4)),
		       $3, $5, $4, rest.tokens, rest.turns
		  from generate_series(0, $6::int - 1) n
		  join public.chats c on c.id = md5($1 || '-' || n)::uuid
		 cross join lateral (
		       select coalesce(sum(m.token_count), 0) as tokens, count(*) filter (where m.role = 'user') as turns
		         from public.messages m where m.chat_id = c.id and m.seq > $4) rest`,
		b.kind, b.summary, text.Tokens(b.summary), b.covered, b.version, b.chats)
	return err
}

// copyTexts makes the messages that the chats consist of, with their true token counts.
func copyTexts(ctx context.Context, conn *pgx.Conn) error {
	const different = 64
	rows := make([][]any, different)
	for n := range rows {
		content := sampleText(n)
		rows[n] = []any{n, content, text.Tokens(content)}
	}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"texts"}, []string{"n", "content", "tokens"}, pgx.CopyFromRows(rows))
	return err
}

var sentences = []string{
	"The second movement still falls apart around bar forty, where the shift comes too early.",
	"I practised the scales with a metronome for twenty minutes before anything else today.",
	"My teacher thinks the bow arm is too stiff and wants long notes on open strings again.",
	"We could move the lesson to Thursday, since the hall is free then and I am not at work.",
	"A slower tempo helps, but the phrase loses its direction when I think about every note.",
	"There is a concert in six weeks, and the programme is not quite settled yet.",
	"Record yourself once a week and write down one thing that became better and one that did not.",
	"The left hand is fine; what gets tired is the shoulder, mostly in the last ten minutes.",
}

// text is a message of some 60 tokens.
func sampleText(n int) string {
	const length = 4
	said := make([]string, length)
	for i := range said {
		said[i] = sentences[(n*3+i*5+n/8)%len(sentences)]
	}
	return strings.Join(said, " ")
}

// summaryText is a brief of some 300 tokens in which nothing is said twice.
func summaryText() string {
	var b strings.Builder
	for i := range 14 {
		b.WriteString("On day " + strconv.Itoa(i+1) + " the user worked on piece " + strconv.Itoa(100+7*i) + ": " + strings.ToLower(sentences[i%len(sentences)][:40]) + ". ")
	}
	return strings.TrimSpace(b.String())
}

// dueTurns is how many turns bring a chat over the threshold with room for none more.
func dueTurns() int {
	tokens, turns := 0, 0
	for tokens <= memory.DefaultLimits().ChunkThreshold*21/20 {
		tokens += text.Tokens(sampleText(2*turns)) + text.Tokens(sampleText(2*turns+1))
		turns++
	}
	return turns
}
