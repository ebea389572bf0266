package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// recalling is the size of measureRecall. All its chats are one user's.
type recalling struct {
	turns      []int // of the chats that are searched
	others     int   // chats beside them
	otherTurns int   // of each of these
	asked      int   // of the others, the chats in which questions are sent
	askedTurns int   // of each of these

	samples, firstDeltas int
	commits              int           // folds with the index, and as many without
	embedding            time.Duration // of a question
}

// talks are the chats of measureRecall, and what their index takes.
type talks struct {
	searched, asked   []talk
	bare, withVectors indexSize
}

// newTalks returns the chats, not yet written: those that are searched first, then the others.
func (e *environment) newTalks() []talk {
	sizes := append([]int{}, e.recall.turns...)
	for n := range e.recall.others {
		turns := e.recall.otherTurns
		if n < e.recall.asked {
			turns = e.recall.askedTurns
		}
		sizes = append(sizes, turns)
	}
	all := make([]talk, len(sizes))
	for n, turns := range sizes {
		kind := "recall-" + strconv.Itoa(n)
		all[n] = talk{conversation: e.conversation(kind, 0), kind: kind, number: n, turns: turns}
	}
	return all
}

// fillTalks writes the chats, has them indexed as the sweep does, and their vectors made as embed_turns does. Only the
// first run needs it.
func (e *environment) fillTalks(ctx context.Context) error {
	if e.talks != nil {
		return nil
	}
	all := e.newTalks()
	began := time.Now()
	if err := e.writeTalks(ctx, all); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	written := time.Now()
	bare, err := e.indexTalks(ctx, all)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	indexed := time.Now()
	whole, err := e.embedTalks(ctx, all)
	if err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	e.say("recall: %d turns written in %.1f s, indexed in %.1f s, with vectors in %.1f s",
		whole.turns, written.Sub(began).Seconds(), indexed.Sub(written).Seconds(), time.Since(indexed).Seconds())
	searched := len(e.recall.turns)
	e.talks = &talks{searched: all[:searched], asked: all[searched:][:e.recall.asked], bare: bare, withVectors: whole}
	return nil
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

// write writes the chat as fill does. Its segments are a day apart, and the last one ended an hour ago.
func (t talk) write(ctx context.Context, conn *pgx.Conn) error {
	const bytesPerToken = 4 // about
	day := func(turn int) time.Duration { return time.Duration(turn/turnsOfSegment) * 24 * time.Hour }
	begin := time.Now().Add(-time.Hour - day(t.turns) - time.Duration(t.turns)*time.Minute)
	rows := make([][]any, 0, 2*t.turns)
	add := func(role, content string, repliesTo any) {
		seq, turn := len(rows)+1, len(rows)/2
		said := begin.Add(day(turn) + time.Duration(turn)*time.Minute)
		rows = append(rows, []any{t.messageID(seq), t.id, t.principal.UserID, seq, role, content, repliesTo, len(content) / bytesPerToken, said})
	}
	for n := range t.turns {
		question, reply := t.turn(n)
		add("user", question, nil)
		add("assistant", reply, t.messageID(2*n+1))
	}
	columns := []string{"id", "chat_id", "user_id", "seq", "role", "content", "reply_to", "token_count", "created_at"}
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"public", "messages"}, columns, pgx.CopyFromRows(rows)); err != nil {
		return err
	}
	const users = 1 // the first one's
	chat := batchOfChats{kind: t.kind, chats: 1, turns: t.turns, covered: t.covered(), summary: summaryText(), version: 1 + t.turns/30}
	return chat.insertChats(ctx, conn, users)
}

// indexTalks indexes what the briefs cover.
func (e *environment) indexTalks(ctx context.Context, all []talk) (indexSize, error) {
	for _, t := range all {
		for further := true; further; {
			if err := e.admin.QueryRow(ctx, "select throughline.index_chat($1, $2)", t.id, t.covered()).Scan(&further); err != nil {
				return indexSize{}, err
			}
		}
	}
	return e.sizeOfIndex(ctx)
}

// embedTalks makes the vectors.
func (e *environment) embedTalks(ctx context.Context, all []talk) (indexSize, error) {
	vectors := recall.NewVectors(recall.VectorsConfig{Store: postgres.NewEmbeddings(e.pool, recall.VectorSize), Embedder: bagOfWords{}, Logger: quiet(), Metrics: metrics.New()})
	for _, t := range all {
		for {
			done, err := vectors.EmbedTurns(ctx, t.id)
			if err != nil {
				return indexSize{}, err
			}
			if done.Rest > 0 {
				return indexSize{}, errors.New("the embedder failed")
			}
			if !done.Paused {
				break
			}
		}
	}
	return e.sizeOfIndex(ctx)
}

// indexSize is what turn_index takes.
type indexSize struct{ turns, table, indexes int64 } // turns, then bytes

func (s indexSize) perTurn() float64 { return float64(s.table+s.indexes) / float64(s.turns) }

// sizeOfIndex returns the size without what changes leave behind until it is used again. The second vacuum does what
// autovacuum does with a table in use, and which a full one does not: it notes which pages all may see.
func (e *environment) sizeOfIndex(ctx context.Context) (s indexSize, err error) {
	if err = kit.Exec(ctx, e.admin, "vacuum full public.turn_index", "vacuum (analyze) public.turn_index"); err != nil {
		return s, err
	}
	err = e.admin.QueryRow(ctx, `
		select (select count(*) from public.turn_index), pg_table_size('public.turn_index'), pg_indexes_size('public.turn_index')`).
		Scan(&s.turns, &s.table, &s.indexes)
	return s, err
}
