package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Brief is the brief of a chat. Its fields are the columns of briefQuery, in order.
type Brief struct {
	Version int64
	// Tokens of Text, as stored.
	Tokens int
	// CoveredSeq: every message up to it is in the brief. PendingTurns come after it.
	CoveredSeq   int64
	PendingTurns int
	Text         string
}

const briefQuery = `
select version, brief_tokens, covered_seq, pending_turns, brief ->> 'global_summary'
  from public.conversation_briefs where chat_id = $1`

// Revision is one change of a brief. Its fields are the columns of revisionsQuery, in order.
type Revision struct {
	Version        int64
	Kind           string
	SeqFrom, SeqTo int64
	Turns          int
	// TokensBefore and TokensAfter are the size of the brief, TurnsTokens that of the turns folded into it.
	TokensBefore, TokensAfter, TurnsTokens int
	PromptMode, PromptRef, Model           string
	Took                                   time.Duration
}

const revisionsQuery = `
select version, kind, seq_from, seq_to, turns,
       coalesce((details ->> 'tokens_before')::int, 0), coalesce((details ->> 'tokens_after')::int, output_tokens),
       coalesce((details ->> 'turns_tokens')::int, 0), prompt_mode, prompt_ref, model,
       make_interval(secs => duration_ms / 1000.0)
  from public.conversation_brief_revisions where chat_id = $1 order by version`

// row is a stored message without its text. Its fields are the columns of messagesQuery, in order.
type row struct {
	ID     uuid.UUID
	Seq    int64
	Role   string
	Tokens int
}

const messagesQuery = `select id, seq, role, token_count from public.messages where chat_id = $1 order by seq`

const foldsQuery = `
select state::text from river.river_job
 where kind = 'fold_brief' and args ->> 'chat_id' = $1::uuid::text
   and state not in ('completed', 'cancelled', 'discarded')
 limit 1`

// store reads the server's tables with the rights of the connecting role. It never writes. Close the pool.
type store struct{ pool *pgxpool.Pool }

func openStore(ctx context.Context, dsn string) (*store, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	// No named statements: a transaction pooler has none.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	// A parameter for clients. Postgres would refuse the connection because of it.
	delete(config.ConnConfig.RuntimeParams, "pgbouncer")
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err // names the database, without the password
	}
	return &store{pool}, nil
}

// read returns the rows of a query about a chat; what names them in an error.
func read[Row any](ctx context.Context, s *store, what, query string, chatID uuid.UUID, scan pgx.RowToFunc[Row]) ([]Row, error) {
	rows, err := s.pool.Query(ctx, query, chatID)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return found, nil
}

func (s *store) messages(ctx context.Context, chatID uuid.UUID) ([]row, error) {
	return read(ctx, s, "the messages", messagesQuery, chatID, pgx.RowToStructByPos[row])
}

func (s *store) revisions(ctx context.Context, chatID uuid.UUID) ([]Revision, error) {
	return read(ctx, s, "the revisions", revisionsQuery, chatID, pgx.RowToStructByPos[Revision])
}

func (s *store) brief(ctx context.Context, chatID uuid.UUID) (Brief, error) {
	found, err := read(ctx, s, "the brief", briefQuery, chatID, pgx.RowToStructByPos[Brief])
	if err == nil && len(found) == 0 {
		err = errors.New("read the brief: there is none")
	}
	if err != nil {
		return Brief{}, err
	}
	return found[0], nil
}

// foldState returns the state of the chat's unfinished fold, "" when there is none.
func (s *store) foldState(ctx context.Context, chatID uuid.UUID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	states, err := read(ctx, s, "pending folds", foldsQuery, chatID, pgx.RowTo[string])
	if err != nil || len(states) == 0 {
		return "", err
	}
	return states[0], nil
}

// awaitFolds waits until no fold of the chat is pending, and returns how often it had to look. It calls
// waiting before it waits. state is that of a fold that was still pending after patience or at the end of ctx, else "".
func (s *store) awaitFolds(ctx context.Context, chatID uuid.UUID, patience time.Duration, waiting func()) (looks int, state string, err error) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for looks = 1; ; looks++ {
		// Without cancel: after an interrupt the state is still reported.
		state, err = s.foldState(context.WithoutCancel(ctx), chatID)
		if err != nil || state == "" {
			return looks, "", err
		}
		waiting()
		select {
		case <-patient.Done():
			return looks, state, nil
		case <-time.After(foldPoll):
		}
	}
}
