package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// Schema is the schema of River's tables.
const Schema = "river"

// Client inserts jobs, and works them if it was made by NewWorker.
type Client = river.Client[pgx.Tx]

// WorkerConfig configures a client that works jobs. All fields without a default are required.
type WorkerConfig struct {
	Folder      Folder
	Maintenance Maintenance
	// Indexer indexes turns.
	Indexer Indexer
	// Embedder makes vectors of turns; nil for none.
	Embedder *recall.Vectors
	// MemoryEmbedder makes vectors of memories; nil for none.
	MemoryEmbedder *recall.Vectors
	Reviver        Reviver
	// Learner extracts memories, and Extractions finds the chats that it should read; nil for no long-term memory.
	Learner     *learn.Engine
	Extractions Extractions
	// Grapher keeps the graph of memories, Decayer lets unused ones fade; nil for neither.
	Grapher Grapher
	Decayer Decayer
	// Topics keeps the topics of conversations, TopicSweep finds those with something to do, and Compactor summarizes and
	// packs them; nil for no topics.
	Topics     *assign.Engine
	TopicSweep TopicSweep
	Compactor  *pack.Engine
	// DecayAt is the time of day at which memories fade, after midnight in UTC.
	DecayAt time.Duration
	// ArchiveDeleteDays is after how many days an archived memory is deleted; 0 keeps it.
	ArchiveDeleteDays int
	Metrics           *metrics.Metrics
	Logger            *slog.Logger
	// Concurrency is how many jobs of chats run at once in this process.
	Concurrency int
	// PollOnly finds jobs without LISTEN, which does not work through a transaction pooler. River would start
	// there without an error and receive nothing.
	PollOnly bool
	// StopTimeout is how long running jobs may continue once the client stops; then they are cancelled.
	StopTimeout time.Duration
	// SweepInterval is the time between sweeps. Defaults to 10 s: after a crash, readers and folds wait for
	// the sweep, and one that finds nothing costs an index look-up for each thing that it looks for.
	SweepInterval time.Duration
	// ExpireInterval is the time between two expire_chats jobs. Defaults to 15 min.
	ExpireInterval time.Duration
	// ExpiredDays is how many days an expired chat is kept; 0 keeps it.
	ExpiredDays int
	// PruneDays is after how many days without a message a chat is deleted; 0 keeps it.
	PruneDays int
	// YoungFold is how long a fold may run before it must have taken its lease, which takes two short
	// transactions. Defaults to 15 s.
	YoungFold time.Duration
}

// fetchCooldown is the least time between two fetches of a worker. A client that inserts sends no more notifications than
// that: with River's default of 100 ms, a job that follows another one at once would wait until workers poll.
const fetchCooldown = 5 * time.Millisecond

// NewInserter returns a client that only inserts jobs.
func NewInserter(pool *pgxpool.Pool, logger *slog.Logger) (*Client, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: Schema, Logger: quiet(logger), FetchCooldown: fetchCooldown})
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	return client, nil
}

