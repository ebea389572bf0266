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

// Embeddings keeps the state of the models that make vectors.
type Embeddings struct{ Pool *pgxpool.Pool }

// ReadScale returns a model's scale, and false if it was not measured yet.
func (e *Embeddings) ReadScale(ctx context.Context, model string) (recall.Scale, bool, error) {
	rows, err := try(ctx, e.Pool, dbsqlc.ReadScale.All, model)
	if err != nil || len(rows) == 0 {
		return recall.Scale{}, false, failed("read scale", err)
	}
	return rows[0], true, nil
}

// SaveScale keeps a scale unless there is one of the same list of sentences.
func (e *Embeddings) SaveScale(ctx context.Context, model string, scale recall.Scale) error {
	return failed("save scale", retry(ctx, e.Pool, func() error {
		return dbsqlc.SaveScale.Run(ctx, e.Pool, dbsqlc.SaveScaleParams{
			Model: model, Dims: recall.VectorSize, UnrelatedP50: scale.P50, UnrelatedP99: scale.P99, Languages: scale.Languages, Sentences: scale.List,
		})
	}))
}

// TurnVectors keeps the vectors of turns, with the rights of their chat's owner.
type TurnVectors struct{ Pool *pgxpool.Pool }

// MemoryVectors keeps the vectors of memories, with the rights of their user.
type MemoryVectors struct{ Pool *pgxpool.Pool }

var _, _ recall.VectorStore = (*TurnVectors)(nil), (*MemoryVectors)(nil)

// Bare returns turns without a vector of the model.
func (v *TurnVectors) Bare(ctx context.Context, chatID uuid.UUID, model string, after recall.Bare, most int) ([]recall.Bare, recall.For, error) {
	var turns []recall.Bare
	var messages [][]memory.Message
	owner, err := sendAsOwner(ctx, v.Pool, chatID, "read turns without vectors", func(batch *pgx.Batch) {
		turns, messages = nil, nil
		params := dbsqlc.ReadBareTurnsParams{ChatID: chatID, Model: model, AfterSeq: after.Seq, Most: most}
		dbsqlc.ReadBareTurns.Read(batch, params, func(row dbsqlc.ReadBareTurnsRow) {
			if len(turns) == 0 || turns[len(turns)-1].Seq != row.TurnSeq {
				turns, messages = append(turns, recall.Bare{Seq: row.TurnSeq, Words: row.Words}), append(messages, nil)
			}
			last := &messages[len(messages)-1]
			*last = append(*last, memory.Message{Role: memory.Role(row.Role), Content: row.Content})
		})
	})
	for n := range turns {
		turns[n].Text, turns[n].Tokens = recall.TurnText(messages[n])
	}
	return turns, recall.For{UserID: owner, ChatID: chatID}, err
}

// Save stores vectors of turns whose words are unchanged.
func (v *TurnVectors) Save(ctx context.Context, chatID uuid.UUID, model string, made []recall.Made) (int, error) {
	params := dbsqlc.SaveVectorsParams{ChatID: chatID, Model: model}
	for _, m := range made {
		params.Seqs, params.Words = append(params.Seqs, m.Seq), append(params.Words, m.Words)
		params.Embeddings = append(params.Embeddings, vectorText(m.Vector))
	}
	var saved int64
	_, err := sendAsOwner(ctx, v.Pool, chatID, "save vectors", func(batch *pgx.Batch) {
		dbsqlc.LockOwnBrief.Queue(batch, chatID)
		dbsqlc.SaveVectors.Queue(batch, params).Exec(counts(&saved))
	})
	return int(saved), err
}

// Finish completes a job, unless the chat has turns without a vector of the model. Whoever indexes turns waits for the
// lock of the brief.
func (v *TurnVectors) Finish(ctx context.Context, chatID uuid.UUID, model string, jobID int64, output any) (bool, error) {
	return finishUnless(ctx, v.Pool, jobID, output, func(batch *pgx.Batch, bare *bool) {
		dbsqlc.ActAsChatOwner.Queue(batch, chatID)
		dbsqlc.LockOwnBrief.Queue(batch, chatID)
		params := dbsqlc.ReadBareTurnsParams{ChatID: chatID, Model: model, Most: 1}
		dbsqlc.ReadBareTurns.Read(batch, params, func(dbsqlc.ReadBareTurnsRow) { *bare = true })
	})
}

// finishUnless completes a job with its output unless look finds something to do. look begins with the owner's role and the
// lock that all who add to it wait for.
func finishUnless(ctx context.Context, pool *pgxpool.Pool, jobID int64, output any, look func(batch *pgx.Batch, found *bool)) (bool, error) {
	text, err := json.Marshal(output)
	if err != nil {
		return false, err
	}
	err = inTx(ctx, pool, func(tx pgx.Tx) error {
		found := false
		batch := &pgx.Batch{}
		look(batch, &found)
		queueActAsServer(batch)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		if found {
			return errOvertaken
		}
		return dbsqlc.CompleteJob.Run(ctx, tx, dbsqlc.CompleteJobParams{Output: text, ID: jobID})
	})
	return committed("finish vectors", err)
}

// Owners returns chats with turns without a vector of the model.
func (v *TurnVectors) Owners(ctx context.Context, model string, most int) (fresh, outdated []uuid.UUID, err error) {
	return owners(dbsqlc.FindBareChats.All(ctx, v.Pool, dbsqlc.FindBareChatsParams{Model: model, Most: most}))
}

