package brief

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Store keeps the briefs. Each method is one short transaction with the rights of the chat's owner; none is open
// while the model works.
type Store interface {
	// Read reads the state of a chat, at most maxMessages of the oldest messages; false for a chat that was deleted.
	Read(ctx context.Context, chatID uuid.UUID, maxMessages int) (Snapshot, bool, error)
	// Settle counts the buffer of a chat whose fold was due and found nothing to do again, and notes that there is nothing to
	// do until that changes; not if it has changed since Read read planned.
	Settle(ctx context.Context, chatID uuid.UUID, planned Counters) error
	// PutOff puts off a change that was given up, as work.Store does. It does nothing and returns 0 times when the
	// lease was lost or a message was changed since Read.
	PutOff(ctx context.Context, change Change, failure string, delay work.Delay) (times int, wait time.Duration, err error)
	// SaveDraft stores how far a change has come, for the next worker, and renews the lease. It returns
	// false, and stores nothing, when the change can no longer be committed.
	SaveDraft(ctx context.Context, change Change) (bool, error)
	// Commit writes the new brief and its revision, completes the job, and inserts the chat's next fold, with the priority of this
	// one, if the chat is due again. When the brief or its messages have changed since Read, or the lease is lost, it writes nothing
	// and returns false.
	Commit(ctx context.Context, change Change, due func(after Counters) bool) (bool, error)
}

// Draft is the summary of the first pieces of a change, or of all of them.
type Draft struct {
	// PlanSHA256 identifies the input of a change of several pieces; "" for one piece, and for no draft.
	PlanSHA256 string
	// PiecesDone is how many of the plan's pieces are in Summary.
	PiecesDone int
	Summary    string
	Tokens     int // of Summary
	Stats      CallStats
	Duration   time.Duration
}

// Snapshot is the state of a chat from which a fold is planned.
type Snapshot struct {
	UserID uuid.UUID
	Brief  memory.Brief
	// EditCount changes whenever a message loses its words or gets them back.
	EditCount int64
	Counters
	memory.Settings
	// Draft is an earlier worker's; the zero Draft for none.
	Draft Draft
	// Messages are those after the brief, oldest first.
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
	// Attempt is that of the job that the change completes.
	work.Attempt

	ChatID  uuid.UUID
	Lease   work.Lease
	Planned Snapshot
	Plan    Plan
	Draft
}

// begin sets where the change begins: at its first piece, or after those of an earlier worker's draft.
func (c *Change) begin() {
	c.Stats.Mode, c.Stats.PromptRef = ModeNone, string(ModeNone)
	c.Summary, c.Tokens = c.Planned.Brief.Summary, c.Planned.Brief.Tokens
	if len(c.Plan.Pieces) < 2 {
		return
	}
	c.PlanSHA256 = c.hashPlan()
	if draft := c.Planned.Draft; draft.PlanSHA256 == c.PlanSHA256 {
		c.Draft = draft
	}
}

// hashPlan hashes the state that the change was planned from and all that its calls read.
func (c *Change) hashPlan() string {
	hash := sha256.New()
	_, _ = fmt.Fprintln(hash, c.Planned.Brief.Version, c.Planned.EditCount, c.Plan.SeqFrom, c.Plan.SeqTo)
	for _, piece := range c.Plan.Pieces {
		_, _ = io.WriteString(hash, FoldInput("", piece))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Version returns the version that the brief gets.
func (c Change) Version() int64 { return c.Planned.Brief.Version + 1 }

// Report returns the report of the change once it is committed.
func (c Change) Report() Report {
	return Report{
		Result: work.Done, Version: c.Version(), SeqFrom: c.Plan.SeqFrom, SeqTo: c.Plan.SeqTo, Turns: c.Plan.Turns,
		Pieces: len(c.Plan.Pieces), PiecesDone: c.PiecesDone,
		TurnsTokens: c.Plan.Tokens, TokensBefore: c.Planned.Brief.Tokens, TokensAfter: c.Tokens,
		DurationMS: c.Duration.Milliseconds(), CallStats: c.Stats,
	}
}
