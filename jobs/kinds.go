// Package jobs runs the background work on River: which jobs exist, and when they are inserted, retried and
// rescued. What a fold does is in internal/memory/brief. A job's arguments are ids and its output is numbers,
// so that River's tables never contain what users wrote.
package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Queues.
const (
	// QueueMemory is for folds; WorkerConfig.Concurrency of them run at once.
	QueueMemory = "memory"
	// QueueMemories is for extract_memories, compact_topic, title_chat and update_memory_graph, which wait for a model; half of
	// WorkerConfig.Concurrency of them run at once.
	QueueMemories = "memories"
	// QueueTopics is for index_turns and assign_topics, which ask no model and wait for none; half of WorkerConfig.Concurrency of them
	// run at once.
	QueueTopics = "topics"
	// QueueVectors is for embed_turns and embed_memories, which wait for the embedder.
	QueueVectors = "vectors"
	// QueueMaintenance is for the periodic jobs; one runs at a time.
	QueueMaintenance = "maintenance"
)

const (
	// foldTimeout, the default for all jobs, exceeds a fold's turn with the deadlines of all calls of its last piece:
	// two tries and a shortening, of a minute each.
	foldTimeout  = 6 * time.Minute
	sweepTimeout = 30 * time.Second
	embedTimeout = 3 * time.Minute
	// deleteTimeout allows for hundreds of thousands of chats; the next run deletes the rest.
	deleteTimeout = 5 * time.Minute
	// patience is how long the jobs that go through all users or chats go on; others of their queue wait. The last calls of the
	// model may end later.
	patience      = 20 * time.Second
	graphTimeout  = patience + 3*time.Minute
	topicsTimeout = patience + time.Minute
)

const (
	// maxAttempts is some minutes of a model's outage. Then the chat is put off, and the sweep inserts the job again.
	maxAttempts = 10
	// fewAttempts is how often what memories and topics cannot do without the model is tried: a range of turns whose answers are
	// broken is skipped then, a topic whose summaries are refused is put off.
	fewAttempts = 5
)

// Intervals of periodic jobs.
const (
	graphInterval  = 30 * time.Minute
	topicsInterval = time.Hour
	pruneInterval  = time.Hour
	// reembedSweeps is how many sweeps there are to one reembed.
	reembedSweeps = 30
)

// kind is a kind of job.
type kind struct {
	name     string
	queue    string
	attempts int
	// once makes a job the only unfinished one with its arguments.
	once bool
	// timeout is foldTimeout by default.
	timeout time.Duration
	// schedule inserts it, at the start as well; nil where others do.
	schedule river.PeriodicSchedule
	// off has jobs end at once that are left of a time with what they need, or were inserted by hand.
	off bool
	run func(context.Context, *river.Job[Args]) outcome
}

// kinds returns all kinds. A periodic job has one attempt: the next one comes in any case. At the start they run in this order:
// repairs come first, and what has expired is deleted as that before it is pruned.
func (c *WorkerConfig) kinds() []kind {
	return []kind{
		{name: work.SweepBriefs, queue: QueueMaintenance, attempts: 1, timeout: sweepTimeout, run: c.sweep, schedule: every(c.SweepInterval, true)},
		{name: work.ExpireChats, queue: QueueMaintenance, attempts: 1, timeout: deleteTimeout, run: c.expire, schedule: every(c.ExpireInterval, true)},

		{name: work.FoldBrief, queue: QueueMemory, attempts: maxAttempts, once: true, run: c.fold},
		{name: work.IndexTurns, queue: QueueTopics, attempts: maxAttempts, once: true, run: c.indexTurns},

		{name: work.EmbedTurns, queue: QueueVectors, attempts: maxAttempts, once: true, timeout: embedTimeout, off: c.Embedder == nil, run: c.embedTurns},
		{
			name: work.EmbedMemories, queue: QueueVectors, attempts: maxAttempts, once: true, timeout: embedTimeout, off: c.MemoryEmbedder == nil, run: c.embedMemories,
		},
		{
			name: work.Reembed, queue: QueueMaintenance, attempts: 1, timeout: sweepTimeout, run: c.reembed,
			schedule: every(reembedSweeps*c.SweepInterval, c.Embedder != nil || c.MemoryEmbedder != nil),
		},

		{name: work.ExtractMemories, queue: QueueMemories, attempts: fewAttempts, once: true, off: c.Learner == nil, run: c.extract},
		{
			name: work.UpdateMemoryGraph, queue: QueueMemories, attempts: 1, timeout: graphTimeout, off: c.Grapher == nil, run: c.updateGraph,
			schedule: every(graphInterval, c.Grapher != nil),
		},
		{
			name: work.DecayMemories, queue: QueueMaintenance, attempts: 1, timeout: deleteTimeout, off: !c.Fade, run: c.decay,
			schedule: scheduled(daily(decayAt), c.Fade),
		},

		{name: work.AssignTopics, queue: QueueTopics, attempts: maxAttempts, once: true, timeout: sweepTimeout, off: c.Topics == nil, run: c.assignTopics},
		{name: work.CompactTopic, queue: QueueMemories, attempts: fewAttempts, once: true, off: c.Compactor == nil, run: c.compactTopic},
		{name: work.TitleChat, queue: QueueMemories, attempts: fewAttempts, once: true, off: c.Titler == nil, run: c.titleChat},
		{
			name: work.DecayTopics, queue: QueueMaintenance, attempts: 1, once: true, timeout: topicsTimeout, off: c.Topics == nil, run: c.decayTopics,
			schedule: every(topicsInterval, c.Topics != nil),
		},
		{
			name: work.MergeTopics, queue: QueueMaintenance, attempts: 1, once: true, timeout: topicsTimeout, off: c.Topics == nil, run: c.mergeTopics,
			schedule: every(topicsInterval, c.Topics != nil),
		},

		{
			name: work.PruneChats, queue: QueueMaintenance, attempts: 1, timeout: deleteTimeout, run: c.prune, schedule: every(pruneInterval, c.PruneDays > 0),
		},
	}
}

