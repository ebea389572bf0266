package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Briefs is the store of briefs and their revisions.
type Briefs struct {
	pool *pgxpool.Pool
}

var _ brief.Store = (*Briefs)(nil)

// NewBriefs returns the store. A commit also indexes the turns that the brief covers then.
func NewBriefs(pool *pgxpool.Pool) *Briefs {
	return &Briefs{pool: pool}
}

// Claim takes the lease and reads what a fold needs.
func (b *Briefs) Claim(ctx context.Context, chatID uuid.UUID, kind brief.Kind, lease brief.Lease, maxMessages int) (brief.Snapshot, brief.ClaimResult, error) {
	var s brief.Snapshot
	var claimed brief.ClaimResult
	owner, err := sendAsOwner(ctx, b.pool, chatID, "claim brief", func(batch *pgx.Batch) {
		s, claimed = brief.Snapshot{}, brief.ClaimBusy
		claim := dbsqlc.ClaimBriefParams{LeaseToken: lease.Token, LeaseSeconds: lease.Duration.Seconds(), ChatID: chatID, FoldsPerUser: lease.PerUser}
		dbsqlc.ClaimBrief.Read(batch, claim, func(row dbsqlc.ClaimBriefRow) {
			s, claimed = snapshot(row), brief.ClaimTaken
		})
		dbsqlc.ReadFoldable.Read(batch, dbsqlc.ReadFoldableParams{
			ChatID: chatID, Rebuild: kind == brief.KindRebuild, LeaseToken: lease.Token, MaxRows: maxMessages,
		}, messages(&s.Messages))
	})
	if err == nil && owner == uuid.Nil {
		claimed = brief.ClaimGone
	}
	s.UserID = owner
	return s, claimed, err
}

func snapshot(row dbsqlc.ClaimBriefRow) brief.Snapshot {
	s := brief.Snapshot{
		Brief: memory.Brief{
			Summary: row.GlobalSummary, Tokens: row.BriefTokens, Version: row.Version, CoveredSeq: row.CoveredSeq,
			LastSummarizedMessageID: row.LastSummarizedMessageID, Stale: row.Stale, ClearedSeq: row.ClearedSeq, Unreadable: !row.Readable,
		},
		EditCount: row.EditCount,
		Counters:  brief.Counters{BriefTokens: row.BriefTokens, PendingTokens: row.PendingTokens, PendingTurns: row.PendingTurns},
		Settings:  settings(row.MemoryStrategy, row.MaxTurns, row.FromTool),
		PutOff:    row.PutOff,
		Draft: brief.Draft{
			PlanSHA256: row.DraftPlan, Pieces: row.DraftPieces, Summary: row.DraftSummary, Tokens: row.DraftTokens,
			Duration: time.Duration(row.DraftDurationMs) * time.Millisecond,
		},
	}
	if json.Unmarshal(row.DraftStats, &s.Draft.Stats) != nil {
		s.Draft = brief.Draft{} // written by hand: the change begins anew
	}
	return s
}

// Renew extends the lease. It reports whether the lease was still held.
func (b *Briefs) Renew(ctx context.Context, chatID uuid.UUID, lease brief.Lease) (bool, error) {
	return changeAsOwner(ctx, b.pool, chatID, "renew lease", dbsqlc.RenewFoldLease, dbsqlc.RenewFoldLeaseParams{
		LeaseSeconds: lease.Duration.Seconds(), ChatID: chatID, LeaseToken: lease.Token,
	})
}

// Release ends the lease.
func (b *Briefs) Release(ctx context.Context, chatID uuid.UUID, lease brief.Lease) error {
	_, err := sendAsOwner(ctx, b.pool, chatID, "release lease", func(batch *pgx.Batch) {
		dbsqlc.ReleaseFoldLease.Queue(batch, dbsqlc.ReleaseFoldLeaseParams{ChatID: chatID, LeaseToken: lease.Token})
	})
	return err
}

// Settle ends the lease, and notes that there is nothing to fold until the buffer changes, if it is as it was planned from.
func (b *Briefs) Settle(ctx context.Context, chatID uuid.UUID, lease brief.Lease, planned brief.Counters) error {
	_, err := sendAsOwner(ctx, b.pool, chatID, "settle fold", func(batch *pgx.Batch) {
		dbsqlc.LockOwnBrief.Queue(batch, chatID)
		dbsqlc.SettleFold.Queue(batch, dbsqlc.SettleFoldParams{
			ChatID: chatID, LeaseToken: lease.Token, PlannedTokens: planned.PendingTokens, PlannedTurns: planned.PendingTurns,
		})
	})
	return err
}

