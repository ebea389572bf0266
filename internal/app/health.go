package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/httpapi"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ready fails, with a code that names the cause, unless Postgres answers, has all migrations, and lets us act as our
// roles, and tokens can be checked. A model that is away is told as degraded: most requests do without. The first time, it
// waits for the connections that the pool opens at its start. It also reports how late the memory work is, which nothing
// else in a healthy server shows.
func (a *App) ready(ctx context.Context) (map[string]any, error) {
	if a.stopping.Load() {
		return nil, notReady(fault.ShuttingDown, "The server is stopping.", "", nil, nil)
	}
	pending, err := supabase.Pending(ctx, a.pool)
	if err != nil {
		return nil, unreachable(err)
	}
	if len(pending) > 0 {
		cause := fmt.Errorf("pending: %s", strings.Join(pending, ", "))
		return nil, notReady(fault.MigrationsPending, postgres.MigrationsPending, "migrations", map[string]any{"pending": pending}, cause)
	}
	lacking, err := a.rolesNotGranted(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	if len(lacking) > 0 {
		return nil, notReady(fault.RoleNotGranted, postgres.RoleNotGranted, "roles", map[string]any{"roles": lacking}, nil)
	}
	if a.role.API {
		same, err := (&postgres.Accounts{Pool: a.pool}).SameIssuers(ctx, issuers(a.config))
		if err != nil {
			return nil, unreachable(err)
		}
		if !same {
			return nil, notReady(fault.IssuersDiffer, "The database lists other issuers than AUTH_ISSUERS: run throughline migrate.", "issuers", nil, nil)
		}
		if err := a.lookIsolated(ctx); fault.CodeOf(err) == fault.SessionNotIsolated {
			return nil, err
		} else if err != nil {
			return nil, unreachable(err)
		}
	}
	if a.keys != nil {
		if err := a.keys(ctx); err != nil {
			return nil, notReady(fault.NotReady, "The auth server does not answer with its keys.", "auth keys", nil, err)
		}
	}
	backlog, err := a.backlog(ctx)
	if err == nil {
		err = a.awaitWarmth(ctx)
	}
	if err != nil {
		return nil, unreachable(err)
	}
	details := map[string]any{"oldest_unfolded_turn_seconds": int(backlog.OldestUnfoldedTurn), "queue_depth": backlog.QueueDepth}
	if backlog.OldestUnextractedTurn != nil {
		details["oldest_unextracted_turn_seconds"] = int(*backlog.OldestUnextractedTurn)
	}
	if a.config.Cell.Name != "" {
		details["cell"] = a.config.Cell.Name
	}
	var degraded []string
	if a.model.Away() {
		degraded = append(degraded, "model")
	}
	if a.embedder != nil && a.embedder.Away() {
		degraded = append(degraded, "embedder")
	}
	if degraded != nil {
		details["degraded"] = degraded
	}
	if a.bypasses.Load() {
		details["warnings"] = []string{"connection_bypasses_rls"}
	}
	return details, nil
}

// rolesNotGranted asks each connection for the roles that its work acts as.
func (a *App) rolesNotGranted(ctx context.Context) (lacking []string, err error) {
	if a.role.API {
		lacking, err = postgres.RolesNotGranted(ctx, a.pool, "throughline_app")
	}
	if err == nil && len(lacking) == 0 && a.role.Workers {
		return postgres.RolesNotGranted(ctx, a.workPool, "throughline_app", "throughline_worker")
	}
	return lacking, err
}

// awaitWarmth waits until the pool opens no connections, unless it has come to that before. Some may have failed: Postgres
// may allow fewer.
func (a *App) awaitWarmth(ctx context.Context) error {
	step := time.NewTicker(10 * time.Millisecond)
	defer step.Stop()
	for !a.warmed.Load() {
		if a.pool.Stat().ConstructingConns() == 0 {
			a.warmed.Store(true)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-step.C:
		}
	}
	return nil
}

func notReady(code fault.Code, message, waitsFor string, details map[string]any, err error) error {
	if details = maps.Clone(details); details == nil {
		details = map[string]any{}
	}
	if waitsFor != "" {
		details["waits_for"] = []string{waitsFor}
	}
	return &fault.Error{Code: code, Message: message, Details: details, Err: err, RetryAfter: time.Second}
}

// unreachable names the code of what Postgres itself said, such as that it refuses the password.
func unreachable(err error) error {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return notReady(fault.DatabaseUnreachable, "Postgres refuses the server; the log has its words.", "postgres", map[string]any{"sqlstate": said.Code}, err)
	}
	return notReady(fault.DatabaseUnreachable, "Postgres does not answer.", "postgres", nil, err)
}

func (a *App) backlog(ctx context.Context) (metrics.Backlog, error) {
	maintenance := postgres.NewMaintenance(a.pool, a.config.Memory)
	backlog, err := maintenance.Backlog(ctx)
	if err == nil && a.config.LongTerm.On {
		var age float64
		age, err = maintenance.OldestUnextracted(ctx)
		backlog.OldestUnextractedTurn = &age
	}
	if err != nil || a.embedder == nil || !a.config.Recall {
		return backlog, err
	}
	turns, err := (&postgres.Embeddings{Pool: a.pool}).CountBareTurns(ctx, a.embedder.Model())
	backlog.BareTurns = &turns
	return backlog, err
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
		if err == nil && a.config.LongTerm.On {
			backlog.Memories, err = postgres.NewMaintenance(a.pool, a.config.Memory).CountMemories(ctx)
		}
		if err != nil {
			a.logger.Warn("backlog not read", "error", err)
			return metrics.Backlog{}, false
		}
		last, readAt = backlog, time.Now()
		return last, true
	})
}

// serveMetrics serves the metrics of a process without an API at HTTP_ADDR, if its environment has that.
func (a *App) serveMetrics(ctx context.Context) error {
	if !a.config.HTTPAddrSet {
		return nil
	}
	if err := a.listen(ctx, a.config.HTTPAddr); err != nil {
		return fmt.Errorf("HTTP_ADDR: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		_ = httpapi.Ready(a.ready).Answer(w, r) // startWorker logs it
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "ok", "version": Version}) // a client that left does not care
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(a.listener) }) // its error reports only that it was closed
	a.closers = append(a.closers, func() { _ = server.Close(); served.Wait() })
	return nil
}
