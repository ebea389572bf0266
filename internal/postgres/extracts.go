package postgres

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Extracts asks for extractions.
type Extracts struct {
	pool     *pgxpool.Pool
	enqueue  Enqueue
	progress progress
}

var _ api.Extractor = (*Extracts)(nil)

// NewExtracts returns the store. Without enqueue.Extract nothing is extracted.
func NewExtracts(pool *pgxpool.Pool, enqueue Enqueue) *Extracts {
	return &Extracts{pool: pool, enqueue: enqueue, progress: progress{pool: pool}}
}

// EnqueueSoon has a user's other chats read at once instead of later, because the user begins the next one.
func (e *Extracts) EnqueueSoon(ctx context.Context, user auth.Principal, chatID uuid.UUID) error {
	if e.enqueue.Extract == nil {
		return nil
	}
	return failed("enqueue extractions", inTx(ctx, e.pool, func(tx pgx.Tx) error {
		chats, err := dbsqlc.MakeExtractionsDue.All(ctx, tx, dbsqlc.MakeExtractionsDueParams{UserID: user.UserID, ChatID: chatID})
		for _, due := range chats {
			if err == nil {
				err = e.enqueue.Extract(ctx, tx, due, time.Time{})
			}
		}
		return err
	}))
}

// longestWait is for how long a caller waits until a chat is read.
const longestWait = 2 * time.Minute

// Extract has all whole turns of a chat read, waits as long as ctx lives but two minutes at most, and returns the last row of the ledger; where
// nothing was ever read and nothing is to be, an empty one that is not stored.
func (e *Extracts) Extract(ctx context.Context, user auth.Principal, chatID uuid.UUID) (api.Extraction, error) {
	if e.enqueue.Extract == nil {
		return api.Extraction{}, api.MemoryOff()
	}
	state, err := e.read(ctx, user, chatID)
	if err != nil {
		return api.Extraction{}, err
	}
	goal := state.WholeSeq
	if state.ExtractedSeq < goal {
		if err := e.request(ctx, chatID); err != nil {
			return api.Extraction{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	for state.ExtractedSeq < goal {
		if !e.progress.wait(ctx, readPlace{chatID, state.ExtractedSeq}) {
			return api.Extraction{}, tooSlow(ctx)
		}
		if state, err = e.read(ctx, user, chatID); err != nil {
			return api.Extraction{}, err
		}
		goal = min(goal, state.WholeSeq) // messages may be deleted meanwhile
	}
	return latest(state), nil
}

func tooSlow(ctx context.Context) error {
	return &fault.Error{
		Code: fault.UpstreamTimeout, Message: "The extraction goes on. Ask again in a moment.", RetryAfter: 2 * time.Second, Err: context.Cause(ctx),
	}
}

// request makes the chat due at once, also if it was put off. Its rights were checked by read.
func (e *Extracts) request(ctx context.Context, chatID uuid.UUID) error {
	return failed("request extraction", inTx(ctx, e.pool, func(tx pgx.Tx) error {
		if err := dbsqlc.RetryWork.Run(ctx, tx, dbsqlc.RetryWorkParams{Kind: string(work.Extract), Key: chatID}); err != nil {
			return err
		}
		return e.enqueue.enqueueExtraction(ctx, tx, chatID, true)
	}))
}

func (e *Extracts) read(ctx context.Context, user auth.Principal, chatID uuid.UUID) (state dbsqlc.ReadExtractionStateRow, err error) {
	err = sendAbout(ctx, e.pool, user, chatID, "read extractions", func(batch *pgx.Batch) {
		dbsqlc.ReadExtractionState.Read(batch, chatID, set(&state))
	})
	return state, err
}

func latest(state dbsqlc.ReadExtractionStateRow) api.Extraction {
	if state.ID == uuid.Nil {
		state.SeqFrom, state.SeqTo, state.Result = state.ExtractedSeq+1, state.ExtractedSeq, string(longterm.NothingRead)
	}
	return state.Extraction
}
