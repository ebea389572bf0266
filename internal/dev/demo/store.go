package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Brief is what the memory holds of a chat.
type Brief struct {
	Version int64
	// Tokens of Text, as stored.
	Tokens int
	// CoveredSeq: every message up to it is in the brief. PendingTurns stand after it.
	CoveredSeq   int64
	PendingTurns int
	Text         string
}

// Revision is one change of a brief.
type Revision struct {
	Version        int64
	Kind           string
	SeqFrom, SeqTo int64
	Turns          int
	// TokensBefore and TokensAfter are the brief's size, TurnsTokens that of the turns it took in.
	TokensBefore, TokensAfter, TurnsTokens int
	PromptMode, PromptRef, Model           string
	Took                                   time.Duration
}

// store reads what the server keeps, with the rights of the connecting role. It never writes.
type store struct{ conn *pgx.Conn }

func openStore(ctx context.Context, dsn string) (*store, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	// No named statements: it works through a transaction pooler, too.
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	// Parameters for the server and its pool; Postgres would refuse the connection because of them.
	maps.DeleteFunc(config.RuntimeParams, func(key, _ string) bool {
		return key == "pgbouncer" || strings.HasPrefix(key, "pool_")
	})
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err // names the database, without the password
	}
	return &store{conn}, nil
}

func (s *store) close(ctx context.Context) {
	_ = s.conn.Close(ctx) // nothing was written
}

const foldsQuery = `
select state::text from river.river_job
 where kind = 'fold_brief' and args ->> 'chat_id' = $1
   and state not in ('completed', 'cancelled', 'discarded')
 limit 1`

// foldState gives the state of the chat's unfinished fold, "" when there is none.
func (s *store) foldState(ctx context.Context, chatID uuid.UUID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	var state string
	err := s.conn.QueryRow(ctx, foldsQuery, chatID.String()).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read pending folds: %w", err)
	}
	return state, nil
}

// settle waits until no fold of the chat is pending, and tells how often it had to look. It calls
// waiting before it waits. state is that of the fold that still was pending when patience or ctx ended,
// "" when none was.
func (s *store) settle(ctx context.Context, chatID uuid.UUID, patience time.Duration, waiting func()) (looks int, state string, err error) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for looks = 1; ; looks++ {
		// A query that is interrupted would take the connection with it, and that is still needed.
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

const briefQuery = `
select version, brief_tokens, covered_seq, pending_turns, brief ->> 'global_summary'
  from public.conversation_briefs where chat_id = $1`

func (s *store) brief(ctx context.Context, chatID uuid.UUID) (Brief, error) {
	var b Brief
	err := s.conn.QueryRow(ctx, briefQuery, chatID).Scan(&b.Version, &b.Tokens, &b.CoveredSeq, &b.PendingTurns, &b.Text)
	if err != nil {
		return Brief{}, fmt.Errorf("read the brief: %w", err)
	}
	return b, nil
}

const revisionsQuery = `
select version, kind, seq_from, seq_to, turns,
       coalesce((details ->> 'tokens_before')::int, 0), coalesce((details ->> 'tokens_after')::int, output_tokens),
       coalesce((details ->> 'turns_tokens')::int, 0), prompt_mode, prompt_ref, model, duration_ms
  from public.conversation_brief_revisions where chat_id = $1 order by version`

func (s *store) revisions(ctx context.Context, chatID uuid.UUID) ([]Revision, error) {
	rows, err := s.conn.Query(ctx, revisionsQuery, chatID)
	if err != nil {
		return nil, fmt.Errorf("read the revisions: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Revision, error) {
		var r Revision
		var ms int
		err := row.Scan(&r.Version, &r.Kind, &r.SeqFrom, &r.SeqTo, &r.Turns, &r.TokensBefore, &r.TokensAfter,
			&r.TurnsTokens, &r.PromptMode, &r.PromptRef, &r.Model, &ms)
		r.Took = time.Duration(ms) * time.Millisecond
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the revisions: %w", err)
	}
	return found, nil
}

const messagesQuery = `select id, seq, role, token_count from public.messages where chat_id = $1 order by seq`

func (s *store) messages(ctx context.Context, chatID uuid.UUID) ([]row, error) {
	rows, err := s.conn.Query(ctx, messagesQuery, chatID)
	if err != nil {
		return nil, fmt.Errorf("read the messages: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(collected pgx.CollectableRow) (row, error) {
		var r row
		err := collected.Scan(&r.id, &r.seq, &r.role, &r.tokens)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the messages: %w", err)
	}
	return found, nil
}
