package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ready fails unless Postgres answers and has all migrations. It also reports how late the memory work is,
// which nothing else in a healthy server shows.
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
	backlog, err := a.backlog(ctx)
	if err != nil {
		return nil, notReady("Postgres does not answer.", err)
	}
	return map[string]any{"oldest_unfolded_turn_seconds": int(backlog.OldestUnfoldedTurn), "queue_depth": backlog.QueueDepth}, nil
}

func notReady(message string, err error) error {
	return &fault.Error{Code: fault.NotReady, Message: message, Err: err, RetryAfter: time.Second}
}

func (a *App) backlog(ctx context.Context) (metrics.Backlog, error) {
	return postgres.NewMaintenance(a.pool, a.config.Memory).Backlog(ctx)
}

const (
	backlogAge     = 5 * time.Second // for which one reading serves all scrapes
	backlogTimeout = 2 * time.Second
)

// reportBacklog adds the backlog, which only Postgres knows, to /metrics.
func (a *App) reportBacklog() {
	var mu sync.Mutex
	var last metrics.Backlog
	var readAt time.Time
	a.metrics.ReportBacklog(func() (metrics.Backlog, bool) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(readAt) < backlogAge {
			return last, true
		}
		ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
		defer cancel()
		backlog, err := a.backlog(ctx)
		if err != nil {
			a.logger.Warn("backlog not read", "error", err)
			return metrics.Backlog{}, false
		}
		last, readAt = backlog, time.Now()
		return last, true
	})
}

// serveMetrics serves the metrics of a process without an API at METRICS_ADDR, if that is set.
func (a *App) serveMetrics(ctx context.Context) error {
	if a.config.MetricsAddr == "" {
		return nil
	}
	if err := a.listen(ctx, a.config.MetricsAddr); err != nil {
		return fmt.Errorf("METRICS_ADDR: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(a.listener) }) // its error reports only that it was closed
	a.closers = append(a.closers, func() { _ = server.Close(); served.Wait() })
	return nil
}
