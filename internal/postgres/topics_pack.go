package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/topics"
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
		queueMany(batch, queries.PackExists, dbsqlc.PackExistsParams{TopicID: topicID, ChatID: chatID}, func(uuid.UUID) { claim = lease.Occupied })
		params := dbsqlc.PackClaimParams{LeaseToken: held.Token, LeaseSeconds: held.Duration.Seconds(), TopicID: topicID, ChatID: chatID}
		queueMany(batch, queries.PackClaim, params, func(row dbsqlc.PackClaimRow) { s, claim = packSnapshot(row), lease.Taken })
		queue(batch, queries.PackMessages, dbsqlc.PackMessagesParams{TopicID: topicID, ChatID: chatID}).Query(messages(&s.Messages))
	})
	s.UserID = owner
	return s, claim, err
}

func packSnapshot(row dbsqlc.PackClaimRow) pack.Snapshot {
	return pack.Snapshot{
		Version: row.Version, State: topics.State(row.State), Current: row.Current, Rehydrated: row.Rehydrated, Stale: row.Stale, PutOff: row.PutOff,
		Summary: row.Summary, SummaryTokens: row.SummaryTokens, SummarySeq: row.SummarySeq, CompactedSeq: row.CompactedSeq,
		Archive: archiveOf(row.Archive, row.ArchiveMessages, row.ArchiveRawBytes, row.ArchiveSha256),
	}
}

// archiveOf returns an archive from its columns, nil for none.
func archiveOf(data []byte, messages, rawBytes *int, sum []byte) *topics.Archive {
	if data == nil {
		return nil
	}
	return &topics.Archive{Data: data, Messages: zeroNull(messages), RawBytes: zeroNull(rawBytes), SHA256: sum}
}

// Renew extends the lease. It reports whether the lease was still held.
func (p *Packs) Renew(ctx context.Context, chatID, topicID uuid.UUID, held lease.Lease) (renewed bool, err error) {
	_, err = sendAsOwner(ctx, p.pool, chatID, "renew topic", func(batch *pgx.Batch) {
		queue(batch, queries.PackRenew, dbsqlc.PackRenewParams{
			LeaseSeconds: held.Duration.Seconds(), TopicID: topicID, LeaseToken: held.Token,
		}).Exec(affects(1, &renewed))
	})
	return renewed && err == nil, err
}

// Release ends the lease.
func (p *Packs) Release(ctx context.Context, chatID, topicID uuid.UUID, held lease.Lease) error {
	_, err := sendAsOwner(ctx, p.pool, chatID, "release topic", func(batch *pgx.Batch) {
		queueExec(batch, queries.PackRelease, dbsqlc.PackReleaseParams{TopicID: topicID, LeaseToken: held.Token})
	})
	return err
}

// PutOff ends the lease, and lets the topic be due again after a wait.
func (p *Packs) PutOff(ctx context.Context, chatID, topicID uuid.UUID, held lease.Lease, wait time.Duration) error {
	_, err := sendAsOwner(ctx, p.pool, chatID, "put off topic", func(batch *pgx.Batch) {
		queueExec(batch, queries.PackPutOff, dbsqlc.PackPutOffParams{WaitSeconds: wait.Seconds(), TopicID: topicID, LeaseToken: held.Token})
	})
	return err
}

// errTopicChanged rolls a commit back whose compare-and-set found another topic than planned.
var errTopicChanged = errors.New("the topic changed since its compaction was planned")

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
	queue(batch, queries.ActAsChatOwner, change.ChatID)
	queueExec(batch, queries.LockOwnBrief, change.ChatID)
	queueMany(batch, queries.PackCommit, packCommit(&change), func(int64) { written = true })
	queueActAsServer(batch)
	if change.JobID != 0 {
		queueExec(batch, queries.CompleteJob, dbsqlc.CompleteJobParams{Output: output, ID: change.JobID})
	}
	err = sendInTx(ctx, p.pool, batch, func(tx pgx.Tx) error {
		switch {
		case !written:
			return errTopicChanged
		case next == nil:
			return nil
		}
		return next(ctx, tx)
	})
	if errors.Is(err, errTopicChanged) {
		return false, nil
	}
	return err == nil, failed("commit topic", err)
}

