package jobs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// Schema is where River's tables are.
const Schema = "river"

// Client inserts jobs, and works them when it was made to.
type Client = river.Client[pgx.Tx]

// WorkerConfig of a client that works. All fields are required except where noted.
type WorkerConfig struct {
	Folder      Folder
	Maintenance Maintenance
	Expiry      Expiry
	Metrics     *metrics.Metrics
	Logger      *slog.Logger
	// Concurrency is how many folds and rebuilds run at once in this process.
	Concurrency int
	// PollOnly does without LISTEN, which a transaction pooler does not pass on. River would start
	// there without an error and hear nothing, so this is decided by configuration.
	PollOnly bool
	// StopTimeout is how long running jobs may go on once the client stops; then they are cancelled.
	StopTimeout time.Duration
	// SweepInterval is the time from one sweep to the next. Defaults to 10 s: the sweep is what ends the
	// waiting after a crash, a reader's for its reply and a chat's for its fold, and one of nothing is
	// five index look-ups.
	SweepInterval time.Duration
	// ExpireInterval is the time from one look for expired chats to the next. Defaults to 15 min.
	ExpireInterval time.Duration
	// ExpiredDays is how long an expired chat is kept, 0 for ever. PruneDays is after how long without a message
	// a chat is deleted, 0 for never.
	ExpiredDays int
	PruneDays   int
	// YoungFold is how long a fold may run before it must have taken its lease: two short transactions.
	// Defaults to 15 s.
	YoungFold time.Duration
}

// NewInserter makes a client that inserts only.
func NewInserter(pool *pgxpool.Pool, logger *slog.Logger) (*Client, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: Schema, Logger: quiet(logger)})
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	return client, nil
}

// NewWorker makes a client that works all queues once it is started.
func NewWorker(pool *pgxpool.Pool, config WorkerConfig) (*Client, error) {
	config.SweepInterval = cmp.Or(config.SweepInterval, 10*time.Second)
	config.ExpireInterval = cmp.Or(config.ExpireInterval, 15*time.Minute)
	config.YoungFold = cmp.Or(config.YoungFold, 15*time.Second)
	workers := river.NewWorkers()
	river.AddWorker(workers, &foldWorker{folder: config.Folder})
	river.AddWorker(workers, &rebuildWorker{folder: config.Folder})
	river.AddWorker(workers, &sweepWorker{maintenance: config.Maintenance, metrics: config.Metrics, logger: config.Logger, youngFold: config.YoungFold})
	river.AddWorker(workers, &expireWorker{expiry: config.Expiry, logger: config.Logger, days: config.ExpiredDays})
	river.AddWorker(workers, &pruneWorker{expiry: config.Expiry, logger: config.Logger, days: config.PruneDays})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema:  Schema,
		Logger:  quiet(config.Logger),
		Workers: workers,
		Queues: map[string]river.QueueConfig{
			QueueMemory:      {MaxWorkers: config.Concurrency},
			QueueMaintenance: {MaxWorkers: 1},
		},
		PeriodicJobs: periodic(config),
		PollOnly:     config.PollOnly,
		// With LISTEN a fetch follows each insert after 5 ms at most; the poll is only for what a lost
		// notification left. Without LISTEN the poll is how jobs are found.
		FetchCooldown:        5 * time.Millisecond,
		FetchPollInterval:    pollInterval(config.PollOnly),
		JobTimeout:           foldTimeout,
		RescueStuckJobsAfter: rescueAfter,
		SoftStopTimeout:      config.StopTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	return client, nil
}

// pruneInterval is often enough for something counted in days.
const pruneInterval = time.Hour

func periodic(config WorkerConfig) []*river.PeriodicJob {
	jobs := []*river.PeriodicJob{every(config.SweepInterval, SweepBriefs{}), every(config.ExpireInterval, ExpireChats{})}
	if config.PruneDays > 0 {
		jobs = append(jobs, every(pruneInterval, PruneChats{}))
	}
	return jobs
}

// every runs a job at once and then again and again.
func every(interval time.Duration, args river.JobArgs) *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(interval),
		func() (river.JobArgs, *river.InsertOpts) { return args, nil },
		&river.PeriodicJobOpts{ID: args.Kind(), RunOnStart: true})
}

func pollInterval(pollOnly bool) time.Duration {
	if pollOnly {
		return 250 * time.Millisecond
	}
	return time.Second
}

// EnqueueFold gives the function that inserts a chat's fold in the caller's transaction. For a chat
// that has an unfinished one it changes nothing.
func EnqueueFold(client *Client) func(context.Context, pgx.Tx, uuid.UUID) error {
	return func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
		if _, err := client.InsertTx(ctx, tx, FoldBrief{ChatID: chatID}, nil); err != nil {
			return fmt.Errorf("enqueue fold: %w", err)
		}
		return nil
	}
}

// EnqueueRebuild gives the function that inserts a chat's rebuild in the caller's transaction. For a chat
// that has an unfinished one it changes nothing.
func EnqueueRebuild(client *Client) func(context.Context, pgx.Tx, uuid.UUID) error {
	return func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
		if _, err := client.InsertTx(ctx, tx, RebuildBrief{ChatID: chatID}, nil); err != nil {
			return fmt.Errorf("enqueue rebuild: %w", err)
		}
		return nil
	}
}

// quiet keeps River's own chatter, which is at info level, out of our log.
func quiet(logger *slog.Logger) *slog.Logger {
	return slog.New(warnings{logger.Handler()})
}

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
