package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Maintenance is the server's own work across all users: the repairs of the sweep and the numbers of the metrics.
// It reads ids and numbers, never content.
type Maintenance struct {
	pool *pgxpool.Pool
	due  dbsqlc.FindDueBriefsParams // the limits that decide which chats need a fold
	// extractDelay is how many seconds a chat rests before it is read for memories; nil without long-term memory.
	extractDelay *float64
	// topics is which chats have topics, and topicMessages how many active messages one may have; nil without topics.
	topics        *dbsqlc.AssignFindChatsParams
	topicMessages int
}

// NewMaintenance returns the store.
func NewMaintenance(pool *pgxpool.Pool, limits memory.Limits) *Maintenance {
	return &Maintenance{pool: pool, due: dbsqlc.FindDueBriefsParams{
		Threshold: limits.ChunkThreshold, KRawTurns: limits.KRawTurns,
		Bridge: limits.BridgeTokenBudget, MinTailTurns: limits.MinTailTurns, Prompt: limits.PromptTokenBudget, History: limits.HistoryTokens,
	}}
}

// ExtractAfter makes chats due to be read for memories when they have rested for delay. Without it none are.
func (m *Maintenance) ExtractAfter(delay time.Duration) {
	m.extractDelay = new(delay.Seconds())
}

// InterruptAbandonedReplies ends replies whose lease ran out: their server died. It returns how many.
func (m *Maintenance) InterruptAbandonedReplies(ctx context.Context) (int, error) {
	return interruptAbandoned(ctx, m.pool, m.extractDelay)
}

// DeleteStrayDeltas deletes recorded deltas of replies that are not running, and returns how many. It leaves
// those of replies that changed less than young ago to their server.
func (m *Maintenance) DeleteStrayDeltas(ctx context.Context, young time.Duration) (int, error) {
	rows, err := dbsqlc.DeleteStrayDeltas.Exec(ctx, m.pool, young.Seconds())
	return int(rows), failed("delete stray deltas", err)
}

// RestoreBriefs takes briefs that cannot be read back to the last version that was recorded. It returns how many.
func (m *Maintenance) RestoreBriefs(ctx context.Context) (int, error) {
	restored, err := dbsqlc.RestoreBriefs.One(ctx, m.pool, struct{}{})
	return int(restored), failed("restore briefs", err)
}

// usageAtOnce is how many rows of usage a sweep deletes.
const usageAtOnce = 5000

// DeleteOldUsage deletes usage that is older than 400 days, and what is known of messages that were deleted more than a day ago.
func (m *Maintenance) DeleteOldUsage(ctx context.Context) error {
	_, err := dbsqlc.DeleteOldUsage.Exec(ctx, m.pool, usageAtOnce)
	return failed("delete old usage", err)
}

// MergeSearchEntries moves the pending entries of new messages into the full-text indexes, so that no turn has to.
func (m *Maintenance) MergeSearchEntries(ctx context.Context) error {
	return failed("merge search entries", dbsqlc.MergeSearchEntries.Run(ctx, m.pool, struct{}{}))
}

// KeepTopics makes turns due for topics, and topics for compaction. mode and model are topics.Scope's, and maxMessages is how
// many active messages a topic may have. Without it none are.
func (m *Maintenance) KeepTopics(mode, model string, maxMessages int) {
	m.topics, m.topicMessages = &dbsqlc.AssignFindChatsParams{Mode: mode, Model: model}, maxMessages
}

// Due returns jobs for the due work that has none. With an error it still returns the jobs that it has found.
func (m *Maintenance) Due(ctx context.Context) ([]work.Job, error) {
	folds, err := m.DueChats(ctx)
	due := ofChats(work.FoldBrief, work.Later, folds)
	if m.extractDelay != nil {
		chats, failure := dbsqlc.FindDueExtractions.All(ctx, m.pool, struct{}{})
		due = append(due, ofChats(work.ExtractMemories, work.Later, chats)...)
		err = errors.Join(err, failed("find due extractions", failure))
	}
	if m.topics == nil {
		return due, err
	}
	chats, failure := dbsqlc.AssignFindChats.All(ctx, m.pool, *m.topics)
	due = append(due, ofChats(work.AssignTopics, work.Later, chats)...)
	err = errors.Join(err, failed("find turns without topics", failure))
	topics, failure := dbsqlc.AssignFindTopics.All(ctx, m.pool, m.topicMessages)
	for _, topic := range topics {
		due = append(due, work.Job{Name: work.CompactTopic, ChatID: topic.ChatID, TopicID: topic.ID, Priority: work.Later})
	}
	return due, errors.Join(err, failed("find topics to compact", failure))
}

func ofChats(name string, priority int, chats []uuid.UUID) []work.Job {
	jobs := make([]work.Job, len(chats))
	for n, id := range chats {
		jobs[n] = work.Job{Name: name, ChatID: id, Priority: priority}
	}
	return jobs
}

