package postgres

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/jackc/pgx/v5"
)

// MemorySettings reads the settings.
func (u *UserMemories) MemorySettings(ctx context.Context, user auth.Principal) (history.MemorySettings, error) {
	var settings history.MemorySettings
	err := sendAs(ctx, u.pool, user, "read memory settings", func(batch *pgx.Batch) { queueSettings(batch, &settings) })
	return settings, err
}

func queueSettings(batch *pgx.Batch, settings *history.MemorySettings) {
	*settings = history.MemorySettings{Enabled: true, Excluded: []string{}}
	queueBare(batch, queries.ReadMemorySettings).Query(each(func(row history.MemorySettings) { *settings = row }))
}

// ChangeMemorySettings changes the settings and reads them.
func (u *UserMemories) ChangeMemorySettings(ctx context.Context, user auth.Principal, change history.MemorySettingsChange) (history.MemorySettings, error) {
	var settings history.MemorySettings
	var changed bool
	err := sendAs(ctx, u.pool, user, "change memory settings", func(batch *pgx.Batch) {
		queue(batch, queries.ChangeMemorySettings, dbsqlc.ChangeMemorySettingsParams{
			Enabled: change.Enabled, Excluded: zeroNull(change.Excluded.Value),
			SetTimeZone: change.TimeZone.Set, TimeZone: change.TimeZone.Value, SetLanguage: change.Language.Set, Language: change.Language.Value,
		}).Exec(affects(1, &changed))
		queueSettings(batch, &settings)
	})
	if err == nil && !changed {
		err = notAllowed("memory_users")
	}
	return settings, err
}