func packCommit(change *pack.Change) dbsqlc.PackCommitParams {
	data, count, rawBytes, sum := archiveColumns(change.Archive)
	checked := max(change.SummarySeq, change.CompactedSeq)
	messages := 0
	for n := range change.Planned.Messages {
		if change.Planned.Messages[n].Seq <= checked {
			messages++
		}
	}
	return dbsqlc.PackCommitParams{
		TopicID: change.TopicID, ChatID: change.ChatID, LeaseToken: change.Lease.Token, PlannedVersion: change.Planned.Version,
		CheckedSeq: checked, CheckedMessages: int64(messages),
		Summary: change.Summary, SummaryTokens: change.Tokens, SummarySeq: change.SummarySeq, CompactedSeq: change.CompactedSeq,
		Archive: data, ArchiveMessages: count, ArchiveRawBytes: rawBytes, ArchiveSha256: sum,
		Stale: change.Stale, Rehydrated: change.Rehydrated, WaitSeconds: change.Wait.Seconds(), Summarized: change.Plan.Summarize,
	}
}

// archiveColumns is the reverse of archiveOf.
func archiveColumns(a *topics.Archive) (data []byte, messages, rawBytes *int, sum []byte) {
	if a == nil {
		return nil, nil, nil, nil
	}
	return a.Data, &a.Messages, &a.RawBytes, a.SHA256
}

// rehydrateTopic unpacks a topic to which the conversation has returned: all of its messages are active, and its turns get
// vectors again. It reports whether the archive was broken, which loses nothing: the messages are what counts. The
// transaction acts as the chat's owner, and holds the locks of the brief and the topic.
func rehydrateTopic(ctx context.Context, tx pgx.Tx, chatID, topicID uuid.UUID) (broken bool, err error) {
	q := dbsqlc.New(tx)
	found, err := q.PackReadArchive(ctx, dbsqlc.PackReadArchiveParams{TopicID: topicID, ChatID: chatID})
	if err != nil {
		return false, failed("read archive", err)
	}
	for _, row := range found {
		archive := archiveOf(row.Archive, row.ArchiveMessages, row.ArchiveRawBytes, row.ArchiveSha256)
		broken = !archiveHolds(archive, row.Messages)
	}
	if err := q.PackRehydrate(ctx, dbsqlc.PackRehydrateParams{TopicID: topicID, ChatID: chatID}); err != nil {
		return broken, failed("unpack topic", err)
	}
	return broken, failed("wake turns", q.PackWakeTurns(ctx, dbsqlc.PackWakeTurnsParams{ChatID: chatID, TopicID: topicID}))
}

// archiveHolds reports whether an archive is whole and holds so many messages.
func archiveHolds(archive *topics.Archive, messages int) bool {
	if archive == nil {
		return messages == 0
	}
	_, err := topics.Unpack(*archive)
	return err == nil && archive.Messages == messages
}

// archiveTopic packs all messages of a topic that has faded, and takes its turns' vectors. It needs no model: the summary
// stays what it is. The transaction acts as the chat's owner, and holds the locks of the brief and the topic.
func archiveTopic(ctx context.Context, tx pgx.Tx, chatID, topicID uuid.UUID) error {
	var said []memory.Message
	q := dbsqlc.New(tx)
	rows, err := tx.Query(ctx, dbsqlc.PackMessages, topicID, chatID)
	if err == nil {
		err = messages(&said)(rows)
	}
	if err != nil {
		return failed("read topic", err)
	}
	params := dbsqlc.PackArchiveParams{TopicID: topicID, ChatID: chatID}
	if len(said) > 0 {
		archive, err := topics.Pack(pack.Entries(said))
		if err != nil {
			return err
		}
		params.Archive, params.ArchiveMessages, params.ArchiveRawBytes, params.ArchiveSha256 = archiveColumns(&archive)
	}
	if err := q.PackArchive(ctx, params); err != nil {
		return failed("archive topic", err)
	}
	return failed("let turns rest", q.PackRestTurns(ctx, dbsqlc.PackRestTurnsParams{ChatID: chatID, TopicID: topicID}))
}
