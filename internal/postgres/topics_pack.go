package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Packs is the store of compactions of topics.
type Packs struct {
	pool *pgxpool.Pool
}

var _ pack.Store = (*Packs)(nil)

// NewPacks returns the store.
func NewPacks(pool *pgxpool.Pool) *Packs {
	return &Packs{pool: pool}
}

// Claim takes the lease of a topic, and reads it with all of its messages.
func (p *Packs) Claim(ctx context.Context, chatID, topicID uuid.UUID, held lease.Lease) (pack.Snapshot, lease.Claim, error) {
	var s pack.Snapshot
	var claim lease.Claim
	owner, err := sendAsOwner(ctx, p.pool, chatID, "claim topic", func(batch *pgx.Batch) {
		s, claim = pack.Snapshot{}, lease.Gone
		dbsqlc.PackExists.Read(batch, dbsqlc.PackExistsParams{TopicID: topicID, ChatID: chatID}, func(uuid.UUID) { claim = lease.Occupied })
		params := dbsqlc.PackClaimParams{LeaseToken: held.Token, LeaseSeconds: held.Duration.Seconds(), TopicID: topicID, ChatID: chatID}
		dbsqlc.PackClaim.Read(batch, params, func(row pack.Snapshot) { s, claim = row, lease.Taken })
		dbsqlc.PackMessages.Read(batch, dbsqlc.PackMessagesParams{TopicID: topicID, ChatID: chatID}, messages(&s.Messages))
	})
	s.UserID = owner
	return s, claim, err
}

// Renew extends the lease. It reports whether the lease was still held.
func (p *Packs) Renew(ctx context.Context, chatID, topicID uuid.UUID, held lease.Lease) (bool, error) {
	return changeAsOwner(ctx, p.pool, chatID, "renew topic", dbsqlc.PackRenew, dbsqlc.PackRenewParams{
		LeaseSeconds: held.Duration.Seconds(), TopicID: topicID, LeaseToken: held.Token,
	})
}

// Release ends the lease.
func (p *Packs) Release(ctx context.Context, chatID, topicID uuid.UUID, held lease.Lease) error {
	_, err := sendAsOwner(ctx, p.pool, chatID, "release topic", func(batch *pgx.Batch) {
		dbsqlc.PackRelease.Queue(batch, dbsqlc.PackReleaseParams{TopicID: topicID, LeaseToken: held.Token})
	})
	return err
}

// PutOff ends the lease, and lets the topic be due again after a wait.
func (p *Packs) PutOff(ctx context.Context, chatID, topicID uuid.UUID, held lease.Lease, wait time.Duration) error {
	_, err := sendAsOwner(ctx, p.pool, chatID, "put off topic", func(batch *pgx.Batch) {
		dbsqlc.PackPutOff.Queue(batch, dbsqlc.PackPutOffParams{WaitSeconds: wait.Seconds(), TopicID: topicID, LeaseToken: held.Token})
	})
	return err
}

// Commit writes a compaction, completes the job and runs next, if there is one, all in one transaction. It returns false,
// and writes nothing, if the topic or its messages have changed since they were read.
func (p *Packs) Commit(ctx context.Context, change pack.Change, next func(context.Context, pgx.Tx) error) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	output, err := json.Marshal(change.Report)
	if err != nil {
		return false, failed("commit topic", err)
	}
	written := false
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	dbsqlc.ActAsChatOwner.Queue(batch, change.ChatID)
	dbsqlc.LockOwnBrief.Queue(batch, change.ChatID)
	dbsqlc.PackCommit.Read(batch, packCommit(&change), func(int64) { written = true })
	queueActAsServer(batch)
	if change.JobID != 0 {
		dbsqlc.CompleteJob.Queue(batch, dbsqlc.CompleteJobParams{Output: output, ID: change.JobID})
	}
	err = sendInTx(ctx, p.pool, batch, func(tx pgx.Tx) error {
		switch {
		case !written:
			return errOvertaken
		case next == nil:
			return nil
		}
		return next(ctx, tx)
	})
	return committed("commit topic", err)
}

func packCommit(change *pack.Change) dbsqlc.PackCommitParams {
	checked := max(change.SummarySeq, change.CompactedSeq)
	messages := 0
	for n := range change.Planned.Messages {
		if change.Planned.Messages[n].Seq <= checked {
			messages++
		}
	}
	return dbsqlc.PackCommitParams{
		TopicID: change.TopicID, ChatID: change.ChatID, LeaseToken: change.Lease.Token, PlannedVersion: change.Planned.Version,
		CheckedSeq: checked, CheckedMessages: int64(messages), Title: change.Title, TitleSeq: change.TitleSeq,
		Summary: change.Summary, SummaryTokens: change.Tokens, SummarySeq: change.SummarySeq, CompactedSeq: change.CompactedSeq,
		CompactedMessages: change.Report.Archived, Stale: change.Stale, Rehydrated: change.Rehydrated,
		WaitSeconds: change.Wait.Seconds(), Summarized: change.Plan.Summarize,
	}
}

// queueRehydrate makes a topic active again to which the conversation has returned: with all of its messages, and its turns
// get vectors again. The transaction acts as the chat's owner, and holds the locks of the brief and the topic.
func queueRehydrate(batch *pgx.Batch, chatID, topicID uuid.UUID) {
	dbsqlc.PackRehydrate.Queue(batch, dbsqlc.PackRehydrateParams{TopicID: topicID, ChatID: chatID})
	dbsqlc.PackWakeTurns.Queue(batch, dbsqlc.PackWakeTurnsParams{ChatID: chatID, TopicID: topicID})
}

// queueArchive packs all messages of a topic that has faded, and takes its turns' vectors. It needs no model: the summary
// stays what it is. The transaction acts as the chat's owner, and holds the locks of the brief and the topic.
func queueArchive(batch *pgx.Batch, chatID, topicID uuid.UUID) {
	dbsqlc.PackArchive.Queue(batch, dbsqlc.PackArchiveParams{TopicID: topicID, ChatID: chatID})
	dbsqlc.PackRestTurns.Queue(batch, dbsqlc.PackRestTurnsParams{ChatID: chatID, TopicID: topicID})
}
