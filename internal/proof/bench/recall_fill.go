package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// recalling is the size of measureRecall. All its chats are the first user's.
type recalling struct {
	turns      []int // of the chats that are searched; questions are sent in the first one
	others     int   // chats beside them
	otherTurns int   // of each of these

	samples, firstDeltas int
	embedding            time.Duration // of a question
}

// fillTalks writes the chats, has them indexed as the sweep does, and their vectors made as embed_turns does, for the
// first user's memories as well. It returns those that are searched. Only the first run needs it.
func (e *environment) fillTalks(ctx context.Context) ([]talk, error) {
	if e.talks != nil {
		return e.talks, nil
	}
	var all []talk
	for n := range len(e.recall.turns) + e.recall.others {
		turns := e.recall.otherTurns
		if n < len(e.recall.turns) {
			turns = e.recall.turns[n]
		}
		t := talk{number: n, turns: turns}
		t.conversation = e.conversation(t.kind(), 0)
		all = append(all, t)
	}
	began := time.Now()
	if err := e.writeTalks(ctx, all); err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	if err := e.indexTalks(ctx, all); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if err := errors.Join(e.embedTalks(ctx, all), e.embedMemories(ctx, bagOfWords{})); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	e.say("recall: filled in %.1f s", time.Since(began).Seconds())
	e.talks = all[:len(e.recall.turns)]
	return e.talks, kit.Exec(ctx, e.admin, "vacuum (analyze) public.turn_index, public.memories")
}

func (e *environment) writeTalks(ctx context.Context, all []talk) error {
	conn, err := e.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := kit.Exec(ctx, conn, "set session_replication_role = replica"); err != nil {
		return err
	}
	for _, t := range all {
		if err := t.write(ctx, conn.Conn()); err != nil {
			return err
		}
	}
	return kit.Exec(ctx, conn, "reset session_replication_role", "vacuum (analyze) public.messages, public.chats, public.conversation_briefs")
}

// write writes the chat as fill does. Its turns are an hour apart, and the last one ended an hour ago.
func (t talk) write(ctx context.Context, conn *pgx.Conn) error {
	const bytesPerToken = 4 // about
	rows := make([][]any, 2*t.turns)
	for n := range rows {
		seq, role, repliesTo := n+1, "user", any(nil)
		if n%2 == 1 {
			role, repliesTo = "assistant", t.messageID(n)
		}
		content := t.message(seq)
		said := time.Now().Add(-time.Duration(t.turns-n/2) * time.Hour)
		rows[n] = []any{t.messageID(seq), t.id, t.user, seq, role, content, repliesTo, len(content) / bytesPerToken, said}
	}
	columns := []string{"id", "chat_id", "user_id", "seq", "role", "content", "reply_to", "token_count", "created_at"}
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"public", "messages"}, columns, pgx.CopyFromRows(rows)); err != nil {
		return err
	}
	const users = 1 // the first one's
	chat := batchOfChats{kind: t.kind(), chats: 1, turns: t.turns, covered: t.covered(), summary: summaryText(), version: 1 + t.turns/30}
	return chat.insertChats(ctx, conn, users)
}

// indexTalks indexes what the briefs cover.
func (e *environment) indexTalks(ctx context.Context, all []talk) error {
	for _, t := range all {
		for further := true; further; {
			if err := e.admin.QueryRow(ctx, "select throughline.index_chat($1, $2)", t.id, t.covered()).Scan(&further); err != nil {
				return err
			}
		}
	}
	return nil
}

// embedTalks makes the vectors.
func (e *environment) embedTalks(ctx context.Context, all []talk) error {
	vectors := recall.NewVectors(recall.VectorsConfig{
		Store: postgres.NewEmbeddings(e.pool, recall.VectorSize), Embedder: bagOfWords{}, Logger: quiet(), Metrics: metrics.New(),
	})
	for _, t := range all {
		for paused := true; paused; {
			done, err := vectors.EmbedTurns(ctx, t.id)
			if err == nil && done.Rest > 0 {
				err = errors.New("the embedder failed")
			}
			if err != nil {
				return err
			}
			paused = done.Paused
		}
	}
	return nil
}
