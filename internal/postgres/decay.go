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
	q := dbsqlc.New(m.pool)
	for after := uuid.Nil; ; {
		var done dbsqlc.DecayMemoriesRow
		err := retry(ctx, m.pool, func() (err error) {
			done, err = q.DecayMemories(ctx, dbsqlc.DecayMemoriesParams{Day: pgtype.Date{Time: day, Valid: true}, After: after, Most: usersAtOnce, DeleteDays: min(deleteDays, maxDays)})
			return err
		})
		decayed += done.Decayed
		archived += done.Archived
		deleted += done.Deleted
		if err != nil || done.LastUser == uuid.Nil {
			return decayed, archived, deleted, failed("decay memories", err)
		}
		after = done.LastUser
	}
}

// CountMemories counts memories by status; of each status not more than 100 000.
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
