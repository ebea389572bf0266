package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/supabase"
)

// ready tells whether Postgres answers and has all migrations, and how late the memory work is:
// broken memory under green health is the failure that nobody sees.
func (a *App) ready(ctx context.Context) (map[string]any, error) {
	if a.stopping.Load() {
		return nil, notReady("The server is stopping.", nil)
	}
	pending, err := supabase.Pending(ctx, a.pool)
	if err != nil {
		return nil, notReady("Postgres does not answer.", err)
	}
	if len(pending) > 0 {
		return nil, notReady("Migrations are pending: run `throughline migrate`.", fmt.Errorf("pending: %s", strings.Join(pending, ", ")))
	}
	backlog, err := postgres.NewMaintenance(a.pool, a.config.Memory).Backlog(ctx)
	if err != nil {
		return nil, notReady("Postgres does not answer.", err)
	}
	return map[string]any{"oldest_unfolded_turn_seconds": int(backlog.OldestUnfoldedTurn), "queue_depth": backlog.QueueDepth}, nil
}

func notReady(message string, err error) error {
	return &fault.Error{Code: fault.NotReady, Message: message, Err: err, RetryAfter: time.Second}
}

// How long one reading of the backlog is good for several scrapes, and how long it may take.
const (
	backlogAge     = 5 * time.Second
	backlogTimeout = 2 * time.Second
)

// reportBacklog adds to /metrics what only Postgres knows.
func (a *App) reportBacklog() {
	store := postgres.NewMaintenance(a.pool, a.config.Memory)
	var mu sync.Mutex
	var last metrics.Backlog
	var read time.Time
	a.metrics.ReportBacklog(func() (metrics.Backlog, bool) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) < backlogAge {
			return last, true
		}
		ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
		defer cancel()
		backlog, err := store.Backlog(ctx)
		if err != nil {
			a.logger.LogAttrs(ctx, slog.LevelWarn, "backlog not read", slog.Any("error", err))
			return metrics.Backlog{}, false
		}
		last, read = backlog, time.Now()
		return last, true
	})
}
