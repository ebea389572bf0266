package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/arcoscribe/throughline/internal/fold"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxFoldRows bounds what one fold reads of a long backlog. One fold takes far less; the next one
// reads on from there.
const maxFoldRows = 2000

// Briefs is the store of briefs and their revisions.
type Briefs struct {
	pool *pgxpool.Pool
}

var _ fold.Store = (*Briefs)(nil)

// NewBriefs makes the store.
func NewBriefs(pool *pgxpool.Pool) *Briefs {
	return &Briefs{pool: pool}
}

// asOwner runs work in a transaction that acts as the chat's owner. Without the chat it does nothing
// and reports false.
func (b *Briefs) asOwner(ctx context.Context, chatID uuid.UUID, work func(tx pgx.Tx, q *dbsqlc.Queries) error) (bool, error) {
	found := false
	err := inTx(ctx, b.pool, func(tx pgx.Tx) error {
		q := dbsqlc.New(tx)
		_, err := q.ActAsChatOwner(ctx, chatID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("act as owner: %w", err)
		}
		found = true
		return work(tx, q)
	})
	return found, err
}

// Claim reads what a fold needs under the chat's advisory lock and takes the lease.
func (b *Briefs) Claim(ctx context.Context, chatID uuid.UUID, kind fold.Kind, lease fold.Lease, wanted func(fold.Snapshot) bool) (fold.Snapshot, fold.Claimed, error) {
	var snapshot fold.Snapshot
	claimed := fold.Busy
	found, err := b.asOwner(ctx, chatID, func(_ pgx.Tx, q *dbsqlc.Queries) error {
		free, err := q.LockBrief(ctx, chatID.String())
		if err != nil || !free {
			return err
		}
		row, err := q.LockAndReadBrief(ctx, chatID)
		if err != nil || row.Leased {
			return err
		}
		snapshot = snapshotOf(row)
		if snapshot.Messages, err = readMessages(ctx, q, chatID, kind, row.CoveredSeq); err != nil {
			return err
		}
		claimed = fold.NotWanted
		if !wanted(snapshot) {
			return nil
		}
		claimed = fold.Taken
		return q.TakeFoldLease(ctx, dbsqlc.TakeFoldLeaseParams{ChatID: chatID, LeaseToken: lease.Token, LeaseSeconds: lease.Duration.Seconds()})
	})
	if err != nil {
		return fold.Snapshot{}, fold.Busy, fmt.Errorf("claim brief: %w", err)
	}
	if !found {
		return fold.Snapshot{}, fold.ChatGone, nil
	}
	return snapshot, claimed, nil
}

func snapshotOf(row dbsqlc.LockAndReadBriefRow) fold.Snapshot {
	return fold.Snapshot{
		UserID: row.UserID, Brief: brief(row), EditCount: row.EditCount,
		Counters: fold.Counters{BriefTokens: row.BriefTokens, PendingTokens: row.PendingTokens, PendingTurns: row.PendingTurns},
	}
}

// readMessages gives the messages after the brief for a fold, and those that it covers for a rebuild.
func readMessages(ctx context.Context, q *dbsqlc.Queries, chatID uuid.UUID, kind fold.Kind, coveredSeq int64) ([]memory.Message, error) {
	params := dbsqlc.ReadRangeParams{ChatID: chatID, AfterSeq: coveredSeq, UpToSeq: math.MaxInt64, MaxRows: maxFoldRows}
	if kind == fold.KindRebuild {
		params = dbsqlc.ReadRangeParams{ChatID: chatID, UpToSeq: coveredSeq, MaxRows: math.MaxInt32}
	}
	rows, err := q.ReadRange(ctx, params)
	messages := make([]memory.Message, len(rows))
	for i, row := range rows {
		messages[i] = message(row)
	}
	return messages, err
}