// owners returns those of things without any vector, and those of things with vectors of another model.
func owners(rows []dbsqlc.FindBareChatsRow, err error) (fresh, outdated []uuid.UUID, _ error) {
	for _, row := range rows {
		if row.Outdated {
			outdated = append(outdated, row.OwnerID)
		} else {
			fresh = append(fresh, row.OwnerID)
		}
	}
	return fresh, outdated, failed("find what has no vectors", err)
}

// Bare returns memories without a vector of the model.
func (v *MemoryVectors) Bare(ctx context.Context, userID uuid.UUID, model string, after recall.Bare, most int) ([]recall.Bare, recall.For, error) {
	var bare []recall.Bare
	err := sendAsRemembered(ctx, v.Pool, userID, "read memories without vectors", func(batch *pgx.Batch) {
		bare = nil
		params := dbsqlc.ReadBareMemoriesParams{After: after.ID, Model: model, Most: most}
		dbsqlc.ReadBareMemories.Read(batch, params, func(row dbsqlc.ReadBareMemoriesRow) {
			bare = append(bare, recall.Bare{ID: row.ID, Words: row.Content, Text: row.Content})
		})
	})
	return bare, recall.For{UserID: userID}, err
}

// Save stores vectors of memories whose content is unchanged.
func (v *MemoryVectors) Save(ctx context.Context, userID uuid.UUID, model string, made []recall.Made) (int, error) {
	params := dbsqlc.SaveMemoryVectorsParams{Model: model}
	for _, m := range made {
		params.Ids, params.Contents = append(params.Ids, m.ID), append(params.Contents, m.Words)
		params.Embeddings = append(params.Embeddings, vectorText(m.Vector))
	}
	var saved int64
	err := sendAsRemembered(ctx, v.Pool, userID, "save vectors of memories", func(batch *pgx.Batch) {
		dbsqlc.LockMemoryOwner.Queue(batch, struct{}{}) // who writes to memories of a user waits for the others
		dbsqlc.SaveMemoryVectors.Queue(batch, params).Exec(counts(&saved))
	})
	return int(saved), err
}

// Finish completes a job, unless the user has memories without a vector of the model.
func (v *MemoryVectors) Finish(ctx context.Context, userID uuid.UUID, model string, jobID int64, output any) (bool, error) {
	return finishUnless(ctx, v.Pool, jobID, output, func(batch *pgx.Batch, bare *bool) {
		dbsqlc.ActAsMemoryOwner.Queue(batch, userID)
		dbsqlc.LockMemoryOwner.Queue(batch, struct{}{})
		params := dbsqlc.ReadBareMemoriesParams{Model: model, Most: 1}
		dbsqlc.ReadBareMemories.Read(batch, params, func(dbsqlc.ReadBareMemoriesRow) { *bare = true })
	})
}

// Owners returns users with memories without a vector of the model.
func (v *MemoryVectors) Owners(ctx context.Context, model string, most int) (fresh, outdated []uuid.UUID, err error) {
	return owners(dbsqlc.FindBareMemoryUsers.All(ctx, v.Pool, dbsqlc.FindBareMemoryUsersParams{Model: model, Most: most}))
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

// CountBareTurns returns how many indexed turns have no vector of the model; more than 100 000 are not counted.
func (e *Embeddings) CountBareTurns(ctx context.Context, model string) (int, error) {
	turns, err := dbsqlc.CountBareTurns.One(ctx, e.Pool, model)
	return int(turns), failed("count turns without vectors", err)
}

// TurnIndex keeps the index of recall complete. Folds index the turns that they cover, and triggers the edited or deleted ones.
type TurnIndex struct{ Pool *pgxpool.Pool }

// RunIndexTurns indexes what a chat's index lacks, at most 500 messages of it, and completes the job, if there is one, in the
// same transaction: whoever adds a turn waits for the lock of the brief, and may insert the next job then. It may run twice and
// beside others.
func (x *TurnIndex) RunIndexTurns(ctx context.Context, chatID uuid.UUID, jobID int64) error {
	_, err := sendAsOwner(ctx, x.Pool, chatID, "index turns", func(batch *pgx.Batch) {
		dbsqlc.LockOwnBrief.Queue(batch, chatID)
		dbsqlc.IndexTurns.Queue(batch, dbsqlc.IndexTurnsParams{ChatID: chatID})
		queueActAsServer(batch)
		dbsqlc.CompleteJob.Queue(batch, dbsqlc.CompleteJobParams{Output: json.RawMessage(`{}`), ID: jobID})
	})
	return err
}

// restedAtOnce bounds the locks of one statement, and so how long somebody who returns to one of the chats waits.
const restedAtOnce = 20

// IndexRested indexes the last turns of chats that have rested for that long, and covered turns
// without an index entry. It goes on until none is left or patience is over, and returns how often it indexed a chat.
func (x *TurnIndex) IndexRested(ctx context.Context, rest, patience time.Duration) (indexed int, err error) {
	for deadline := time.Now().Add(patience); err == nil && time.Now().Before(deadline); {
		var chats int
		chats, err = dbsqlc.IndexRestedChats.One(ctx, x.Pool, dbsqlc.IndexRestedChatsParams{RestSeconds: rest.Seconds(), Most: restedAtOnce})
		if indexed += chats; chats == 0 {
			break
		}
	}
	return indexed, failed("index rested chats", err)
}
