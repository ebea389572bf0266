package postgres

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TopicSweep finds what is left to do for topics, across all users. It reads ids and numbers, never content.
type TopicSweep struct {
	pool        *pgxpool.Pool
	chats       dbsqlc.AssignFindChatsParams
	maxMessages int
}

// NewTopicSweep returns the store. mode and model are assign.Scope's, and maxMessages is how many active messages a topic
// may have.
func NewTopicSweep(pool *pgxpool.Pool, mode, model string, maxMessages int) *TopicSweep {
	return &TopicSweep{pool: pool, chats: dbsqlc.AssignFindChatsParams{Mode: mode, Model: model}, maxMessages: maxMessages}
}

// UnassignedChats returns chats with turns that should have a topic and have none, and no job.
func (s *TopicSweep) UnassignedChats(ctx context.Context) ([]uuid.UUID, error) {
	chats, err := dbsqlc.New(s.pool).AssignFindChats(ctx, s.chats)
	return chats, failed("find turns without topics", err)
}

// DueTopics returns topics that are to be compacted and have no job.
func (s *TopicSweep) DueTopics(ctx context.Context) ([]assign.TopicID, error) {
	rows, err := dbsqlc.New(s.pool).AssignFindTopics(ctx, s.maxMessages)
	due := make([]assign.TopicID, len(rows))
	for n, row := range rows {
		due[n] = assign.TopicID{ChatID: row.ChatID, ID: row.ID}
	}
	return due, failed("find topics to compact", err)
}

// ReviveDeadCompactions is ReviveDeadFolds for the jobs of topics. A job without an attempt left is given up; the sweep
// inserts another.
func (s *TopicSweep) ReviveDeadCompactions(ctx context.Context, young time.Duration) (jobs, leases int, err error) {
	q := dbsqlc.New(s.pool)
	revived, err := q.AssignRevive(ctx, young.Seconds())
	if err != nil {
		return 0, 0, failed("revive dead jobs of topics", err)
	}
	cleared, err := q.AssignClearLeases(ctx)
	return int(revived), int(cleared), failed("clear dead leases", err)
}
