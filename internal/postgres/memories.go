package postgres

import (
	"context"
	"strings"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Memories reads memories for prompts, with the rights of the user who asks.
type Memories struct{ pool *pgxpool.Pool }

var _ memories.Store = (*Memories)(nil)

// NewMemories returns the store.
func NewMemories(pool *pgxpool.Pool) *Memories { return &Memories{pool: pool} }

// Candidates returns the memories that a message may be about.
func (m *Memories) Candidates(ctx context.Context, user auth.Principal, ask memories.Ask) ([]memories.Candidate, error) {
	const doing = "find memories"
	params := dbsqlc.FindMemoriesParams{
		Names: ask.Names, Relationships: ask.Relationships, Types: []string{}, Model: ask.Vector.Model, Most: ask.PerWay,
	}
	for _, t := range ask.Types {
		params.Types = append(params.Types, string(t))
	}
	for _, word := range ask.Words {
		params.Words, params.Telling = append(params.Words, strings.Join(word.Forms, "\n")), append(params.Telling, !word.Function)
	}
	if ask.Vector.Values != nil {
		params.Question = new(vectorText(ask.Vector.Values))
	}
	var found []memories.Candidate
	err := sendAs(ctx, m.pool, user, doing, func(batch *pgx.Batch) {
		queueLimit(ctx, batch)
		dbsqlc.FindMemories.Read(batch, params, all(&found))
	})
	if sqlState(err) == queryCanceled {
		return nil, failed(doing, context.DeadlineExceeded)
	}
	return found, err
}

// MemorySettings reads the settings.
func (u *UserMemories) MemorySettings(ctx context.Context, user auth.Principal) (history.MemorySettings, error) {
	var settings history.MemorySettings
	err := sendAs(ctx, u.pool, user, "read memory settings", func(batch *pgx.Batch) { queueSettings(batch, &settings) })
	return settings, err
}

func queueSettings(batch *pgx.Batch, settings *history.MemorySettings) {
	*settings = history.MemorySettings{Enabled: true, Excluded: []string{}}
	dbsqlc.ReadMemorySettings.Read(batch, struct{}{}, func(row history.MemorySettings) { *settings = row })
}

// ChangeMemorySettings changes the settings and reads them.
func (u *UserMemories) ChangeMemorySettings(ctx context.Context, user auth.Principal, change history.MemorySettingsChange) (history.MemorySettings, error) {
	var settings history.MemorySettings
	var changed bool
	err := sendAs(ctx, u.pool, user, "change memory settings", func(batch *pgx.Batch) {
		dbsqlc.ChangeMemorySettings.Queue(batch, dbsqlc.ChangeMemorySettingsParams{
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
