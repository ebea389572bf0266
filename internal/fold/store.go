package fold

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
	// Claim locks a chat's brief, reads what the fold needs, and takes the lease when wanted says so.
	Claim(ctx context.Context, chatID uuid.UUID, kind Kind, lease Lease, wanted func(Snapshot) bool) (Snapshot, Claimed, error)
	// Renew keeps the lease alive. False: somebody else has taken over.
	Renew(ctx context.Context, chatID uuid.UUID, lease Lease) (bool, error)
	// Release gives a lease back that came to nothing.
	Release(ctx context.Context, chatID uuid.UUID, lease Lease) error
	// Commit writes the new brief and its revision if everything is still as it was when the fold was
	// claimed, and runs within in the same transaction, as the server. False: somebody was first, and
	// nothing was written.
	Commit(ctx context.Context, change Change, within func(ctx context.Context, tx pgx.Tx, after Counters) error) (bool, error)
}

// Lease says who folds a chat, and for how long that is believed without news.
type Lease struct {
	Token    uuid.UUID
	Duration time.Duration
}

// Claimed is the outcome of Claim.
type Claimed int

// The outcomes of Claim.
const (
	// ChatGone: the chat was deleted.
	ChatGone Claimed = iota
	// Busy: another worker is at it.
	Busy
	// NotWanted: there is nothing to do.
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
	ChatID   uuid.UUID
	Kind     Kind
	Lease    Lease
	Planned  Snapshot
	Plan     memory.Plan
	Summary  string
	Tokens   int // of Summary
	Asked    Asked
	Duration time.Duration
}

// Version is the version that the brief gets.
func (c Change) Version() int64 { return c.Planned.Brief.Version + 1 }
