// Package app puts the parts together and takes them apart again: the one place that knows all of
// them. New makes an App of a Config; Run serves until its context ends and then stops in order:
// no new messages, running replies finish or are stored as interrupted, workers finish or are
// cancelled, connections close.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/httpapi"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/mcptools"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Version is set by the build.
var Version = "dev"

// Role says what an App does.
type Role struct {
	API     bool
	Workers bool
}

// Connections that each side keeps for itself beside its own concurrency.
const (
	apiConns   = 24
	riverConns = 8
)

// App is a server or a worker or both. Run it once.
type App struct {
	config  config.Config
	role    Role
	logger  *slog.Logger
	metrics *metrics.Metrics

	pool     *pgxpool.Pool // of DATABASE_URL
	workPool *pgxpool.Pool // of DATABASE_DIRECT_URL; may be the same
	pollOnly bool

	model  *llm.Client
	worker *jobs.Client // nil without workers
	// workerStarted gets one value, whether the worker runs.
	workerStarted chan bool
	// stopping tells /readyz to send nobody here any more.
	stopping atomic.Bool
	chat     *chat.Service
	// notices tells chat what other servers did; nil behind a transaction pooler.
	notices *postgres.Listener
	// watched is where a process without an API has its metrics, "" for nowhere.
	watched  string
	server   *http.Server
	listener net.Listener
	closers  []func()
	doubles  Doubles
}

// Doubles stand in for parts of an App in tests. The zero value replaces nothing.
type Doubles struct {
	// Turns and Folder return what is used instead of the real one.
	Turns  func(chat.Store) chat.Store
	Folder func(jobs.Folder) jobs.Folder
	// SavePatience replaces chat.Config's.
	SavePatience time.Duration
}

// New connects nothing yet but the listener: it fails when the address is taken or a value is wrong. Only tests
// pass doubles, and at most one.
func New(ctx context.Context, cfg config.Config, role Role, logger *slog.Logger, doubles ...Doubles) (*App, error) {
	a := &App{config: cfg, role: role, logger: logger, metrics: metrics.New()}
	for _, d := range doubles {
		a.doubles = d
	}
	if err := a.assemble(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (a *App) assemble(ctx context.Context) error {
	if err := a.openPools(ctx); err != nil {
		return err
	}
	a.model = llm.New(llm.Config{APIKey: a.config.OpenAIAPIKey, BaseURL: a.config.OpenAIBaseURL, IdleTimeout: a.config.ModelIdleTimeout})
	a.closers = append(a.closers, a.model.Close)
	a.reportBacklog()
	inserter, err := jobs.NewInserter(a.pool, a.logger)
	if err != nil {
		return err
	}
	if a.role.Workers {
		if err := a.makeWorker(); err != nil {
			return err
		}
	}
	if a.role.API {
		return a.makeServer(ctx, inserter)
	}
	return a.makeWatched(ctx)
}

func (a *App) openPools(ctx context.Context) error {
	conns := apiConns
	shared := a.config.DatabaseURL == a.config.DatabaseDirectURL
	if shared {
		conns += a.config.WorkerConcurrency + riverConns
	}
	var err error
	if a.pool, a.pollOnly, err = postgres.Open(ctx, a.config.DatabaseURL, conns); err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	a.closers = append(a.closers, a.pool.Close)
	a.workPool = a.pool
	if shared || !a.role.Workers {
		return nil
	}
	if a.workPool, a.pollOnly, err = postgres.Open(ctx, a.config.DatabaseDirectURL, a.config.WorkerConcurrency+riverConns); err != nil {
		return fmt.Errorf("DATABASE_DIRECT_URL: %w", err)
	}
	a.closers = append(a.closers, a.workPool.Close)
	return nil
}

func (a *App) makeWorker() error {
	var folder jobs.Folder = brief.New(brief.Config{
		Store: postgres.NewBriefs(a.workPool), Summarizer: a.model, Prompt: a.config.Summary,
		Limits: a.config.Memory, Logger: a.logger, Metrics: a.metrics,
	})
	if a.doubles.Folder != nil {
		folder = a.doubles.Folder(folder)
	}
	maintenance := postgres.NewMaintenance(a.workPool, a.config.Memory)
	var err error
	a.worker, err = jobs.NewWorker(a.workPool, jobs.WorkerConfig{
		Folder: folder, Maintenance: maintenance, Expiry: maintenance,
		ExpiredDays: a.config.ExpiredChatDays, PruneDays: a.config.AutoPruneDays,
		Metrics: a.metrics, Logger: a.logger, Concurrency: a.config.WorkerConcurrency,
		PollOnly: a.pollOnly, StopTimeout: a.config.DrainTimeout,
	})
	return err
}

func (a *App) makeServer(ctx context.Context, inserter *jobs.Client) error {
	verifier, err := a.verifier()
	if err != nil {
		return err
	}
	var turns chat.Store = postgres.NewTurns(a.pool, a.config.Memory, jobs.EnqueueFold(inserter))
	if a.doubles.Turns != nil {
		turns = a.doubles.Turns(turns)
	}
	a.chat = chat.New(chat.Config{
		Store: turns, Model: a.model, SavePatience: a.doubles.SavePatience,
		Logger: a.logger, Metrics: a.metrics, Variants: a.config.Variants, Instructions: a.config.MainInstructions,
		Limits: a.config.Memory, ReplyTimeout: a.config.ModelTimeout, RecordInterval: a.config.RecordInterval,
	})
	// For a start that fails further on; after an orderly stop there is nothing left to close.
	a.closers = append(a.closers, func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		a.chat.Close(over)
	})
	if a.notices, err = postgres.NewListener(a.config.DatabaseDirectURL, a.chat, a.logger); err != nil {
		return fmt.Errorf("DATABASE_DIRECT_URL: %w", err)
	}
	ui, err := a.riverUI(ctx, inserter)
	if err != nil {
		return err
	}
	kept := history.New(history.Config{Store: postgres.NewHistory(a.pool, jobs.EnqueueRebuild(inserter))})
	tools := mcptools.New(mcptools.Config{Chat: a.chat, History: kept, Logger: a.logger, Version: Version})
	api := httpapi.New(httpapi.Config{
		Chat: a.chat, History: kept, Tools: tools, Transfer: a.transfer(inserter), Auth: verifier, Logger: a.logger, Metrics: a.metrics, Ready: a.ready, Version: Version,
		MessagesPerMinute: a.config.MessagesPerMinute, MaxStreamsPerUser: a.config.MaxStreamsPerUser, CORSOrigins: a.config.CORSOrigins, RiverUI: ui,
	})
	a.server = api.HTTPServer()
	a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", a.config.HTTPAddr)
	if err != nil {
		return fmt.Errorf("HTTP_ADDR: %w", err)
	}
	return nil
}

// transfer takes chats out and in.
func (a *App) transfer(inserter *jobs.Client) *transfer.Service {
	return transfer.New(transfer.Config{Store: postgres.NewTransfer(a.pool, a.config.Memory, jobs.EnqueueFold(inserter)), Logger: a.logger})
}

func (a *App) verifier() (*auth.Verifier, error) {
	cfg := auth.Config{ProjectURL: a.config.SupabaseURL, JWTSecret: []byte(a.config.SupabaseJWTSecret), Logger: a.logger}
	if a.config.SupabaseURL != "" && a.config.SupabaseJWTSecret == "" && a.config.SupabaseSecretKey != "" {
		client, err := supabase.NewClient(a.config.SupabaseURL, a.config.SupabaseSecretKey)
		if err != nil {
			return nil, fmt.Errorf("SUPABASE_SECRET_KEY: %w", err)
		}
		cfg.LookupUser = client.GetUser
	}
	verifier, err := auth.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("SUPABASE_URL: %w", err)
	}
	return verifier, nil
}

