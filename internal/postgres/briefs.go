package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Briefs is the store of briefs and their revisions.
type Briefs struct {
	pool *pgxpool.Pool
}

var _ brief.Store = (*Briefs)(nil)

// NewBriefs makes the store.
func NewBriefs(pool *pgxpool.Pool) *Briefs {
	return &Briefs{pool: pool}
}

// asOwner makes a batch whose statements act as the chat's owner, or as nobody when the chat is gone. As
// every batch without a begin it is one transaction in one round trip.
func asOwner(chatID uuid.UUID, owner *uuid.UUID) *pgx.Batch {
	batch := &pgx.Batch{}
	queueOwner(batch, chatID, owner)
	return batch
}

func queueOwner(batch *pgx.Batch, chatID uuid.UUID, owner *uuid.UUID) {
	batch.Queue(dbsqlc.ActAsChatOwner, chatID).Query(each(func(row dbsqlc.ActAsChatOwnerRow) { *owner = row.UserID }))
}

// Claim takes the lease and reads what a fold needs.
func (b *Briefs) Claim(ctx context.Context, chatID uuid.UUID, kind brief.Kind, lease brief.Lease, maxMessages int) (brief.Snapshot, brief.Claimed, error) {
	var s brief.Snapshot
	var claimed brief.Claimed
	err := send(ctx, b.pool, func() *pgx.Batch {
		s, claimed = brief.Snapshot{}, brief.Busy
		batch := asOwner(chatID, &s.UserID)
		batch.Queue(dbsqlc.ClaimBrief, lease.Token, lease.Duration.Seconds(), chatID).Query(each(func(row dbsqlc.ClaimBriefRow) {
			claimed = brief.Taken
			s.Brief, s.EditCount = briefOf(dbsqlc.ReadBriefRow{
				Version: row.Version, CoveredSeq: row.CoveredSeq, BriefTokens: row.BriefTokens, Stale: row.Stale, ClearedSeq: row.ClearedSeq,
				Readable: row.Readable, GlobalSummary: row.GlobalSummary, LastSummarizedMessageID: row.LastSummarizedMessageID,
			}), row.EditCount
			s.Settings = settings(row.MemoryStrategy, row.MaxTurns)
			s.Expired = row.Expired
			s.Counters = brief.Counters{BriefTokens: row.BriefTokens, PendingTokens: row.PendingTokens, PendingTurns: row.PendingTurns}
		}))
		batch.Queue(dbsqlc.ReadFoldable, chatID, kind == brief.KindRebuild, lease.Token, maxMessages).Query(messages(&s.Messages))
		return batch
	})
	switch {
	case err != nil:
		return brief.Snapshot{}, brief.Busy, fmt.Errorf("claim brief: %w", err)
	case s.UserID == uuid.Nil:
		return brief.Snapshot{}, brief.ChatGone, nil
	}
	return s, claimed, nil
}

// Renew keeps the lease alive.
func (b *Briefs) Renew(ctx context.Context, chatID uuid.UUID, lease brief.Lease) (renewed bool, err error) {
	err = send(ctx, b.pool, func() *pgx.Batch {
		batch := asOwner(chatID, new(uuid.UUID))
		batch.Queue(dbsqlc.RenewFoldLease, lease.Duration.Seconds(), chatID, lease.Token).Exec(func(tag pgconn.CommandTag) error {
			renewed = tag.RowsAffected() == 1
			return nil
		})
		return batch
	})
	if err != nil {
		return false, fmt.Errorf("renew lease: %w", err)
	}
	return renewed, nil
}

// Release gives the lease back.
func (b *Briefs) Release(ctx context.Context, chatID uuid.UUID, lease brief.Lease) error {
	err := send(ctx, b.pool, func() *pgx.Batch {
		batch := asOwner(chatID, new(uuid.UUID))
		batch.Queue(dbsqlc.ReleaseFoldLease, chatID, lease.Token)
		return batch
	})
	if err != nil {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}

// errLost rolls a commit back whose compare-and-set found another brief than planned.
var errLost = errors.New("the brief changed since the fold was planned")

// Commit writes the brief, its revision, the end of the job and whatever within adds, or nothing.
func (b *Briefs) Commit(ctx context.Context, change brief.Change, within func(context.Context, pgx.Tx, brief.Counters) error) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var after []brief.Counters
	batch, err := commitBatch(change, func(row dbsqlc.WriteBriefRow) { after = append(after, brief.Counters(row)) })
	if err != nil {
		return false, fmt.Errorf("commit brief: %w", err)
	}
	err = sendInTx(ctx, b.pool, batch, func(tx pgx.Tx) error {
		if len(after) == 0 {
			return errLost
		}
		return within(ctx, tx, after[0])
	})
	if errors.Is(err, errLost) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("commit brief: %w", err)
	}
	return true, nil
}

// commitBatch begins a transaction with all that can be said in one round trip.
func commitBatch(change brief.Change, written func(dbsqlc.WriteBriefRow)) (*pgx.Batch, error) {
	details, errDetails := json.Marshal(map[string]any{
		"tokens_before": change.Planned.Brief.Tokens, "tokens_after": change.Tokens,
		"turns_tokens": change.Plan.Tokens, "calls": change.Asked.Calls, "refusals": change.Asked.Refusals,
	})
	output, err := json.Marshal(change.Report())
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	queueOwner(batch, change.ChatID, new(uuid.UUID))
	batch.Queue(dbsqlc.LockBrief, change.ChatID)
	planned, plan, asked := change.Planned.Brief, change.Plan, change.Asked
	batch.Queue(dbsqlc.WriteBrief, change.Summary, nullable(plan.LastSummarizedMessageID), change.Tokens, plan.SeqTo,
		change.ChatID, planned.Version, nullable(planned.LastSummarizedMessageID), change.Planned.EditCount, change.Lease.Token,
		string(change.Kind), plan.SeqFrom, plan.Turns, asked.InputTokens, asked.OutputTokens, string(asked.Mode), asked.PromptRef,
		asked.Model, int(change.Duration.Milliseconds()), asked.InputSHA256, json.RawMessage(details)).Query(each(written))
	if change.Kind == brief.KindRebuild {
		batch.Queue(dbsqlc.RedactRevisions, change.ChatID, change.Version())
	}
	batch.Queue(dbsqlc.ActAsServer)
	if change.JobID != 0 {
		batch.Queue(dbsqlc.CompleteJob, json.RawMessage(output), change.JobID)
	}
	return batch, errors.Join(errDetails, err)
}
