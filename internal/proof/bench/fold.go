package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/jobs"
)

// foldWorkers is the concurrency of the fold benchmarks.
const foldWorkers = 16

// measureFold counts folds per second with a model that answers at once, and times jobs from insert to start.
func measureFold(ctx context.Context, e *environment) (group, error) {
	g := group{Title: fmt.Sprintf("memory work on River, %d workers, a model that answers at once", foldWorkers)}
	folds, err := e.foldRate(ctx)
	if err != nil {
		return g, fmt.Errorf("folds: %w", err)
	}
	nothings, err := e.nothingRate(ctx)
	if err != nil {
		return g, fmt.Errorf("empty jobs: %w", err)
	}
	ours, err := e.foldPickup(ctx)
	if err != nil {
		return g, fmt.Errorf("pick-up: %w", err)
	}
	theirs, err := e.nothingPickup(ctx)
	if err != nil {
		return g, fmt.Errorf("River's pick-up: %w", err)
	}
	const defaults = "River's defaults"
	g.add(
		row{What: fmt.Sprintf("folds of %d turns", dueTurns()-memory.DefaultLimits().KRawTurns), Unit: "/s", Value: folds, Baseline: nothings, Against: "jobs of nothing", Target: atLeast(1500)},
		row{What: "insert to start of a fold, p50", Unit: "ms", Value: ours.MS(.5), Baseline: theirs.MS(.5), Against: defaults},
		row{What: "insert to start of a fold, p95", Unit: "ms", Value: ours.MS(.95), Baseline: theirs.MS(.95), Against: defaults, Target: atMost(100)},
	)
	return g, e.clearJobs(ctx)
}

// instant is a model whose summary is ready.
type instant struct{ text string }

func (m instant) Summarize(context.Context, brief.Call) (brief.Answer, error) {
	return brief.Answer{Text: m.text, Model: "instant", InputTokens: 6000, OutputTokens: 300}, nil
}

// idle is a sweep with nothing to do. Nothing is deleted in a benchmark, so that the rest is missing.
type idle struct{ jobs.Maintenance }

func (idle) InterruptAbandonedReplies(context.Context) (int, error) { return 0, nil }
func (idle) ReviveDeadFolds(context.Context, time.Duration) (revived, leases int, err error) {
	return 0, 0, nil
}
func (idle) DeleteStrayDeltas(context.Context, time.Duration) (int, error)     { return 0, nil }
func (idle) DueChats(context.Context) (folds, rebuilds []uuid.UUID, err error) { return nil, nil, nil }
func (idle) ReviveDeadExtractions(context.Context, time.Duration) (revived, leases int, err error) {
	return 0, 0, nil
}
func (idle) DueExtractions(context.Context) ([]uuid.UUID, error) { return nil, nil }
func (idle) MergeSearchEntries(context.Context) error            { return nil }

// ran is a job that ran.
type ran struct {
	began, ended time.Time
	err          error
}

// next waits for the next job that runs.
func next(ctx context.Context, jobs <-chan ran) (ran, error) {
	select {
	case job := <-jobs:
		return job, job.err
	case <-ctx.Done():
		return ran{}, ctx.Err()
	}
}

// watched is a folder that reports each fold. A fold that is not done is an error.
type watched struct {
	jobs.Folder
	folds chan<- ran
}

func (w watched) Fold(ctx context.Context, chatID uuid.UUID, job brief.Job) (brief.Report, error) {
	began := time.Now()
	report, err := w.Folder.Fold(ctx, chatID, job)
	fold := ran{began, time.Now(), err}
	if err == nil && report.Result != brief.Done {
		fold.err = fmt.Errorf("the fold came to %q", report.Result)
	}
	w.folds <- fold
	return report, err
}

// foldRate folds every due chat once.
func (e *environment) foldRate(ctx context.Context) (float64, error) {
	if err := e.unfold(ctx); err != nil {
		return 0, err
	}
	numbers := metrics.New()
	folds := make(chan ran, e.folds)
	worker, err := e.worker(watched{e.folder(postgres.NewBriefs(e.pool), instant{summaryText()}, numbers), folds}, nil, numbers)
	if err != nil {
		return 0, err
	}
	return e.jobRate(ctx, worker, folds, func(n int) river.JobArgs { return jobs.FoldBrief{ChatID: kit.ID(dueChat, n)} })
}

// jobRate inserts as many jobs as there are due chats, and returns how many per second the client works.
func (e *environment) jobRate(ctx context.Context, client *jobs.Client, jobs <-chan ran, args func(n int) river.JobArgs) (float64, error) {
	params := make([]river.InsertManyParams, e.folds)
	for n := range params {
		params[n].Args = args(n)
	}
	if _, err := client.InsertMany(ctx, params); err != nil {
		return 0, err
	}
	return working(ctx, client, func() (float64, error) {
		var first, last time.Time
		for n := range e.folds {
			job, err := next(ctx, jobs)
			if err != nil {
				return 0, err
			}
			if n == 0 || job.began.Before(first) {
				first = job.began
			}
			last = job.ended
		}
		return float64(e.folds) / last.Sub(first).Seconds(), nil
	})
}

func (e *environment) folder(store brief.Store, summarizer brief.Summarizer, numbers *metrics.Metrics) jobs.Folder {
	return brief.New(brief.Config{
		Store: store, Summarizer: summarizer, Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "offline"},
		Limits: memory.DefaultLimits(), Logger: quiet(), Metrics: numbers,
	})
}

