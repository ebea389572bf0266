package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// foldWorkers is the concurrency of the fold benchmarks.
const foldWorkers = 16

// measureFold counts folds per second with a model that answers at once, and times the way of a job
// from its insert to its start.
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
		row{What: "insert to start of a fold, p50", Unit: "ms", Value: ours.ms(.5), Baseline: theirs.ms(.5), Against: defaults},
		row{What: "insert to start of a fold, p95", Unit: "ms", Value: ours.ms(.95), Baseline: theirs.ms(.95), Against: defaults, Target: atMost(100)},
	)
	return g, e.clearJobs(ctx)
}

// instant is a model that has its summary ready.
type instant struct{ text string }

func (m instant) Summarize(context.Context, brief.Call) (brief.Answer, error) {
	return brief.Answer{Text: m.text, Model: "instant", InputTokens: 6000, OutputTokens: 300}, nil
}

// idle is a sweep with nothing to do.
type idle struct{}

func (idle) InterruptAbandonedReplies(context.Context) (int, error) { return 0, nil }
func (idle) ReviveDeadFolds(context.Context, time.Duration) (revived, leases int, err error) {
	return 0, 0, nil
}
func (idle) DeleteStrayDeltas(context.Context, time.Duration) (int, error)     { return 0, nil }
func (idle) DueChats(context.Context) (folds, rebuilds []uuid.UUID, err error) { return nil, nil, nil }
func (idle) MergeSearchEntries(context.Context) error                          { return nil }

// counting is a folder that tells when a number of folds are done.
type counting struct {
	jobs.Folder
	mu          sync.Mutex
	left        int
	began, last time.Time
	failure     error
	done        chan struct{}
}

func (c *counting) Fold(ctx context.Context, chatID uuid.UUID, job brief.Job) (brief.Report, error) {
	c.mu.Lock()
	if c.began.IsZero() {
		c.began = time.Now()
	}
	c.mu.Unlock()
	report, err := c.Folder.Fold(ctx, chatID, job)
	if err == nil && report.Result != brief.Done {
		err = fmt.Errorf("the fold came to %q", report.Result)
	}
	c.count(err)
	return report, err
}

func (c *counting) count(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left--
	c.last = time.Now()
	c.failure = errors.Join(c.failure, err)
	if c.left == 0 {
		close(c.done)
	}
}

// rate waits for the end.
func (c *counting) rate(ctx context.Context, count int) (float64, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return float64(count) / c.last.Sub(c.began).Seconds(), c.failure
}

// foldRate folds every due chat once.
func (e *environment) foldRate(ctx context.Context) (float64, error) {
	if err := e.unfold(ctx); err != nil {
		return 0, err
	}
	numbers := metrics.New()
	folder := &counting{left: e.folds, done: make(chan struct{}), Folder: brief.New(brief.Config{
		Store: postgres.NewBriefs(e.pool), Summarizer: instant{summaryText()}, Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "instant"},
		Limits: memory.DefaultLimits(), Logger: quiet(), Metrics: numbers,
	})}
	worker, err := e.worker(folder, numbers)
	if err != nil {
		return 0, err
	}
	params := make([]river.InsertManyParams, e.folds)
	for n := range params {
		params[n].Args = jobs.FoldBrief{ChatID: numbered(dueChat, n)}
	}
	if _, err := worker.InsertMany(ctx, params); err != nil {
		return 0, err
	}
	return working(ctx, worker, func() (float64, error) { return folder.rate(ctx, e.folds) })
}

// unfold brings the due chats back to where fill left them.
func (e *environment) unfold(ctx context.Context) error {
	if err := e.clearJobs(ctx); err != nil {
		return err
	}
	ids := make([]uuid.UUID, e.folds)
	for n := range ids {
		ids[n] = numbered(dueChat, n)
	}
	if _, err := e.admin.Exec(ctx, "delete from public.conversation_brief_revisions where chat_id = any($1)", ids); err != nil {
		return err
	}
	_, err := e.admin.Exec(ctx, `
		update public.conversation_briefs b
		   set brief = default, brief_tokens = 0, version = 0, covered_seq = 0, stale = false, lease_token = null, lease_until = null,
		       pending_tokens = (select sum(m.token_count) from public.messages m where m.chat_id = b.chat_id),
		       pending_turns = (select count(*) from public.messages m where m.chat_id = b.chat_id and m.role = 'user')
		 where b.chat_id = any($1)`, ids)
	return err
}

func (e *environment) worker(folder jobs.Folder, numbers *metrics.Metrics) (*jobs.Client, error) {
	return jobs.NewWorker(e.pool, jobs.WorkerConfig{
		Folder: folder, Maintenance: idle{}, Metrics: numbers, Logger: quiet(), Concurrency: foldWorkers, StopTimeout: stopWithin,
	})
}

// stopWithin bounds the end of whatever a benchmark started.
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