// PutOff ends the lease, and deletes the brief's text if the brief is stale. It reports whether the lease was still
// held and no message was changed since the claim.
func (b *Briefs) PutOff(ctx context.Context, change brief.Change, failure string, delay brief.Delay) (put brief.PutOff, done bool, err error) {
	_, err = sendAsOwner(ctx, b.pool, change.ChatID, "put off fold", func(batch *pgx.Batch) {
		put, done = brief.PutOff{}, false
		params := dbsqlc.PutOffFoldParams{
			ChatID: change.ChatID, LeaseToken: nullID(change.Lease.Token), PlannedEditCount: change.Planned.EditCount,
			Failure: failure, SoonSeconds: []float64{}, FirstSeconds: delay.First.Seconds(), LongestSeconds: delay.Longest.Seconds(),
		}
		for _, wait := range delay.Soon {
			params.SoonSeconds = append(params.SoonSeconds, wait.Seconds())
		}
		dbsqlc.PutOffFold.Read(batch, params, func(row dbsqlc.PutOffFoldRow) {
			put, done = brief.PutOff{Failures: row.FoldFailures, Wait: time.Duration(row.WaitSeconds * float64(time.Second))}, true
		})
	})
	return put, done, err
}

// SaveDraft stores the progress of a change and renews its lease. It reports whether the change can still be committed.
func (b *Briefs) SaveDraft(ctx context.Context, change brief.Change, draft brief.Draft) (bool, error) {
	stats, err := json.Marshal(draft.Stats)
	if err != nil {
		return false, failed("save draft", err)
	}
	return changeAsOwner(ctx, b.pool, change.ChatID, "save draft", dbsqlc.WriteDraft, dbsqlc.WriteDraftParams{
		ChatID: change.ChatID, LeaseToken: change.Lease.Token, LeaseSeconds: change.Lease.Duration.Seconds(),
		PlannedVersion: change.Planned.Brief.Version, PlannedEditCount: change.Planned.EditCount,
		PlanSha256: draft.PlanSHA256, PiecesDone: draft.Pieces, Pieces: len(change.Plan.Pieces),
		GlobalSummary: draft.Summary, Tokens: draft.Tokens, Stats: stats, DurationMs: int(draft.Duration.Milliseconds()),
	})
}

// Commit writes the brief and its revision, completes the job and runs within, all in one transaction. It returns
// false, and writes nothing, if the brief has changed since the fold was planned.
func (b *Briefs) Commit(ctx context.Context, change brief.Change, within func(context.Context, pgx.Tx, brief.Counters) error) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var after []brief.Counters
	batch, err := b.commitBatch(change, &after)
	if err != nil {
		return false, failed("commit brief", err)
	}
	err = sendInTx(ctx, b.pool, batch, func(tx pgx.Tx) error {
		if len(after) == 0 {
			return errOvertaken
		}
		return within(ctx, tx, after[0])
	})
	return committed("commit brief", err)
}

// commitBatch begins the transaction and queues everything but within. after gets no row if the brief changed.
func (b *Briefs) commitBatch(change brief.Change, after *[]brief.Counters) (*pgx.Batch, error) {
	planned, plan, stats := change.Planned.Brief, change.Plan, change.Stats
	details, errDetails := json.Marshal(map[string]any{
		"tokens_before": planned.Tokens, "tokens_after": change.Tokens,
		"turns_tokens": plan.Tokens, "calls": stats.Calls, "refusals": stats.Refusals,
	})
	output, err := json.Marshal(change.Report())
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	dbsqlc.ActAsChatOwner.Queue(batch, change.ChatID)
	dbsqlc.LockOwnBrief.Queue(batch, change.ChatID)
	dbsqlc.WriteBrief.Read(batch, dbsqlc.WriteBriefParams{
		ChatID: change.ChatID, LeaseToken: change.Lease.Token, PlannedEditCount: change.Planned.EditCount,
		PlannedVersion: planned.Version, PlannedLastSummarizedMessageID: nullID(planned.LastSummarizedMessageID),
		GlobalSummary: change.Summary, BriefTokens: change.Tokens,
		CoveredSeq: plan.SeqTo, LastSummarizedMessageID: nullID(plan.LastSummarizedMessageID),
		Kind: string(change.Kind), SeqFrom: plan.SeqFrom, Turns: plan.Turns,
		InputTokens: stats.InputTokens, OutputTokens: stats.OutputTokens, DurationMs: int(change.Duration.Milliseconds()),
		PromptMode: string(stats.Mode), PromptRef: stats.PromptRef, Model: stats.Model,
		InputSha256: stats.InputSHA256, Details: details,
	}, all(after))
	if change.Kind == brief.KindRebuild {
		dbsqlc.RedactRevisions.Queue(batch, dbsqlc.RedactRevisionsParams{ChatID: change.ChatID, BeforeVersion: change.Version()})
	}
	dbsqlc.IndexTurns.Queue(batch, dbsqlc.IndexTurnsParams{ChatID: change.ChatID, Upto: &plan.SeqTo})
	queueActAsServer(batch)
	if change.JobID != 0 {
		dbsqlc.CompleteJob.Queue(batch, dbsqlc.CompleteJobParams{Output: output, ID: change.JobID})
	}
	return batch, errors.Join(errDetails, err)
}