// DueChats returns the chats that need a fold.
func (m *Maintenance) DueChats(ctx context.Context) ([]uuid.UUID, error) {
	if err := dbsqlc.SettleRestedBriefs.Run(ctx, m.pool, dbsqlc.SettleRestedBriefsParams(m.due)); err != nil {
		return nil, failed("settle rested chats", err)
	}
	chats, err := dbsqlc.FindDueBriefs.All(ctx, m.pool, m.due)
	return chats, failed("find due chats", err)
}

const (
	// deletedAtOnce bounds the locks that one statement takes.
	deletedAtOnce = 500
	// maxDays is more than the age of any chat.
	maxDays = 36_500
)

// DeleteExpired deletes chats that expired that many days ago, and returns how many.
func (m *Maintenance) DeleteExpired(ctx context.Context, days int) (int, error) {
	return deleteAll(func() (int64, error) {
		return dbsqlc.DeleteExpiredChats.Exec(ctx, m.pool, dbsqlc.DeleteExpiredChatsParams{Days: min(days, maxDays), Most: deletedAtOnce})
	})
}

// DeleteIdle deletes chats without a message in that many days, and returns how many.
func (m *Maintenance) DeleteIdle(ctx context.Context, days int) (int, error) {
	return deleteAll(func() (int64, error) {
		return dbsqlc.DeleteIdleChats.Exec(ctx, m.pool, dbsqlc.DeleteIdleChatsParams{Days: min(days, maxDays), Most: deletedAtOnce})
	})
}

// deleteAll repeats a statement, each time in its own transaction, until it deletes fewer than deletedAtOnce.
func deleteAll(some func() (int64, error)) (deleted int, err error) {
	for {
		n, err := some()
		if deleted += int(n); err != nil || n < deletedAtOnce {
			return deleted, failed("delete chats", err)
		}
	}
}

// Backlog returns how late the memory work is.
func (m *Maintenance) Backlog(ctx context.Context) (metrics.Backlog, error) {
	folds, err := dbsqlc.FoldBacklog.One(ctx, m.pool, struct{}{})
	if err != nil {
		return metrics.Backlog{}, failed("fold backlog", err)
	}
	queues, err := dbsqlc.QueueDepths.All(ctx, m.pool, struct{}{})
	if err != nil {
		return metrics.Backlog{}, failed("queue depths", err)
	}
	backlog := metrics.Backlog{
		OldestUnfoldedTurn: folds.Age, PutOffChats: folds.PutOff,
		QueueDepth: map[string]float64{"memory": 0, "memories": 0, "topics": 0, "vectors": 0, "maintenance": 0},
	}
	for _, queue := range queues {
		backlog.QueueDepth[queue.Queue] = float64(queue.Depth)
	}
	return backlog, nil
}

// usersAtOnce bounds for how many users one transaction of Decay holds locks.
const usersAtOnce = 20

// Decay lets the memories of all users fade for a day, once however often it is called. A faded memory that was not used
// for 90 days is archived; one archived that many days ago is deleted, for 0 never. It returns the counts.
func (m *Maintenance) Decay(ctx context.Context, day time.Time, deleteDays int) (decayed, archived, deleted int, err error) {
	if decayed, archived, err = m.fade(ctx, day); err != nil || deleteDays <= 0 {
		return decayed, archived, 0, failed("decay memories", err)
	}
	deleted, err = m.deleteArchived(ctx, min(deleteDays, maxDays))
	return decayed, archived, deleted, failed("delete archived memories", err)
}

func (m *Maintenance) fade(ctx context.Context, day time.Time) (decayed, archived int, err error) {
	params := dbsqlc.FadeMemoriesParams{Day: pgtype.Date{Time: day, Valid: true}, Most: usersAtOnce}
	for {
		done, err := try(ctx, m.pool, dbsqlc.FadeMemories.One, params)
		decayed += done.Decayed
		archived += done.Archived
		if err != nil || done.LastUser == uuid.Nil {
			return decayed, archived, err
		}
		params.AfterAt, params.After = done.LastAt, done.LastUser
	}
}

func (m *Maintenance) deleteArchived(ctx context.Context, days int) (deleted int, err error) {
	params := dbsqlc.DeleteArchivedMemoriesParams{Days: days, Most: usersAtOnce}
	for {
		done, err := try(ctx, m.pool, dbsqlc.DeleteArchivedMemories.One, params)
		deleted += done.Deleted
		if err != nil || done.LastUser == uuid.Nil {
			return deleted, err
		}
		params.AfterAt, params.After = done.LastAt, done.LastUser
	}
}

// CountMemories counts memories by status; where there are more than a hundred of one, it estimates.
func (m *Maintenance) CountMemories(ctx context.Context) (map[string]int, error) {
	rows, err := dbsqlc.CountAllMemories.All(ctx, m.pool, struct{}{})
	counted := map[string]int{}
	for _, row := range rows {
		counted[row.Status] = int(row.Memories)
	}
	return counted, failed("count memories", err)
}

// OldestUnextracted returns for how many seconds the chat has been due that has waited longest to be read for memories; 0 if
// none waits.
func (m *Maintenance) OldestUnextracted(ctx context.Context) (float64, error) {
	age, err := dbsqlc.OldestUnextracted.One(ctx, m.pool, struct{}{})
	return age, failed("extraction backlog", err)
}
