package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
)

const (
	// startRetry is the pause between two attempts to start the workers.
	startRetry = time.Second
	// stopMargin is for what follows the end of replies and jobs: last bytes to clients, last rows.
	stopMargin = 5 * time.Second
	// readyTimeout bounds the search for the cause when workers do not start.
	readyTimeout = 3 * time.Second
)

// Run serves until ctx ends, then stops in order.
func (a *App) Run(ctx context.Context) error {
	defer a.Close()
	starting, stopStarting := context.WithCancel(ctx)
	defer stopStarting()
	failed := make(chan error, 1)
	var worker sync.WaitGroup // its start
	if a.worker != nil {
		worker.Go(func() { a.startWorker(starting) })
	}
	defer a.followOtherServers(context.WithoutCancel(ctx))() // until the last client has its reply
	if a.server != nil {
		worker.Go(func() { a.watchIsolation(starting) })
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
	stopStarting()
	a.stopping.Store(true)
	a.logger.Info("stopping", "drain_timeout", a.drain().String())
	err = errors.Join(err, a.stopServer(context.WithoutCancel(ctx)))
	worker.Wait()
	return errors.Join(err, a.stopWorker(context.WithoutCancel(ctx)))
}

// startWorker starts River. It retries while Postgres is away, refuses the server or is not migrated yet, which /readyz
// reports meanwhile; the log has each new cause.
func (a *App) startWorker(ctx context.Context) {
	for warned := fault.Code(""); ; {
		// Not ctx: River must outlive the API, which still enqueues while it stops.
		err := a.worker.Start(context.WithoutCancel(ctx))
		if err == nil {
			return
		}
		err = a.orNotReady(ctx, err)
		if code := fault.CodeOf(err); code != warned && ctx.Err() == nil {
			warned = code
			a.logger.Warn("workers wait for Postgres", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(startRetry):
		}
	}
}

// orNotReady returns the cause that /readyz names, if there is one: River only tells which table it lacks.
func (a *App) orNotReady(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_, cause := a.ready(ctx)
	return cmp.Or(cause, err)
}

// followOtherServers passes notifications of other servers to chat until stop is called.
func (a *App) followOtherServers(ctx context.Context) (stop func()) {
	if a.notices == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { a.notices.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

func (a *App) drain() time.Duration { return cmp.Or(a.doubles.Drain, drainTimeout) }

func (a *App) stopServer(ctx context.Context) error {
	if a.server == nil {
		return nil
	}
	drain, cancel := context.WithTimeout(ctx, a.drain())
	a.chat.Close(drain) // from here on new messages are refused; clients get their terminal events
	cancel()

	margin, cancel := context.WithTimeout(ctx, stopMargin)
	defer cancel()
	err := a.server.Shutdown(margin)
	if errors.Is(err, context.DeadlineExceeded) {
		// The rest are clients that do not read, and clients of replies that other servers generate. They
		// lose nothing: the reply is stored, and they resume it elsewhere.
		a.logger.Info("open connections cut", "after", stopMargin.String())
		err = a.server.Close()
	}
	if err != nil {
		return fmt.Errorf("close connections: %w", err)
	}
	return nil
}

// stopWorker does nothing to a worker that did not start.
func (a *App) stopWorker(ctx context.Context) error {
	if a.worker == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.drain()+stopMargin)
	defer cancel()
	if err := a.worker.Stop(ctx); err != nil {
		return fmt.Errorf("stop workers: %w", err)
	}
	return nil
}