// NewWorker returns a client that works all queues once it is started.
func NewWorker(pool *pgxpool.Pool, config WorkerConfig) (*Client, error) {
	config.SweepInterval = cmp.Or(config.SweepInterval, 10*time.Second)
	config.ExpireInterval = cmp.Or(config.ExpireInterval, 15*time.Minute)
	config.YoungFold = cmp.Or(config.YoungFold, 15*time.Second)
	workers := river.NewWorkers()
	addWorker(workers, true, config.fold, 0)
	addWorker(workers, true, config.rebuild, 0)
	addWorker(workers, true, config.indexTurns, 0)
	addWorker(workers, config.Embedder != nil, config.embedTurns, embedTimeout)
	addWorker(workers, config.MemoryEmbedder != nil, config.embedMemories, embedTimeout)
	addWorker(workers, config.Learner != nil, config.extract, 0)
	addWorker(workers, config.Grapher != nil, config.updateGraph, graphTimeout)
	addWorker(workers, config.Decayer != nil, config.decay, deleteTimeout)
	addWorker(workers, config.Topics != nil, config.assignTopics, sweepTimeout)
	addWorker(workers, config.Compactor != nil, config.compactTopic, 0)
	addWorker(workers, config.Topics != nil, config.decayTopics, topicsTimeout)
	addWorker(workers, config.Topics != nil, config.mergeTopics, topicsTimeout)
	addWorker(workers, true, config.sweep, sweepTimeout)
	addWorker(workers, true, config.reembed, sweepTimeout)
	addWorker(workers, true, config.expire, deleteTimeout)
	addWorker(workers, true, config.prune, deleteTimeout)
	// With LISTEN a fetch follows each insert after FetchCooldown; polling only finds jobs whose notification
	// was lost. Without LISTEN polling is how jobs are found.
	pollInterval := time.Second
	if config.PollOnly {
		pollInterval = 250 * time.Millisecond
	}
	periodicJobs := []*river.PeriodicJob{every(config.SweepInterval, SweepBriefs{}), every(config.ExpireInterval, ExpireChats{})}
	if config.Embedder != nil || config.MemoryEmbedder != nil {
		periodicJobs = append(periodicJobs, every(reembedSweeps*config.SweepInterval, Reembed{}))
	}
	if config.Grapher != nil {
		periodicJobs = append(periodicJobs, every(graphInterval, UpdateMemoryGraph{}))
	}
	if config.Decayer != nil {
		periodicJobs = append(periodicJobs, on(daily(config.DecayAt), DecayMemories{}))
	}
	if config.Topics != nil {
		periodicJobs = append(periodicJobs, every(topicsInterval, DecayTopics{}), every(topicsInterval, MergeTopics{}))
	}
	if config.PruneDays > 0 {
		periodicJobs = append(periodicJobs, every(time.Hour, PruneChats{}))
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema:  Schema,
		Logger:  quiet(config.Logger),
		Workers: workers,
		Queues: map[string]river.QueueConfig{
			QueueMemory:      {MaxWorkers: config.Concurrency},
			QueueMemories:    {MaxWorkers: max(2, config.Concurrency/2)},
			QueueTopics:      {MaxWorkers: max(2, config.Concurrency/2)},
			QueueVectors:     {MaxWorkers: embeddingsAtOnce},
			QueueMaintenance: {MaxWorkers: 1},
		},
		PeriodicJobs:         periodicJobs,
		PollOnly:             config.PollOnly,
		FetchCooldown:        fetchCooldown,
		FetchPollInterval:    pollInterval,
		JobTimeout:           foldTimeout,
		RescueStuckJobsAfter: rescueAfter,
		SoftStopTimeout:      config.StopTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	return client, nil
}

// addWorker adds the worker of one kind of job; a timeout of 0 is foldTimeout. Where the kind is switched off its jobs, which are
// left of a time with it or were inserted by hand, end at once.
func addWorker[Args river.JobArgs](to *river.Workers, on bool, work func(context.Context, *river.Job[Args]) error, timeout time.Duration) {
	if !on {
		work = func(context.Context, *river.Job[Args]) error { return nil }
	}
	river.AddWorker(to, &jobWorker[Args]{work: work, timeout: timeout})
}

// jobWorker works the jobs of one kind.
type jobWorker[Args river.JobArgs] struct {
	river.WorkerDefaults[Args]
	work    func(context.Context, *river.Job[Args]) error
	timeout time.Duration
}

func (w *jobWorker[Args]) Timeout(*river.Job[Args]) time.Duration { return w.timeout }

func (w *jobWorker[Args]) NextRetry(job *river.Job[Args]) time.Time { return nextRetry(job.Attempt) }

func (w *jobWorker[Args]) Work(ctx context.Context, job *river.Job[Args]) error {
	return w.work(ctx, job)
}

// every inserts a job at the start and then after each interval.
func every(interval time.Duration, args river.JobArgs) *river.PeriodicJob {
	return on(river.PeriodicInterval(interval), args)
}

// on inserts a job at the start and then by a schedule.
func on(schedule river.PeriodicSchedule, args river.JobArgs) *river.PeriodicJob {
	return river.NewPeriodicJob(schedule,
		func() (river.JobArgs, *river.InsertOpts) { return args, nil },
		&river.PeriodicJobOpts{ID: args.Kind(), RunOnStart: true})
}

// EnqueueFold returns a function that inserts a chat's fold in the caller's transaction. If the chat has an
// unfinished one that waits behind others, it comes first now.
func EnqueueFold(client *Client) func(context.Context, pgx.Tx, uuid.UUID) error {
	return enqueue(client, newFold, priorityNow)
}

// EnqueueImported is EnqueueFold for a chat in which nobody is talking yet: others come first.
func EnqueueImported(client *Client) func(context.Context, pgx.Tx, uuid.UUID) error {
	return enqueue(client, newFold, priorityLater)
}

// EnqueueRebuild is EnqueueFold for a chat's rebuild.
func EnqueueRebuild(client *Client) func(context.Context, pgx.Tx, uuid.UUID) error {
	return enqueue(client, newRebuild, priorityNow)
}

// EnqueueIndex returns a function that inserts a chat's index_turns in the caller's transaction. It comes after folds of
// chats in which somebody is talking: the turns are still in the prompt.
func EnqueueIndex(client *Client) func(context.Context, pgx.Tx, uuid.UUID) error {
	return enqueue(client, newIndex, priorityRepair)
}

func enqueue(client *Client, newJob func(uuid.UUID) river.JobArgs, priority int) func(context.Context, pgx.Tx, uuid.UUID) error {
	return func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
		job := newJob(chatID)
		inserted, err := client.InsertTx(ctx, tx, job, &river.InsertOpts{Priority: priority})
		if err == nil && inserted.Job.Priority > priority {
			_, err = tx.Exec(ctx, raiseJob, inserted.Job.ID, priority)
		}
		if err != nil {
			return fmt.Errorf("enqueue %s: %w", job.Kind(), err)
		}
		return nil
	}
}

// raiseJob raises the priority of a job that waits; the insert that found it has locked it. One that waits for its turn
// is tried again at once, one that failed when it would have been.
const raiseJob = `update river.river_job
   set priority = $2, scheduled_at = case when state = 'scheduled' then now() else scheduled_at end,
       state = case when state = 'scheduled' then 'available' else state end
 where id = $1`

// quiet drops River's log lines below warning, and the errors of its maintenance that are only the end of its context:
// nothing is wrong when a server is stopped.
func quiet(logger *slog.Logger) *slog.Logger {
	return slog.New(warnings{logger.Handler()})
}

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) Handle(ctx context.Context, record slog.Record) error {
	if errors.Is(ctx.Err(), context.Canceled) && strings.HasPrefix(record.Message, "maintenance.") {
		return nil
	}
	return w.Handler.Handle(ctx, record)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
