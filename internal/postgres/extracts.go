package postgres

import (
	"context"
	"sync"
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
	pool    *pgxpool.Pool
	enqueue Enqueue
	usage   *Usage

	mu      sync.Mutex
	flights map[userChat]*flight
	waiting map[uuid.UUID]chan struct{} // by chat
}

var _ api.Extractor = (*Extracts)(nil)

// NewExtracts returns the store. Without enqueue.Extract nothing is extracted.
func NewExtracts(pool *pgxpool.Pool, enqueue Enqueue) *Extracts {
	return &Extracts{pool: pool, enqueue: enqueue, usage: &Usage{Pool: pool}, flights: map[userChat]*flight{}, waiting: map[uuid.UUID]chan struct{}{}}
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

const (
	// longestWait is for how long a caller waits until a chat is read.
	longestWait = 2 * time.Minute
	// lookEvery is how often it is looked whether a chat was read while somebody waits. Notifications come at once; they may be lost,
	// and none come through a transaction pooler.
	lookEvery = time.Second
)

// Extract has all whole turns of a chat read, waits as long as ctx lives but two minutes at most, and returns the last row of the ledger; where
// nothing was ever read and nothing is to be, an empty one that is not stored. A caller who comes while another waits for the same
// chat gets the same answer.
func (e *Extracts) Extract(ctx context.Context, user auth.Principal, chatID uuid.UUID) (api.Extraction, error) {
	if e.enqueue.Extract == nil {
		return api.Extraction{}, api.MemoryOff()
	}
	at := userChat{user.UserID, chatID}
	f := e.join(ctx, user, at)
	defer e.leave(at, f)
	select {
	case <-f.done:
		return f.row, f.err
	case <-ctx.Done():
		return api.Extraction{}, tooSlow(ctx)
	}
}

// userChat is a chat of a user, whether or not it is the user's.
type userChat struct{ userID, chatID uuid.UUID }

// flight is an extraction that any number of callers wait for. It ends when the last of them leaves.
type flight struct {
	callers int
	cancel  context.CancelFunc
	done    chan struct{} // closed when row and err are set
	row     api.Extraction
	err     error
}

func (e *Extracts) join(ctx context.Context, user auth.Principal, at userChat) *flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.flights[at]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		ctx, f.cancel = context.WithTimeout(context.WithoutCancel(ctx), longestWait)
		e.flights[at] = f
		go func() {
			defer close(f.done)
			f.row, f.err = e.extract(ctx, user, at.chatID)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.forget(at, f)
		}()
	}
	f.callers++
	return f
}

func (e *Extracts) leave(at userChat, f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.callers--; f.callers == 0 {
		f.cancel()
		e.forget(at, f)
	}
}

// forget lets the next caller begin another one. It is called with the lock held.
func (e *Extracts) forget(at userChat, f *flight) {
	if e.flights[at] == f {
		delete(e.flights, at)
	}
}

func (e *Extracts) extract(ctx context.Context, user auth.Principal, chatID uuid.UUID) (api.Extraction, error) {
	read := e.listen(chatID)
	defer e.ChatsRead(chatID)
	state, err := e.read(ctx, user, chatID)
	if err != nil {
		return api.Extraction{}, err
	}
	goal := state.WholeSeq
	if state.ExtractedSeq < goal {
		if err := e.usage.Allow(ctx, user.UserID, string(work.Extract)); err != nil {
			return api.Extraction{}, err
		}
		if err := e.request(ctx, chatID); err != nil {
			return api.Extraction{}, err
		}
	}
	for state.ExtractedSeq < goal {
		select {
		case <-read:
			read = e.listen(chatID)
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return api.Extraction{}, tooSlow(ctx)
		}
		if state, err = e.read(ctx, user, chatID); err != nil {
			return api.Extraction{}, err
		}
		goal = min(goal, state.WholeSeq) // messages may be deleted meanwhile
	}
	return latest(state), nil
}

// listen returns what is closed when the chat was read.
func (e *Extracts) listen(chatID uuid.UUID) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[chatID] = make(chan struct{})
	return e.waiting[chatID]
}

// ChatsRead wakes who waits for these chats.
func (e *Extracts) ChatsRead(chatIDs ...uuid.UUID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range chatIDs {
		if read := e.waiting[id]; read != nil {
			close(read)
			delete(e.waiting, id)
		}
	}
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
