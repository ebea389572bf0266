package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Usage keeps what calls of models cost.
type Usage struct {
	pool   *pgxpool.Pool
	logger *slog.Logger
}

// NewUsage returns the store.
func NewUsage(pool *pgxpool.Pool, logger *slog.Logger) *Usage { return &Usage{pool, logger} }

// recordTimeout is how long a call waits for its row at most: nothing depends on it.
const recordTimeout = 2 * time.Second

// Record stores what a call has cost, also when who asked has gone. It reports a failure to the log alone. A user who was
// deleted meanwhile has spent nothing.
func (u *Usage) Record(ctx context.Context, spent work.Spent) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := dbsqlc.InsertUsage.Run(ctx, u.pool, dbsqlc.InsertUsageParams{
		UserID: spent.UserID, ChatID: nullID(spent.ChatID), Purpose: spent.Purpose, Model: spent.Model, InputTokens: spent.InputTokens,
		CachedTokens: spent.CachedTokens, OutputTokens: spent.OutputTokens, Estimated: spent.Estimated,
	})
	if err != nil && sqlState(err) != foreignKeyViolation {
		u.logger.LogAttrs(ctx, slog.LevelWarn, "what a call of the model has cost is not recorded",
			slog.String("purpose", spent.Purpose), slog.Int("input_tokens", spent.InputTokens), slog.Int("output_tokens", spent.OutputTokens), slog.Any("error", err))
	}
}
