package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Briefs is the store of briefs and their revisions. A commit also indexes the turns that the brief covers then.
type Briefs struct {
	Pool   *pgxpool.Pool
	Insert Insert
}

var _ brief.Store = (*Briefs)(nil)

// Read reads what a fold needs.
func (b *Briefs) Read(ctx context.Context, chatID uuid.UUID, maxMessages int) (brief.Snapshot, bool, error) {
	var s brief.Snapshot
	found := false
	owner, err := sendAsOwner(ctx, b.Pool, chatID, "read brief", func(batch *pgx.Batch) {
		s, found = brief.Snapshot{}, false
		dbsqlc.ReadFold.Read(batch, chatID, func(row dbsqlc.ReadFoldRow) { s, found = snapshot(row), true })
		dbsqlc.ReadFoldable.Read(batch, dbsqlc.ReadFoldableParams{ChatID: chatID, MaxRows: maxMessages}, messages(&s.Messages))
	})
	s.UserID = owner
	return s, found, err
}

func snapshot(row dbsqlc.ReadFoldRow) brief.Snapshot {
	s := brief.Snapshot{
		Brief:     row.Brief,
		EditCount: row.EditCount,
		Counters:  brief.Counters{BriefTokens: row.Tokens, PendingTokens: row.PendingTokens, PendingTurns: row.PendingTurns},
		Settings:  settings(row.MemoryStrategy, row.MaxTurns, row.FromTool),
		Draft: brief.Draft{
			PlanSHA256: row.DraftPlan, PiecesDone: row.DraftPieces, Summary: row.DraftSummary, Tokens: row.DraftTokens,
			Duration: time.Duration(row.DraftDurationMs) * time.Millisecond,
		},
	}
	if json.Unmarshal(row.DraftStats, &s.Draft.Stats) != nil {
		s.Draft = brief.Draft{} // written by hand: the change begins again
	}
	return s
}

// Settle notes that there is nothing to fold until the buffer changes, if it is as it was planned from.
func (b *Briefs) Settle(ctx context.Context, chatID uuid.UUID, planned brief.Counters) error {
	_, err := sendAsOwner(ctx, b.Pool, chatID, "settle fold", func(batch *pgx.Batch) {
		dbsqlc.LockOwnBrief.Queue(batch, chatID)
		dbsqlc.SettleFold.Queue(batch, dbsqlc.SettleFoldParams{
			ChatID: chatID, PlannedTokens: planned.PendingTokens, PlannedTurns: planned.PendingTurns,
		})
	})
	return err
}

// PutOff puts a fold off, unless a message has changed since it was planned.
func (b *Briefs) PutOff(ctx context.Context, change brief.Change, failure string, delay work.Delay) (times int, wait time.Duration, err error) {
	err = inTx(ctx, b.Pool, func(tx pgx.Tx) error {
		times, wait = 0, 0
		planned, row := false, dbsqlc.PutOffWorkRow{}
		batch := &pgx.Batch{}
		dbsqlc.ActAsChatOwner.Queue(batch, change.ChatID)
		as := dbsqlc.LockPlannedBriefParams{ChatID: change.ChatID, PlannedEditCount: change.Planned.EditCount}
		dbsqlc.LockPlannedBrief.Read(batch, as, func(uuid.UUID) { planned = true })
		queueActAsServer(batch)
		dbsqlc.PutOffWork.Read(batch, postponed(change.Lease, failure, delay), set(&row))
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		if !planned || row.Times == 0 {
			return errOvertaken
		}
		times, wait = row.Times, seconds(row.WaitSeconds)
		return nil
	})
	_, err = committed("put off fold", err)
	return times, wait, err
}

// SaveDraft stores the progress of a change and renews its lease. It reports whether the change can still be committed.
func (b *Briefs) SaveDraft(ctx context.Context, change brief.Change) (bool, error) {
	stats, err := json.Marshal(change.Stats)
	if err != nil {
		return false, failed("save draft", err)
	}
	return committed("save draft", inTx(ctx, b.Pool, func(tx pgx.Tx) error {
		planned, held := false, false
		batch := &pgx.Batch{}
		dbsqlc.ActAsChatOwner.Queue(batch, change.ChatID)
		dbsqlc.WriteDraft.Queue(batch, dbsqlc.WriteDraftParams{
			ChatID: change.ChatID, PlannedVersion: change.Planned.Brief.Version, PlannedEditCount: change.Planned.EditCount,
			PlanSha256: change.PlanSHA256, PiecesDone: change.PiecesDone, Pieces: len(change.Plan.Pieces),
			GlobalSummary: change.Summary, Tokens: change.Tokens, Stats: stats, DurationMs: int(change.Duration.Milliseconds()),
		}).Exec(affects(1, &planned))
		queueActAsServer(batch)
		dbsqlc.RenewWork.Queue(batch, renewal(change.Lease)).Exec(affects(1, &held))
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		if !planned || !held {
			return errOvertaken
		}
		return nil
	}))
}

// Commit writes the brief and its revision, completes the job and inserts the next one, all in one transaction. It returns
// false, and writes nothing, if the brief has changed since the fold was planned.
func (b *Briefs) Commit(ctx context.Context, change brief.Change, due func(after brief.Counters) bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var after []brief.Counters
	held := false
	batch, err := b.commitBatch(change, &after, &held)
	if err != nil {
		return false, failed("commit brief", err)
	}
	err = sendInTx(ctx, b.Pool, batch, func(tx pgx.Tx) error {
		switch {
		case len(after) == 0 || !held:
			return errOvertaken
		case !due(after[0]):
			return nil
		}
		return b.Insert(ctx, tx, work.Job{Name: work.FoldBrief, ChatID: change.ChatID, Priority: change.Priority})
	})
	return committed("commit brief", err)
}

// commitBatch begins the transaction and queues everything but the next job. after gets no row if the brief changed, and held is false
// if another worker has the lease.
func (b *Briefs) commitBatch(change brief.Change, after *[]brief.Counters, held *bool) (*pgx.Batch, error) {
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
		ChatID: change.ChatID, PlannedEditCount: change.Planned.EditCount,
		PlannedVersion: planned.Version, PlannedLastSummarizedMessageID: nullID(planned.LastSummarizedMessageID),
		GlobalSummary: change.Summary, BriefTokens: change.Tokens,
		CoveredSeq: plan.SeqTo, LastSummarizedMessageID: nullID(plan.LastSummarizedMessageID),
		SeqFrom: plan.SeqFrom, Turns: plan.Turns,
		InputTokens: int64(stats.InputTokens), OutputTokens: int64(stats.OutputTokens), DurationMs: int(change.Duration.Milliseconds()),
		PromptMode: string(stats.Mode), PromptRef: stats.PromptRef, Model: stats.Model,
		InputSha256: stats.InputSHA256, Details: details,
	}, all(after))
	dbsqlc.IndexTurns.Queue(batch, dbsqlc.IndexTurnsParams{ChatID: change.ChatID, Upto: &plan.SeqTo})
	queueActAsServer(batch)
	queueEnd(batch, change.Lease, held)
	if change.JobID != 0 {
		dbsqlc.CompleteJob.Queue(batch, dbsqlc.CompleteJobParams{Output: output, ID: change.JobID})
	}
	return batch, errors.Join(errDetails, err)
}
