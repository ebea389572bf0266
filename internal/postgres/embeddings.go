package postgres

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Embeddings is the store of the turns' vectors.
type Embeddings struct {
	pool       *pgxpool.Pool
	dimensions int
}

var _ recall.VectorStore = (*Embeddings)(nil)

// NewEmbeddings returns the store. dimensions are those that the model is asked for.
func NewEmbeddings(pool *pgxpool.Pool, dimensions int) *Embeddings {
	return &Embeddings{pool: pool, dimensions: dimensions}
}

// ReadScale returns a model's scale, and false if it was not measured yet.
func (e *Embeddings) ReadScale(ctx context.Context, model string) (recall.Scale, bool, error) {
	rows, err := try(ctx, e.pool, queries.ReadScale, model)
	if err != nil || len(rows) == 0 {
		return recall.Scale{}, false, failed("read scale", err)
	}
	return recall.Scale{P50: rows[0].UnrelatedP50, P99: rows[0].UnrelatedP99, Languages: rows[0].Languages, List: rows[0].Sentences}, true, nil
}

// SaveScale keeps a scale unless there is one of the same list of sentences.
func (e *Embeddings) SaveScale(ctx context.Context, model string, scale recall.Scale) error {
	return failed("save scale", retry(ctx, e.pool, func() error {
		return dbsqlc.New(e.pool).SaveScale(ctx, dbsqlc.SaveScaleParams{
			Model: model, Dims: e.dimensions, UnrelatedP50: scale.P50, UnrelatedP99: scale.P99, Languages: scale.Languages, Sentences: scale.List,
		})
	}))
}

// BareTurns returns turns without a vector of the model, with the rights of the chat's owner.
func (e *Embeddings) BareTurns(ctx context.Context, chatID uuid.UUID, model string, after int64, most int) ([]recall.BareTurn, error) {
	var turns []recall.BareTurn
	_, err := sendAsOwner(ctx, e.pool, chatID, "read turns without vectors", func(batch *pgx.Batch) {
		turns = nil
		params := dbsqlc.ReadBareTurnsParams{ChatID: chatID, Model: model, AfterSeq: after, Most: most}
		queueMany(batch, queries.ReadBareTurns, params, func(row dbsqlc.ReadBareTurnsRow) {
			if len(turns) == 0 || turns[len(turns)-1].Seq != row.TurnSeq {
				turns = append(turns, recall.BareTurn{Seq: row.TurnSeq, Words: row.Words})
			}
			last := &turns[len(turns)-1]
			last.Messages = append(last.Messages, memory.Message{Role: memory.Role(row.Role), Content: row.Content})
		})
	})
	return turns, err
}

// SaveVectors stores vectors of turns whose words are unchanged, with the rights of the chat's owner.
func (e *Embeddings) SaveVectors(ctx context.Context, chatID uuid.UUID, model string, vectors []recall.TurnVector) (int, error) {
	params := dbsqlc.SaveVectorsParams{ChatID: chatID, Model: model}
	for _, v := range vectors {
		params.Seqs, params.Words = append(params.Seqs, v.Seq), append(params.Words, v.Words)
		params.Embeddings = append(params.Embeddings, vectorText(v.Vector))
	}
	var saved int64
	_, err := sendAsOwner(ctx, e.pool, chatID, "save vectors", func(batch *pgx.Batch) {
		queueExec(batch, queries.LockOwnBrief, chatID)
		queue(batch, queries.SaveVectors, params).Exec(counts(&saved))
	})
	return int(saved), err
}

// FinishVectors completes a job, unless the chat has turns without a vector of the model. Whoever indexes turns waits for the
// lock of the brief.
func (e *Embeddings) FinishVectors(ctx context.Context, chatID uuid.UUID, model string, jobID int64, done recall.Embedded) (bool, error) {
	output, err := json.Marshal(done)
	if err != nil {
		return false, err
	}
	err = inTx(ctx, e.pool, func(tx pgx.Tx) error {
		bare := false
		batch := &pgx.Batch{}
		queue(batch, queries.ActAsChatOwner, chatID)
		queueExec(batch, queries.LockOwnBrief, chatID)
		queueMany(batch, queries.ReadBareTurns, dbsqlc.ReadBareTurnsParams{ChatID: chatID, Model: model, Most: 1}, func(dbsqlc.ReadBareTurnsRow) { bare = true })
		queueActAsServer(batch)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		if bare {
			return errOvertaken
		}
		return dbsqlc.New(tx).CompleteJob(ctx, dbsqlc.CompleteJobParams{Output: output, ID: jobID})
	})
	return committed("finish vectors", err)
}