func every(interval time.Duration, on bool) river.PeriodicSchedule {
	return scheduled(river.PeriodicInterval(interval), on)
}

func scheduled(schedule river.PeriodicSchedule, on bool) river.PeriodicSchedule {
	if !on {
		return nil
	}
	return schedule
}

// rules are what River is told of a kind when a job is inserted, which no configuration changes.
var rules = func() map[string]kind {
	all := map[string]kind{}
	for _, kind := range (&WorkerConfig{}).kinds() {
		all[kind.name] = kind
	}
	return all
}()

// Args are the arguments of a job.
type Args struct{ work.Job }

// Kind is the job's name in River's tables.
func (a Args) Kind() string { return a.Name }

// InsertOpts are those of the job's kind.
func (a Args) InsertOpts() river.InsertOpts {
	kind := rules[a.Name]
	options := river.InsertOpts{Queue: kind.queue, MaxAttempts: kind.attempts, Priority: a.Priority, ScheduledAt: a.At}
	if kind.once {
		options.UniqueOpts = river.UniqueOpts{ByArgs: true, ByState: unfinished}
	}
	return options
}

// unfinished are the states in which no second job for the chat is inserted. River's default includes
// completed, which would block the chat for a day.
var unfinished = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateScheduled,
	rivertype.JobStateRetryable, rivertype.JobStateRunning,
}

// jobWorker works the jobs of one kind.
type jobWorker struct {
	river.WorkerDefaults[Args]
	kind
}

func (w *jobWorker) Timeout(*river.Job[Args]) time.Duration { return w.timeout }

func (w *jobWorker) NextRetry(job *river.Job[Args]) time.Time { return nextRetry(job.Attempt) }

func (w *jobWorker) Work(ctx context.Context, job *river.Job[Args]) error {
	if w.off {
		return nil
	}
	return w.run(ctx, job).end(ctx, job.JobRow)
}

// outcome is what came of a job.
type outcome struct {
	// result is "" for a job of no engine.
	result work.Result
	// output is recorded; nil for none, and where the transaction that completes the job has written it.
	output any
	// again is when the job is to run once more; 0 for what the result says.
	again time.Duration
	err   error
}

// engineOutcome is the outcome of a job of an engine, which has written its report unless there was nothing to do.
func engineOutcome(result work.Result, report any, err error) outcome {
	if result != work.Nothing {
		report = nil
	}
	return outcome{result: result, output: report, err: err}
}

// end says what River should do with the job. A refused one ends: the sweep inserts another when the chat's time has come.
func (o outcome) end(ctx context.Context, row *rivertype.JobRow) error {
	if o.output != nil {
		o.err = errors.Join(o.err, river.RecordOutput(ctx, o.output))
	}
	switch {
	case isAway(o.err):
		return river.JobSnooze(whileAway/2 + rand.N(whileAway)) //nolint:gosec // spreads load, guards nothing
	case o.again > 0:
		return river.JobSnooze(o.again)
	case o.result == work.Busy:
		return river.JobSnooze(whileBusy/2 + rand.N(whileBusy)) //nolint:gosec // spreads load, guards nothing
	case o.result == work.Waiting:
		return river.JobSnooze(unlessWoken(time.Since(row.CreatedAt)))
	case o.result == work.Conflict, o.result == work.Paused:
		return river.JobSnooze(0)
	case o.result == work.Refused && o.err != nil:
		return river.JobCancel(o.err)
	}
	return o.err
}

// isAway reports whether Postgres was away, which is no failure of the job and costs it no attempt. Work that took too long may
// have done so by its own fault.
func isAway(err error) bool {
	return fault.CodeOf(err) == fault.NotReady && !errors.Is(err, context.DeadlineExceeded)
}

// whileAway is about how long a job waits after Postgres was away: as long as a failover takes.
const whileAway = 2 * time.Second

// whileBusy is about how long a job waits whose item another worker has; a dead worker's lease ends within seconds.
const whileBusy = 4 * time.Second

// unlessWoken returns how long a job of an age waits for a place at most: it is woken when one is free, and thousands of one
// user's jobs must not ask all the time.
func unlessWoken(age time.Duration) time.Duration {
	wait := min(max(age, 15*time.Second), 5*time.Minute)
	return wait/2 + rand.N(wait) //nolint:gosec // spreads load, guards nothing
}

// nextRetry waits 1, 2, 4 … seconds after a failed attempt, at most a minute, so that folding resumes soon
// after an outage; and up to a quarter more, so that not all chats retry at once.
func nextRetry(attempt int) time.Time {
	wait := time.Minute
	if attempt <= 6 {
		wait = time.Second << max(attempt-1, 0)
	}
	return time.Now().Add(wait + rand.N(wait/4+1)) //nolint:gosec // spreads load, guards nothing
}