// Renew keeps the lease alive.
func (b *Briefs) Renew(ctx context.Context, chatID uuid.UUID, lease fold.Lease) (bool, error) {
	renewed := false
	_, err := b.asOwner(ctx, chatID, func(_ pgx.Tx, q *dbsqlc.Queries) error {
		rows, err := q.RenewFoldLease(ctx, dbsqlc.RenewFoldLeaseParams{ChatID: chatID, LeaseToken: lease.Token, LeaseSeconds: lease.Duration.Seconds()})
		renewed = rows == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("renew lease: %w", err)
	}
	return renewed, nil
}

// Release gives the lease back.
func (b *Briefs) Release(ctx context.Context, chatID uuid.UUID, lease fold.Lease) error {
	_, err := b.asOwner(ctx, chatID, func(_ pgx.Tx, q *dbsqlc.Queries) error {
		return q.ReleaseFoldLease(ctx, dbsqlc.ReleaseFoldLeaseParams{ChatID: chatID, LeaseToken: lease.Token})
	})
	if err != nil {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}

// errLost rolls a commit back whose compare-and-set found another brief than planned.
var errLost = errors.New("the brief changed since the fold was planned")

// Commit writes the brief, its revision and whatever within adds, or nothing.
func (b *Briefs) Commit(ctx context.Context, change fold.Change, within func(context.Context, pgx.Tx, fold.Counters) error) (bool, error) {
	found, err := b.asOwner(ctx, change.ChatID, func(tx pgx.Tx, q *dbsqlc.Queries) error {
		if err := q.AwaitBriefLock(ctx, change.ChatID.String()); err != nil {
			return err
		}
		// Locked by a statement of its own: the next one then counts what is left of the buffer with
		// everything in sight that committed while we waited.
		if _, err := q.LockAndReadBrief(ctx, change.ChatID); err != nil {
			return err
		}
		written, err := q.WriteBrief(ctx, writeBrief(change))
		if err != nil {
			return err
		}
		if written == 0 {
			return errLost
		}
		return finishCommit(ctx, tx, q, change, within)
	})
	if errors.Is(err, errLost) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("commit brief: %w", err)
	}
	return found, nil
}

func finishCommit(ctx context.Context, tx pgx.Tx, q *dbsqlc.Queries, change fold.Change, within func(context.Context, pgx.Tx, fold.Counters) error) error {
	revision, err := revisionOf(change)
	if err != nil {
		return err
	}
	if err := q.InsertRevision(ctx, revision); err != nil {
		return err
	}
	if change.Kind == fold.KindRebuild {
		if err := q.RedactRevisions(ctx, dbsqlc.RedactRevisionsParams{ChatID: change.ChatID, BeforeVersion: change.Version()}); err != nil {
			return err
		}
	}
	after, err := q.ReadCounters(ctx, change.ChatID)
	if err != nil {
		return err
	}
	if err := q.ActAsServer(ctx); err != nil {
		return err
	}
	return within(ctx, tx, fold.Counters(after))
}

func writeBrief(change fold.Change) dbsqlc.WriteBriefParams {
	return dbsqlc.WriteBriefParams{
		ChatID: change.ChatID, GlobalSummary: change.Summary, BriefTokens: change.Tokens, CoveredSeq: change.Plan.SeqTo,
		LastSummarizedMessageID: nullable(change.Plan.LastSummarizedMessageID),
		PlannedVersion:          change.Planned.Brief.Version, PlannedEditCount: change.Planned.EditCount,
		PlannedLastSummarizedMessageID: nullable(change.Planned.Brief.LastSummarizedMessageID),
		LeaseToken:                     change.Lease.Token,
	}
}

func revisionOf(change fold.Change) (dbsqlc.InsertRevisionParams, error) {
	asked := change.Asked
	details, err := json.Marshal(map[string]any{
		"tokens_before": change.Planned.Brief.Tokens, "tokens_after": change.Tokens,
		"turns_tokens": change.Plan.Tokens, "calls": asked.Calls, "refusals": asked.Refusals,
	})
	return dbsqlc.InsertRevisionParams{
		ChatID: change.ChatID, UserID: change.Planned.UserID, Version: change.Version(), Kind: string(change.Kind),
		SeqFrom: change.Plan.SeqFrom, SeqTo: change.Plan.SeqTo, Turns: change.Plan.Turns, GlobalSummary: change.Summary,
		InputTokens: asked.InputTokens, OutputTokens: asked.OutputTokens, PromptMode: string(asked.Mode), PromptRef: asked.PromptRef,
		Model: asked.Model, DurationMs: int(change.Duration / time.Millisecond), InputSha256: asked.InputSHA256, Details: details,
	}, err
}
