package brief

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Kind is the kind of a change of a brief.
type Kind string

// The kinds of change, as conversation_brief_revisions names them.
const (
	KindFold    Kind = "fold"
	KindRebuild Kind = "rebuild"
	// KindTopic is that of a topic's summary, which is no change of a brief.
	KindTopic Kind = "topic"
)

// Store keeps the briefs. Each method is one short transaction with the rights of the chat's owner; none is open
// while the model works.
type Store interface {
	// Claim takes the lease of a chat's brief and reads what the fold needs, at most maxMessages of the oldest
	// messages. It may be repeated with the same lease. The claims of one user pass one after the other.
	Claim(ctx context.Context, chatID uuid.UUID, kind Kind, lease Lease, maxMessages int) (Snapshot, ClaimResult, error)
	// Renew extends the lease. It returns false when another worker has taken it over.
	Renew(ctx context.Context, chatID uuid.UUID, lease Lease) (bool, error)
	// Release ends the lease of a fold that has not committed.
	Release(ctx context.Context, chatID uuid.UUID, lease Lease) error
	// Settle releases the lease of a fold that was due and found nothing to do. It counts the buffer again, and
	// notes that there is nothing to do until that changes; not if it has changed since Claim read planned.
	Settle(ctx context.Context, chatID uuid.UUID, lease Lease, planned Counters) error
	// PutOff releases the lease of a change that was given up. Until a while has passed, which after those of delay.Soon is
	// delay.First, doubles each time and is at most delay.Longest, claims report PutOff. If the brief is stale its
	// text is deleted, here and in the revisions. It does nothing and returns false when the lease was lost or a
	// message was changed since Claim.
	PutOff(ctx context.Context, change Change, failure string, delay Delay) (PutOff, bool, error)
	// SaveDraft stores how far a change has come, for whoever claims the chat next, and renews the lease. It returns
	// false, and stores nothing, when the change can no longer be committed.
	SaveDraft(ctx context.Context, change Change, draft Draft) (bool, error)
	// Commit writes the new brief and its revision, completes the job, and calls within in the same transaction, with
	// the rights of the server. When the brief or its messages have changed since Claim it writes nothing and
	// returns false.
	Commit(ctx context.Context, change Change, within func(ctx context.Context, tx pgx.Tx, after Counters) error) (bool, error)
}

// Lease is the exclusive right to fold a chat.
type Lease = lease.Lease

// Delay is how long a change that was given up is not tried again: one after the other of Soon, and then as PutOff says.
type Delay struct {
	Soon           []time.Duration
	First, Longest time.Duration
}

// PutOff is that a chat is not folded again before Wait has passed.
type PutOff struct {
	// Failures is how often that has happened since the brief last changed.
	Failures int
	Wait     time.Duration
}

// Draft is what the first pieces of a change have given.
type Draft struct {
	// PlanSHA256 identifies what the change reads; "" for no draft.
	PlanSHA256 string
	// Pieces is how many are in Summary.
	Pieces   int
	Summary  string
	Tokens   int
	Stats    CallStats
	Duration time.Duration
}

// ClaimResult is the outcome of a claim.
type ClaimResult = lease.Claim

// The outcomes of a claim.
const (
	ClaimGone  = lease.Gone
	ClaimBusy  = lease.Occupied
	ClaimTaken = lease.Taken
)

// Snapshot is the state of a chat from which a fold is planned.
type Snapshot struct {
	UserID uuid.UUID
	Brief  memory.Brief
	// EditCount changes with every edit or deletion of a message.
	EditCount int64
	Counters
	memory.Settings
	// PutOff reports that a change of the brief was given up, and it is too early to try again.
	PutOff bool
	// Draft is what an earlier worker left.
	Draft Draft
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
	JobID   int64
	Kind    Kind
	Lease   Lease
	Planned Snapshot
	Plan    Plan
	// PlanSHA256 identifies what a change of several pieces reads; "" for one piece.
	PlanSHA256 string
	// PiecesDone is how many of the plan's pieces are in Summary.
	PiecesDone int
	Summary    string
	Tokens     int // of Summary
	Stats      CallStats
	Duration   time.Duration
}

// begin sets where the change begins: at its first piece, or after those of an earlier worker's draft.
func (c *Change) begin() {
	c.Stats.Mode, c.Stats.PromptRef = ModeNone, string(ModeNone)
	if c.Kind == KindFold {
		c.Summary, c.Tokens = c.Planned.Brief.Summary, c.Planned.Brief.Tokens
	}
	if len(c.Plan.Pieces) < 2 {
		return
	}
	c.PlanSHA256 = c.hashPlan()
	if draft := c.Planned.Draft; draft.PlanSHA256 == c.PlanSHA256 {
		c.PiecesDone, c.Summary, c.Tokens, c.Stats, c.Duration = draft.Pieces, draft.Summary, draft.Tokens, draft.Stats, draft.Duration
	}
}

// hashPlan hashes the state that the change was planned from and all that its calls read.
func (c *Change) hashPlan() string {
	hash := sha256.New()
	_, _ = fmt.Fprintln(hash, c.Kind, c.Planned.Brief.Version, c.Planned.EditCount, c.Plan.SeqFrom, c.Plan.SeqTo)
	for _, piece := range c.Plan.Pieces {
		_, _ = io.WriteString(hash, FoldInput("", piece))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// draft returns the change's progress. running is how long it has taken since Duration was set.
func (c *Change) draft(running time.Duration) Draft {
	return Draft{
		PlanSHA256: c.PlanSHA256, Pieces: c.PiecesDone, Summary: c.Summary, Tokens: c.Tokens, Stats: c.Stats,
		Duration: c.Duration + running,
	}
}

// Version returns the version that the brief gets.
func (c Change) Version() int64 { return c.Planned.Brief.Version + 1 }

// Report returns the report of the change once it is committed.
func (c Change) Report() Report {
	return Report{
		Kind: c.Kind, Result: Done, Version: c.Version(), SeqFrom: c.Plan.SeqFrom, SeqTo: c.Plan.SeqTo, Turns: c.Plan.Turns,
		Pieces: len(c.Plan.Pieces), PiecesDone: c.PiecesDone,
		TurnsTokens: c.Plan.Tokens, TokensBefore: c.Planned.Brief.Tokens, TokensAfter: c.Tokens,
		DurationMS: c.Duration.Milliseconds(), CallStats: c.Stats,
	}
}
