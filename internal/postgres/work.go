package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Insert inserts a job in the caller's transaction, which acts as the server.
type Insert func(ctx context.Context, tx pgx.Tx, job work.Job) error

// OfChat returns what inserts a kind of job of a chat.
func (i Insert) OfChat(name string, priority int) func(context.Context, pgx.Tx, uuid.UUID) error {
	return func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
		return i(ctx, tx, work.Job{Name: name, ChatID: chatID, Priority: priority})
	}
}

// Extract inserts a chat's extract_memories, to run at a time; the zero time for at once.
func (i Insert) Extract(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, at time.Time) error {
	job := work.Job{Name: work.ExtractMemories, ChatID: chatID, Priority: work.Now, At: at}
	if !at.IsZero() {
		job.Priority = work.Later
	}
	return i(ctx, tx, job)
}

// Compact inserts a topic's compact_topic. It comes after folds of chats in which somebody is talking.
func (i Insert) Compact(ctx context.Context, tx pgx.Tx, chatID, topicID uuid.UUID) error {
	return i(ctx, tx, work.Job{Name: work.CompactTopic, ChatID: chatID, TopicID: topicID, Priority: work.Repair})
}

// Title returns what inserts a chat's title_chat, to run when it has rested.
func (i Insert) Title(rest time.Duration) func(context.Context, pgx.Tx, uuid.UUID) error {
	return func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
		return i(ctx, tx, work.Job{Name: work.TitleChat, ChatID: chatID, Priority: work.Repair, At: time.Now().Add(rest)})
	}
}

// Embed inserts a user's embed_memories.
func (i Insert) Embed(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	return i(ctx, tx, work.Job{Name: work.EmbedMemories, UserID: userID, Priority: work.Now})
}

// Work is the store of leases and failures of background work. It acts as the server itself.
type Work struct{ Pool *pgxpool.Pool }

var _ work.Store = (*Work)(nil)

// Claim takes a lease.
func (w *Work) Claim(ctx context.Context, lease work.Lease) (work.Claim, time.Duration, error) {
	row, err := try(ctx, w.Pool, dbsqlc.ClaimWork.One, dbsqlc.ClaimWorkParams{
		Kind: string(lease.Kind), Key: lease.Key, UserID: nullID(lease.UserID), ChatID: nullID(lease.ChatID),
		LeaseToken: lease.Token, LeaseSeconds: lease.Duration.Seconds(), PerUser: lease.PerUser, JobID: nullZero(lease.JobID),
	})
	return work.Claim(row.State), seconds(row.WaitSeconds), failed("claim work", err)
}

// Renew extends the lease.
func (w *Work) Renew(ctx context.Context, lease work.Lease) (bool, error) {
	renewed, err := try(ctx, w.Pool, dbsqlc.RenewWork.Exec, renewal(lease))
	return renewed > 0, failed("renew lease", err)
}

func renewal(lease work.Lease) dbsqlc.RenewWorkParams {
	return dbsqlc.RenewWorkParams{Kind: string(lease.Kind), Key: lease.Key, LeaseToken: lease.Token, LeaseSeconds: lease.Duration.Seconds()}
}

// Release ends the lease.
func (w *Work) Release(ctx context.Context, lease work.Lease, done bool) error {
	_, err := try(ctx, w.Pool, dbsqlc.EndWork.One, ended(lease, done))
	return failed("release lease", err)
}

func ended(lease work.Lease, done bool) dbsqlc.EndWorkParams {
	return dbsqlc.EndWorkParams{Kind: string(lease.Kind), Key: lease.Key, LeaseToken: lease.Token, IsDone: done}
}

// PutOff ends the lease of an item that was given up.
func (w *Work) PutOff(ctx context.Context, lease work.Lease, failure string, delay work.Delay) (int, time.Duration, error) {
	row, err := try(ctx, w.Pool, dbsqlc.PutOffWork.One, postponed(lease, failure, delay))
	return row.Times, seconds(row.WaitSeconds), failed("put work off", err)
}

// Wait ends the lease of an item that may not be tried before a time.
func (w *Work) Wait(ctx context.Context, lease work.Lease, until time.Time) error {
	_, err := try(ctx, w.Pool, dbsqlc.WaitWork.Exec, dbsqlc.WaitWorkParams{
		Until: until, Kind: string(lease.Kind), Key: lease.Key, LeaseToken: lease.Token,
	})
	return failed("let work wait", err)
}

func postponed(lease work.Lease, failure string, delay work.Delay) dbsqlc.PutOffWorkParams {
	params := dbsqlc.PutOffWorkParams{
		Kind: string(lease.Kind), Key: lease.Key, LeaseToken: lease.Token, Failure: failure, Soon: []float64{},
		First: delay.First.Seconds(), Longest: delay.Longest.Seconds(),
	}
	for _, wait := range delay.Soon {
		params.Soon = append(params.Soon, wait.Seconds())
	}
	return params
}

// queueEnd ends the lease of work that is done in the transaction that writes it, as the server. Without held nothing may be
// written.
func queueEnd(batch *pgx.Batch, lease work.Lease, held *bool) {
	if lease.Token == uuid.Nil {
		*held = true
		return
	}
	dbsqlc.EndWork.Read(batch, ended(lease, true), set(held))
}

// afterDeath is how long a chat is put off on which workers died until its job had no attempt left.
const afterDeath = time.Hour

// ReviveDead makes the jobs of dead workers available again, and clears their leases. young is how long a job may run before it
// must have taken its lease. Chats whose jobs had no attempt left are put off, those of other kinds are found again when they
// are due. It returns how many jobs and leases that were.
func (w *Work) ReviveDead(ctx context.Context, young time.Duration) (jobs, leases int, err error) {
	revived, err := dbsqlc.ReviveJobs.All(ctx, w.Pool, young.Seconds())
	if err != nil {
		return 0, 0, failed("revive dead jobs", err)
	}
	for _, job := range revived {
		if job.GivenUp && job.WorkKind == string(work.Fold) {
			if err := dbsqlc.GiveUpWork.Run(ctx, w.Pool, dbsqlc.GiveUpWorkParams{Kind: job.WorkKind, Key: job.Key, WaitSeconds: afterDeath.Seconds()}); err != nil {
				return 0, 0, failed("put off fold", err)
			}
			jobs--
		}
	}
	cleared, err := dbsqlc.ClearDeadWork.Exec(ctx, w.Pool, struct{}{})
	if err == nil {
		err = errors.Join(dbsqlc.ForgetIdleWork.Run(ctx, w.Pool, struct{}{}), dbsqlc.WakeIdleWork.Run(ctx, w.Pool, struct{}{}))
	}
	return jobs + len(revived), int(cleared), failed("clear dead leases", err)
}
