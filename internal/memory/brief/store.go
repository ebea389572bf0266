package brief

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Kind is what a change of a brief is.
type Kind string

// The kinds of change, as conversation_brief_revisions names them.
const (
	KindFold    Kind = "fold"
	KindRebuild Kind = "rebuild"
)

// Store is where briefs are kept. Each method is one short transaction with the rights of the chat's
// owner; none is ever open while the model is asked.
type Store interface {
	// Claim takes the lease of a chat's brief and reads what the fold needs, at most maxMessages of the
	// oldest messages. It may be repeated with the same lease.
	Claim(ctx context.Context, chatID uuid.UUID, kind Kind, lease Lease, maxMessages int) (Snapshot, Claimed, error)
	// Renew keeps the lease alive. False: somebody else has taken over.
	Renew(ctx context.Context, chatID uuid.UUID, lease Lease) (bool, error)
	// Release gives a lease back that came to nothing.
	Release(ctx context.Context, chatID uuid.UUID, lease Lease) error
	// Commit writes the new brief and its revision and completes the job, if everything is still as it was
	// when the fold was claimed, and runs within in the same transaction, as the server. False: somebody
	// was first, and nothing was written.
	Commit(ctx context.Context, change Change, within func(ctx context.Context, tx pgx.Tx, after Counters) error) (bool, error)
}

// Lease says who folds a chat, and for how long that is believed without news.
type Lease struct {
	Token    uuid.UUID
	Duration time.Duration
}

// Claimed is the outcome of a claim.
type Claimed int

// The outcomes of a claim.
const (
	// ChatGone: the chat was deleted.
	ChatGone Claimed = iota
	// Busy: another worker is at it.
	Busy
	// NotWanted: there is nothing to do. Stores leave that to the engine.
	NotWanted
	// Taken: the lease is ours.
	Taken
)

// Snapshot is what a fold is planned from.
type Snapshot struct {
	UserID uuid.UUID
	Brief  memory.Brief
	// EditCount changes with every edit or deletion of a message.
	EditCount int64
	Counters
	memory.Settings
	// Messages after the brief (fold) or those it covers (rebuild), oldest first.
	Messages []memory.Message
}

// Counters are the sizes that decide whether a chat is due.
type Counters struct {
	BriefTokens   int
	PendingTokens int
	PendingTurns  int
}

// Change is a new brief and how it came about.
type Change struct {
	ChatID uuid.UUID
	// JobID is River's job that the change completes; 0 for none.
	JobID    int64
	Kind     Kind
	Lease    Lease
	Planned  Snapshot
	Plan     Plan
	Summary  string
	Tokens   int // of Summary
	Asked    Asked
	Duration time.Duration
}

// Version is the version that the brief gets.
func (c Change) Version() int64 { return c.Planned.Brief.Version + 1 }

// Report is what the change comes to once it is committed.
func (c Change) Report() Report {
	return Report{
		Kind: c.Kind, Result: Done, Version: c.Version(), SeqFrom: c.Plan.SeqFrom, SeqTo: c.Plan.SeqTo, Turns: c.Plan.Turns,
		TurnsTokens: c.Plan.Tokens, TokensBefore: c.Planned.Brief.Tokens, TokensAfter: c.Tokens,
		Mode: c.Asked.Mode, PromptRef: c.Asked.PromptRef, Model: c.Asked.Model, Calls: c.Asked.Calls,
		InputTokens: c.Asked.InputTokens, OutputTokens: c.Asked.OutputTokens, Refusals: c.Asked.Refusals,
		DurationMS: c.Duration.Milliseconds(),
	}
}
