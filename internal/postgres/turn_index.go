package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