// Addr is where the API listens; of a process that only works, where METRICS_ADDR says, "" for nowhere.
func (a *App) Addr() string {
	if a.listener == nil {
		return a.watched
	}
	return a.listener.Addr().String()
}

// Run serves until ctx ends, then stops in order.
func (a *App) Run(ctx context.Context) error {
	defer a.Close()
	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	failed := make(chan error, 2)
	if a.worker != nil {
		a.workerStarted = make(chan bool, 1)
		go func() {
			err := a.startWorker(running)
			a.workerStarted <- err == nil
			if err != nil && running.Err() == nil {
				failed <- err
			}
		}()
	}
	defer a.listen(context.WithoutCancel(ctx))() // as long as there are readers
	if a.server != nil {
		go func() { failed <- a.server.Serve(a.listener) }()
		a.logger.Info("listening", "address", a.Addr(), "workers", a.worker != nil, "poll_only", a.pollOnly, "version", Version)
	} else {
		a.logger.Info("working", "address", a.Addr(), "concurrency", a.config.WorkerConcurrency, "poll_only", a.pollOnly, "version", Version)
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stopRunning()
	a.stopping.Store(true)
	return errors.Join(err, a.stop(context.WithoutCancel(ctx)))
}

// listen starts to hear what other servers do, where that is possible.
func (a *App) listen(ctx context.Context) (stop func()) {
	if a.notices == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { a.notices.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

// startRetry is the pause between two tries to start the workers beside an API.
const startRetry = time.Second

// startWorker starts River. A server whose Postgres is away or not migrated yet waits for it and says so in
// /readyz; a process that does nothing but work fails, so that whoever started it sees why.
func (a *App) startWorker(ctx context.Context) error {
	for said := false; ; said = true {
		// On a context of its own: River must stop after the API, which still enqueues.
		err := a.worker.Start(context.WithoutCancel(ctx))
		if err == nil {
			return nil
		}
		if err = fmt.Errorf("start workers: %w", err); a.server == nil {
			return err
		}
		if !said {
			a.logger.Warn("workers wait for Postgres", "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(startRetry):
		}
	}
}

// stopMargin is for what follows the end of replies and jobs: last bytes to readers, last rows.
const stopMargin = 5 * time.Second

func (a *App) stop(ctx context.Context) error {
	a.logger.Info("stopping", "drain_timeout", a.config.DrainTimeout.String())
	var errs []error
	if a.server != nil {
		drain, cancel := context.WithTimeout(ctx, a.config.DrainTimeout)
		a.chat.Close(drain) // new messages are refused from here on; readers get their terminal events
		cancel()
		last, cancel := context.WithTimeout(ctx, stopMargin)
		err := a.server.Shutdown(last)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			// Left are readers that do not read, and those of a reply that another server generates. They
			// lose nothing: the reply is stored, and they resume it there.
			a.logger.Info("open connections cut", "after", stopMargin.String())
			err = a.server.Close()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("close connections: %w", err))
		}
	}
	if a.worker != nil && <-a.workerStarted {
		last, cancel := context.WithTimeout(ctx, a.config.DrainTimeout+stopMargin)
		if err := a.worker.Stop(last); err != nil {
			errs = append(errs, fmt.Errorf("stop workers: %w", err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

// Close lets go of what New took. Run does so at its end; only an App that is never run needs it.
func (a *App) Close() {
	if a.listener != nil {
		_ = a.listener.Close() // closed already by an orderly stop
	}
	for i := range a.closers {
		a.closers[len(a.closers)-1-i]()
	}
}
