package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/memory/topics"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
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
	Folder Folder
	Store  Store
	// Embedder and MemoryEmbedder make vectors of turns and memories; nil for none.
	Embedder, MemoryEmbedder *recall.Vectors
	// Learner extracts memories, Grapher keeps their graph; nil for no long-term memory.
	Learner *longterm.Extractor
	Grapher Grapher
	// Fade lets unused memories fade.
	Fade bool
	// ArchiveDeleteDays is after how many days an archived memory is deleted; 0 keeps it.
	ArchiveDeleteDays int
	// Topics keeps the topics of conversations, Compactor summarizes and packs them; nil for no topics.
	Topics    *topics.Assigner
	Compactor *topics.Compactor
	// Titler gives chats their titles; nil for no titles but those of first messages.
	Titler  *topics.Titler
	Metrics *metrics.Metrics
	Logger  *slog.Logger
	// Concurrency is how many jobs of chats run at once in this process.
	Concurrency int
	// PollOnly finds jobs without LISTEN, which does not work through a transaction pooler. River would start
	// there without an error and receive nothing.
	PollOnly bool
	// StopTimeout is how long running jobs may continue once the client stops; then they are cancelled.
	StopTimeout time.Duration
	// SweepInterval is the time between sweeps. Defaults to 2 s: after a crash or a failover, readers and folds wait for
	// the sweep, and one that could not be inserted meanwhile is left out. One that finds nothing costs an index look-up for each
	// thing that it looks for.
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

// rescueAfter is when River takes over the job of a silent worker. The sweep does so earlier for folds,
// because it knows their leases.
const rescueAfter = 10 * time.Minute

// embeddingsAtOnce is how many jobs wait for the embedder at once in a process: most of their time they do.
const embeddingsAtOnce = 2

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
	config.SweepInterval = cmp.Or(config.SweepInterval, 2*time.Second)
	config.ExpireInterval = cmp.Or(config.ExpireInterval, 15*time.Minute)
	config.YoungFold = cmp.Or(config.YoungFold, 15*time.Second)
	workers, periodicJobs := river.NewWorkers(), []*river.PeriodicJob{}
	for _, kind := range config.kinds() {
		// One type has the arguments of all kinds, so River is told the kind.
		river.AddWorkerArgs(workers, Args{work.Job{Name: kind.name}}, &jobWorker{kind: kind})
		if kind.schedule != nil {
			periodicJobs = append(periodicJobs, periodic(kind.name, kind.schedule))
		}
	}
	// With LISTEN a fetch follows each insert after FetchCooldown; polling only finds jobs whose notification
	// was lost. Without LISTEN polling is how jobs are found.
	pollInterval := time.Second
	if config.PollOnly {
		pollInterval = 250 * time.Millisecond
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

// periodic inserts a job at the start and then by a schedule.
func periodic(name string, schedule river.PeriodicSchedule) *river.PeriodicJob {
	return river.NewPeriodicJob(schedule,
		func() (river.JobArgs, *river.InsertOpts) { return Args{work.Job{Name: name}}, nil },
		&river.PeriodicJobOpts{ID: name, RunOnStart: true})
}

// Insert returns a function that inserts a job in the caller's transaction. If there is an unfinished one that waits behind
// others, it comes as soon as this one would; and a chat that is to be read at once does not rest before.
func Insert(client *Client) func(context.Context, pgx.Tx, work.Job) error {
	return func(ctx context.Context, tx pgx.Tx, job work.Job) error {
		job.Priority = cmp.Or(job.Priority, work.Now)
		inserted, err := client.InsertTx(ctx, tx, Args{job}, nil)
		if err == nil && inserted.UniqueSkippedAsDuplicate &&
			(inserted.Job.Priority > job.Priority || job.Name == work.ExtractMemories && job.At.IsZero()) {
			_, err = tx.Exec(ctx, raiseJob, inserted.Job.ID, job.Priority)
		}
		if err != nil {
			return fmt.Errorf("enqueue %s: %w", job.Name, err)
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
