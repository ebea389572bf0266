package main

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// nothing is a job that does nothing: what River itself costs.
type nothing struct {
	N int `json:"n"`
}

func (nothing) Kind() string { return "bench_nothing" }

type nothingWorker struct {
	river.WorkerDefaults[nothing]
	started func()
}

func (w *nothingWorker) Work(context.Context, *river.Job[nothing]) error {
	w.started()
	return nil
}

// nothingClient works jobs of nothing. cooldown 0 is River's default, as is everything else.
func (e *environment) nothingClient(cooldown time.Duration, started func()) (*jobs.Client, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &nothingWorker{started: started})
	return river.NewClient(riverpgxv5.New(e.pool), &river.Config{
		Schema: jobs.Schema, Logger: quiet(), Workers: workers, FetchCooldown: cooldown,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: foldWorkers}},
	})
}

// nothingRate is foldRate without folds.
func (e *environment) nothingRate(ctx context.Context) (float64, error) {
	if err := e.clearJobs(ctx); err != nil {
		return 0, err
	}
	const asOurs = 5 * time.Millisecond
	counter := &counting{left: e.folds, done: make(chan struct{})}
	client, err := e.nothingClient(asOurs, func() {
		counter.mu.Lock()
		if counter.began.IsZero() {
			counter.began = time.Now()
		}
		counter.mu.Unlock()
		counter.count(nil)
	})
	if err != nil {
		return 0, err
	}
	params := make([]river.InsertManyParams, e.folds)
	for n := range params {
		params[n].Args = nothing{N: n}
	}
	if _, err := client.InsertMany(ctx, params); err != nil {
		return 0, err
	}
	return working(ctx, client, func() (float64, error) { return counter.rate(ctx, e.folds) })
}

// starts is a folder that only tells when a fold starts.
type starts chan time.Time

func (s starts) Fold(context.Context, uuid.UUID, brief.Job) (brief.Report, error) {
	s <- time.Now()
	return brief.Report{Result: brief.Nothing}, nil
}

func (s starts) Rebuild(context.Context, uuid.UUID, brief.Job) (brief.Report, error) {
	return brief.Report{Result: brief.Nothing}, nil
}

// foldPickup times folds that are enqueued as a saved reply enqueues them, one after another, from
// before the insert to the start of the work.
func (e *environment) foldPickup(ctx context.Context) (times, error) {
	if err := e.clearJobs(ctx); err != nil {
		return nil, err
	}
	started := make(starts, 1)
	worker, err := e.worker(started, metrics.New())
	if err != nil {
		return nil, err
	}
	enqueue := jobs.EnqueueFold(worker)
	return working(ctx, worker, func() (times, error) {
		return e.pickup(ctx, e.pickups, started, func(tx pgx.Tx, _ int) error { return enqueue(ctx, tx, uuid.New()) })
	})
}

// nothingPickup is the same with a River as it comes.
func (e *environment) nothingPickup(ctx context.Context) (times, error) {
	started := make(starts, 1)
	client, err := e.nothingClient(0, func() { started <- time.Now() })
	if err != nil {
		return nil, err
	}
	const slower = 8 // so there are fewer of them
	return working(ctx, client, func() (times, error) {
		return e.pickup(ctx, max(1, e.pickups/slower), started, func(tx pgx.Tx, n int) error {
			_, err := client.InsertTx(ctx, tx, nothing{N: n}, nil)
			return err
		})
	})
}

// pickup inserts one job after another, each a while after the last one started, so that it meets a
// worker that has nothing to do.
func (e *environment) pickup(ctx context.Context, count int, started <-chan time.Time, insert func(tx pgx.Tx, n int) error) (times, error) {
	const warm, longestPause = 3, 60 * time.Millisecond
	var took times
	for n := range warm + count {
		began := time.Now()
		if err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return insert(tx, n) }); err != nil {
			return nil, err
		}
		select {
		case at := <-started:
			if n >= warm {
				took = append(took, at.Sub(began))
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		time.Sleep(longestPause * time.Duration(n%7+1) / 7) // of different lengths, to meet no rhythm of the worker
	}
	return took, nil
}
