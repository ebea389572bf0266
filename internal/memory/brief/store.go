package brief

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Kind is the kind of a change of a brief.
type Kind string

// The kinds of change, as conversation_brief_revisions names them.
const (
	KindFold    Kind = "fold"
	KindRebuild Kind = "rebuild"
)

// Store keeps the briefs. Each method is one short transaction with the rights of the chat's owner; none is open
// while the model works.
type Store interface {
	// Claim takes the lease of a chat's brief and reads what the fold needs, at most maxMessages of the oldest
	// messages. It may be repeated with the same lease.
	Claim(ctx context.Context, chatID uuid.UUID, kind Kind, lease Lease, maxMessages int) (Snapshot, ClaimResult, error)
	// Renew extends the lease. It returns false when another worker has taken it over.
	Renew(ctx context.Context, chatID uuid.UUID, lease Lease) (bool, error)
	// Release ends the lease of a fold that has not committed.
	Release(ctx context.Context, chatID uuid.UUID, lease Lease) error
	// Commit writes the new brief and its revision, completes the job, and calls within in the same transaction, with
	// the rights of the server. When the brief or its messages have changed since Claim it writes nothing and
	// returns false.
	Commit(ctx context.Context, change Change, within func(ctx context.Context, tx pgx.Tx, after Counters) error) (bool, error)
}

// Lease is the exclusive right to fold a chat. It ends Duration after it was taken or renewed.
type Lease struct {
	Token    uuid.UUID
	Duration time.Duration
}

// ClaimResult is the outcome of a claim.
type ClaimResult int

// The outcomes of a claim.
const (
	// ClaimGone: the chat was deleted.
	ClaimGone ClaimResult = iota
	// ClaimBusy: another worker has the lease.
	ClaimBusy
	// ClaimTaken: the caller has the lease.
	ClaimTaken
)

// Snapshot is the state of a chat from which a fold is planned.
type Snapshot struct {
	UserID uuid.UUID
	Brief  memory.Brief
	// EditCount changes with every edit or deletion of a message.
	EditCount int64
	Counters
	memory.Settings
	// Messages are those after the brief (fold) or those it covers (rebuild), oldest first.
	Messages []memory.Message
}

// Counters are the sizes that decide whether a chat is due.
type Counters struct {
	BriefTokens   int
	PendingTokens int
	PendingTurns  int
}

// Change is a new version of a brief, and how it was made.
type Change struct {
	ChatID uuid.UUID
	// JobID is the River job that the change completes; 0 for none.
	JobID    int64
	Kind     Kind
	Lease    Lease
	Planned  Snapshot
	Plan     Plan
	Summary  string
	Tokens   int // of Summary
	Stats    CallStats
	Duration time.Duration
}

// Version returns the version that the brief gets.
func (c Change) Version() int64 { return c.Planned.Brief.Version + 1 }

// Report returns the report of the change once it is committed.
func (c Change) Report() Report {
	return Report{
		Kind: c.Kind, Result: Done, Version: c.Version(), SeqFrom: c.Plan.SeqFrom, SeqTo: c.Plan.SeqTo, Turns: c.Plan.Turns,
		TurnsTokens: c.Plan.Tokens, TokensBefore: c.Planned.Brief.Tokens, TokensAfter: c.Tokens,
		DurationMS: c.Duration.Milliseconds(), CallStats: c.Stats,
	}
}
