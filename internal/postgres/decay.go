package postgres

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// usersAtOnce bounds for how many users one transaction of Decay holds locks.
const usersAtOnce = 20

// Decay lets the memories of all users fade for a day, once however often it is called. What has faded and was not used
// for 90 days is archived; what was archived that many days ago is deleted, for 0 never. It returns how many that were.
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
		done, err := try(ctx, m.pool, queries.FadeMemories, params)
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
		done, err := try(ctx, m.pool, queries.DeleteArchivedMemories, params)
		deleted += done.Deleted
		if err != nil || done.LastUser == uuid.Nil {
			return deleted, err
		}
		params.AfterAt, params.After = done.LastAt, done.LastUser
	}
}

// CountMemories counts memories by status; where there are more than a hundred of one, it estimates.
func (m *Maintenance) CountMemories(ctx context.Context) (map[string]int, error) {
	rows, err := dbsqlc.New(m.pool).CountAllMemories(ctx)
	counted := map[string]int{}
	for _, row := range rows {
		counted[row.Status] = int(row.Memories)
	}
	return counted, failed("count memories", err)
}

// OldestUnextracted returns for how many seconds the chat has been due that has waited longest to be read for memories; 0 if
// none waits.
func (m *Maintenance) OldestUnextracted(ctx context.Context) (float64, error) {
	age, err := dbsqlc.New(m.pool).OldestUnextracted(ctx)
	return age, failed("extraction backlog", err)
}