// vectorText writes a vector as pgvector reads it. None is written as zeros, which are near to nothing: the turn is done.
func vectorText(vector []float32) string {
	var b strings.Builder
	b.Grow(8 * recall.VectorSize)
	b.WriteByte('[')
	for n := range recall.VectorSize {
		if n > 0 {
			b.WriteByte(',')
		}
		if n < len(vector) {
			b.WriteString(strconv.FormatFloat(float64(vector[n]), 'g', 6, 32)) // a half has 4 digits
		} else {
			b.WriteByte('0')
		}
	}
	b.WriteByte(']')
	return b.String()
}

// BareChats returns chats with turns without a vector of the model.
func (e *Embeddings) BareChats(ctx context.Context, model string, most int) (fresh, outdated []uuid.UUID, err error) {
	rows, err := dbsqlc.New(e.pool).FindBareChats(ctx, dbsqlc.FindBareChatsParams{Model: model, Most: most})
	for _, row := range rows {
		if row.Outdated {
			outdated = append(outdated, row.ChatID)
		} else {
			fresh = append(fresh, row.ChatID)
		}
	}
	return fresh, outdated, failed("find chats without vectors", err)
}

// CountBareTurns returns how many indexed turns have no vector of the model; more than 100 000 are not counted.
func (e *Embeddings) CountBareTurns(ctx context.Context, model string) (int, error) {
	turns, err := dbsqlc.New(e.pool).CountBareTurns(ctx, model)
	return int(turns), failed("count turns without vectors", err)
}

// TurnIndex keeps the index of recall complete. Folds index what they cover, and triggers what is edited or deleted.
type TurnIndex struct {
	pool *pgxpool.Pool
}

// NewTurnIndex returns the store.
func NewTurnIndex(pool *pgxpool.Pool) *TurnIndex {
	return &TurnIndex{pool: pool}
}

// IndexTurns indexes what a chat's index lacks, at most 500 messages of it. It may run twice and beside others.
func (x *TurnIndex) IndexTurns(ctx context.Context, chatID uuid.UUID) error {
	return x.RunIndexTurns(ctx, chatID, 0)
}

// RunIndexTurns is IndexTurns for a job, which it completes in the same transaction: whoever adds a turn waits for the lock
// of the brief, and may insert the next job then.
func (x *TurnIndex) RunIndexTurns(ctx context.Context, chatID uuid.UUID, jobID int64) error {
	_, err := sendAsOwner(ctx, x.pool, chatID, "index turns", func(batch *pgx.Batch) {
		queueExec(batch, queries.LockOwnBrief, chatID)
		queueExec(batch, queries.IndexTurns, dbsqlc.IndexTurnsParams{ChatID: chatID})
		queueActAsServer(batch)
		queueExec(batch, queries.CompleteJob, dbsqlc.CompleteJobParams{Output: json.RawMessage(`{}`), ID: jobID})
	})
	return err
}

// restedAtOnce bounds the locks of one statement, and so how long somebody who returns to one of the chats waits.
const restedAtOnce = 20

// IndexRested indexes the last turns of chats in which nobody has spoken for that long, and what a brief covers though
// it is not indexed. It goes on until none is left or patience is over, and returns how often it indexed a chat.
func (x *TurnIndex) IndexRested(ctx context.Context, rest, patience time.Duration) (indexed int, err error) {
	q := dbsqlc.New(x.pool)
	for deadline := time.Now().Add(patience); err == nil && time.Now().Before(deadline); {
		var chats int
		chats, err = q.IndexRestedChats(ctx, dbsqlc.IndexRestedChatsParams{RestSeconds: rest.Seconds(), Most: restedAtOnce})
		if indexed += chats; chats == 0 {
			break
		}
	}
	return indexed, failed("index rested chats", err)
}
