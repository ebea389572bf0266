package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// The kinds of chats that fill makes. Their ids follow from kind and number, see kit.ID.
const (
	shortChat = "short" // shortTurns turns, none of them folded
	longChat  = "long"  // folded but for the last shortTurns turns
	dueChat   = "due"   // just over the threshold, and never folded
	// unfoldedChat is one of longTurns turns, none of them folded.
	unfoldedChat = "unfolded"
)

func (e *environment) shortChats() int {
	return max(1, (e.messages-(e.longChats+1)*2*e.longTurns)/(2*shortTurns))
}

// batchOfChats are the chats of one kind.
type batchOfChats struct {
	kind         string
	chats, turns int
	covered      int // the last seq that the brief covers
	summary      string
	version      int
}

// fill writes users, chats, briefs and messages in bulk, with triggers and foreign keys off; what triggers would
// have set is written as they would have, but that there are turns to index: no sweep is to index them beside what is
// measured. A million messages would take it ten minutes, and a turn's cost does not depend on them.
func (e *environment) fill(ctx context.Context) error {
	conn, err := e.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = kit.Exec(ctx, conn,
		"set session_replication_role = replica", "set synchronous_commit = off",
		"create temporary table texts (n int primary key, content text, tokens int)")
	if err != nil {
		return err
	}
	if err := copyTexts(ctx, conn.Conn()); err != nil {
		return err
	}
	if err := e.fillTables(ctx, conn.Conn()); err != nil {
		return err
	}
	return kit.Exec(ctx, conn,
		"reset session_replication_role", "reset synchronous_commit", "drop table texts",
		"create schema bench", "create table bench.plain (id uuid primary key, chat_id uuid not null, content text not null)",
		"grant usage on schema bench to postgres", "grant all on bench.plain to postgres",
		"vacuum (analyze) public.chats, public.messages, public.conversation_briefs", "checkpoint")
}

func (e *environment) fillTables(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, kit.InsertUsers, e.users); err != nil {
		return err
	}
	batches := []batchOfChats{
		{kind: longChat, chats: e.longChats, turns: e.longTurns, covered: 2 * (e.longTurns - shortTurns), summary: summaryText(), version: e.longTurns / 30},
		{kind: unfoldedChat, chats: 1, turns: e.longTurns},
		{kind: shortChat, chats: e.shortChats(), turns: shortTurns},
		{kind: dueChat, chats: e.folds, turns: dueTurns()},
	}
	// In stripes, because in a real table the messages of a chat do not lie side by side either.
	const stripes = 2 * shortTurns
	for stripe := range stripes {
		for _, b := range batches {
			rows := 2 * b.turns
			if err := b.insertMessages(ctx, conn, e.users, stripe*rows/stripes+1, (stripe+1)*rows/stripes); err != nil {
				return err
			}
		}
	}
	for _, b := range batches {
		if err := b.insertChats(ctx, conn, e.users); err != nil {
			return err
		}
	}
	return nil
}

func (b batchOfChats) insertMessages(ctx context.Context, conn *pgx.Conn, users, fromSeq, toSeq int) error {
	_, err := conn.Exec(ctx, `
		insert into public.messages (id, chat_id, user_id, seq, role, content, reply_to, token_count)
		select md5($1 || '-' || c || '-' || s)::uuid, md5($1 || '-' || c)::uuid, md5('user-' || c % $3)::uuid, s,
		       case when s % 2 = 1 then 'user' else 'assistant' end, t.content,
		       case when s % 2 = 0 then md5($1 || '-' || c || '-' || s - 1)::uuid end, t.tokens
		  from generate_series($4::int, $5::int) s cross join generate_series(0, $2::int - 1) c
		  join texts t on t.n = (c * 31 + s) % (select count(*) from texts)`,
		b.kind, b.chats, users, fromSeq, toSeq)
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
		insert into public.conversation_briefs (chat_id, user_id, to_index, brief, brief_tokens, version, covered_seq, pending_tokens, pending_turns)
		select c.id, c.user_id, false,
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

// copyTexts stores the texts of the messages, with their token counts.
func copyTexts(ctx context.Context, conn *pgx.Conn) error {
	rows := make([][]any, kit.Texts)
	for n := range rows {
		content := kit.Text(n)
		rows[n] = []any{n, content, text.Tokens(content)}
	}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"texts"}, []string{"n", "content", "tokens"}, pgx.CopyFromRows(rows))
	return err
}

// summaryText returns a brief of some 300 tokens without repetition.
func summaryText() string {
	var b strings.Builder
	for i := range 14 {
		b.WriteString("On day " + strconv.Itoa(i+1) + " the user worked on piece " + strconv.Itoa(100+7*i) + ": " + strings.ToLower(kit.Sentences[i%len(kit.Sentences)][:40]) + ". ")
	}
	return strings.TrimSpace(b.String())
}

// dueTurns returns how many turns bring a chat over the threshold.
func dueTurns() int {
	tokens, turns := 0, 0
	for tokens <= memory.DefaultLimits().ChunkThreshold*21/20 {
		tokens += text.Tokens(kit.Text(2*turns)) + text.Tokens(kit.Text(2*turns+1))
		turns++
	}
	return turns
}