// unfold resets the due chats to the state after fill.
func (e *environment) unfold(ctx context.Context) error {
	if err := e.clearJobs(ctx); err != nil {
		return err
	}
	ids := make([]uuid.UUID, e.folds)
	for n := range ids {
		ids[n] = kit.ID(dueChat, n)
	}
	for _, table := range []string{"conversation_brief_revisions", "turn_index"} {
		if _, err := e.admin.Exec(ctx, "delete from public."+table+" where chat_id = any($1)", ids); err != nil {
			return err
		}
	}
	_, err := e.admin.Exec(ctx, `
		update public.conversation_briefs b
		   set brief = default, brief_tokens = 0, version = 0, covered_seq = 0, indexed_seq = 0, to_index = false, stale = false, lease_token = null, lease_until = null,
		       pending_tokens = (select sum(m.token_count) from public.messages m where m.chat_id = b.chat_id),
		       pending_turns = (select count(*) from public.messages m where m.chat_id = b.chat_id and m.role = 'user')
		 where b.chat_id = any($1)`, ids)
	return err
}

func (e *environment) worker(folder jobs.Folder, learner jobs.Learner, numbers *metrics.Metrics) (*jobs.Client, error) {
	return jobs.NewWorker(e.pool, jobs.WorkerConfig{
		Folder: folder, Learner: learner, Extractions: idle{}, Maintenance: idle{}, Metrics: numbers, Logger: quiet(), Concurrency: foldWorkers, StopTimeout: stopWithin,
	})
}

// stopWithin bounds the end of what a benchmark started.
const stopWithin = 10 * time.Second

// working runs a worker while something is measured.
func working[T any](ctx context.Context, worker *jobs.Client, measure func() (T, error)) (T, error) {
	var none T
	if err := worker.Start(context.WithoutCancel(ctx)); err != nil {
		return none, err
	}
	found, err := measure()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return found, errors.Join(err, worker.Stop(stop))
}

// nothing is a job without work: the cost of River itself.
type nothing struct {
	N int `json:"n"`
}

func (nothing) Kind() string { return "bench_nothing" }

// nothingClient works jobs of nothing. cooldown 0 is River's default, as is everything else.
func (e *environment) nothingClient(cooldown time.Duration) (*jobs.Client, <-chan ran, error) {
	done := make(chan ran, e.folds)
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[nothing]) error {
		done <- ran{began: time.Now(), ended: time.Now()}
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(e.pool), &river.Config{
		Schema: jobs.Schema, Logger: quiet(), Workers: workers, FetchCooldown: cooldown,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: foldWorkers}},
	})
	return client, done, err
}

// nothingRate is foldRate without folds.
func (e *environment) nothingRate(ctx context.Context) (float64, error) {
	if err := e.clearJobs(ctx); err != nil {
		return 0, err
	}
	const asOurs = 5 * time.Millisecond
	client, done, err := e.nothingClient(asOurs)
	if err != nil {
		return 0, err
	}
	return e.jobRate(ctx, client, done, func(n int) river.JobArgs { return nothing{N: n} })
}

// starts is a folder that only reports when a fold starts. Nothing is rebuilt.
type starts struct {
	jobs.Folder
	jobs chan<- ran
}

func (s starts) Fold(context.Context, uuid.UUID, brief.Job) (brief.Report, error) {
	s.jobs <- ran{began: time.Now()}
	return brief.Report{Result: brief.Nothing}, nil
}

// foldPickup times folds that are enqueued as a saved reply enqueues them, one after another, from before the
// insert to the start of the work.
func (e *environment) foldPickup(ctx context.Context) (kit.Times, error) {
	if err := e.clearJobs(ctx); err != nil {
		return nil, err
	}
	started := make(chan ran, 1)
	worker, err := e.worker(starts{jobs: started}, nil, metrics.New())
	if err != nil {
		return nil, err
	}
	enqueue := jobs.EnqueueFold(worker)
	return e.pickup(ctx, worker, e.pickups, started, func(tx pgx.Tx, _ int) error { return enqueue(ctx, tx, uuid.New()) })
}

// nothingPickup is the same with River's defaults.
func (e *environment) nothingPickup(ctx context.Context) (kit.Times, error) {
	client, done, err := e.nothingClient(0)
	if err != nil {
		return nil, err
	}
	const slower = 8 // so there are fewer of them
	return e.pickup(ctx, client, max(1, e.pickups/slower), done, func(tx pgx.Tx, n int) error {
		_, err := client.InsertTx(ctx, tx, nothing{N: n}, nil)
		return err
	})
}

// pickup inserts one job after another, each a while after the last one started, so that its worker is idle.
func (e *environment) pickup(ctx context.Context, worker *jobs.Client, count int, started <-chan ran, insert func(tx pgx.Tx, n int) error) (kit.Times, error) {
	const warm, longestPause = 3, 60 * time.Millisecond
	return working(ctx, worker, func() (kit.Times, error) {
		var took kit.Times
		for n := range warm + count {
			began := time.Now()
			if err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return insert(tx, n) }); err != nil {
				return nil, err
			}
			job, err := next(ctx, started)
			if err != nil {
				return nil, err
			}
			if n >= warm {
				took = append(took, job.began.Sub(began))
			}
			time.Sleep(longestPause * time.Duration(n%7+1) / 7) // of different lengths, to match no period of the worker
		}
		return took, nil
	})
}
