package postgres

import (
	"context"
	"encoding/json"

	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Packs is the store of compactions of topics.
type Packs struct {
	Pool   *pgxpool.Pool
	Insert Insert
}

var _ topics.CompactStore = (*Packs)(nil)

// Read reads a topic with all of its messages.
func (p *Packs) Read(ctx context.Context, chatID, topicID uuid.UUID) (topics.CompactSnapshot, bool, error) {
	var s topics.CompactSnapshot
	found := false
	owner, err := sendAsOwner(ctx, p.Pool, chatID, "read topic", func(batch *pgx.Batch) {
		s, found = topics.CompactSnapshot{}, false
		dbsqlc.PackRead.Read(batch, dbsqlc.PackReadParams{TopicID: topicID, ChatID: chatID}, func(row topics.CompactSnapshot) { s, found = row, true })
		dbsqlc.PackMessages.Read(batch, dbsqlc.PackMessagesParams{TopicID: topicID, ChatID: chatID}, messages(&s.Messages))
	})
	s.UserID = owner
	return s, found, err
}

// Commit writes a compaction, completes the job and inserts the next one, if there is more, all in one transaction. It returns
// false, and writes nothing, if the topic or its messages have changed since they were read.
func (p *Packs) Commit(ctx context.Context, change topics.Packed) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	output, err := json.Marshal(change.Report)
	if err != nil {
		return false, failed("commit topic", err)
	}
	written, held := false, false
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	dbsqlc.ActAsChatOwner.Queue(batch, change.ChatID)
	dbsqlc.LockOwnBrief.Queue(batch, change.ChatID)
	dbsqlc.PackCommit.Read(batch, packCommit(&change), func(int64) { written = true })
	queueActAsServer(batch)
	if change.Wait > 0 {
		wait := postponed(change.Lease, "refused", work.Delay{First: change.Wait, Longest: change.Wait})
		dbsqlc.PutOffWork.Read(batch, wait, func(row dbsqlc.PutOffWorkRow) { held = row.Times > 0 })
	} else {
		queueEnd(batch, change.Lease, &held)
	}
	if change.JobID != 0 {
		dbsqlc.CompleteJob.Queue(batch, dbsqlc.CompleteJobParams{Output: output, ID: change.JobID})
	}
	err = sendInTx(ctx, p.Pool, batch, func(tx pgx.Tx) error {
		switch {
		case !written || !held:
			return errOvertaken
		case !change.More:
			return nil
		}
		return p.Insert.Compact(ctx, tx, change.ChatID, change.TopicID)
	})
	return committed("commit topic", err)
}

func packCommit(change *topics.Packed) dbsqlc.PackCommitParams {
	checked := max(change.SummarySeq, change.CompactedSeq)
	messages := 0
	for n := range change.Planned.Messages {
		if change.Planned.Messages[n].Seq <= checked {
			messages++
		}
	}
	return dbsqlc.PackCommitParams{
		TopicID: change.TopicID, ChatID: change.ChatID, PlannedVersion: change.Planned.Version,
		CheckedSeq: checked, CheckedMessages: int64(messages), Title: change.Title, TitleSeq: change.TitleSeq,
		Summary: change.Summary, SummaryTokens: change.Tokens, SummarySeq: change.SummarySeq, CompactedSeq: change.CompactedSeq,
		CompactedMessages: change.Report.Archived, Stale: change.Stale, Rehydrated: change.Rehydrated,
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
