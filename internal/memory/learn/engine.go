package learn

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
)

// Config of an Engine. All fields are required except where noted.
type Config struct {
	Store   Store
	Asker   lease.Asker
	Logger  *slog.Logger
	Metrics *metrics.Metrics
	// Model answers extractions and consolidations.
	Model string
	// Extract and Consolidate replace the built-in instructions; "" for those.
	Extract, Consolidate string
	// Embedder makes the vectors of memories, and Scales says what they mean; nil for none: then words have to do.
	Embedder recall.Embedder
	Scales   *recall.Scales
	// Delay is how long a chat rests before it is read, MostTurns how many turns are read at once. Defaults to 12.
	Delay     time.Duration
	MostTurns int
	// CallTimeout bounds each call of the model. Defaults to 60 s.
	CallTimeout time.Duration
	// EmbedTimeout bounds each call of the embedder. Defaults to 20 s.
	EmbedTimeout time.Duration
	// Lease is how long an extraction counts as alive after its worker renewed its lease. Defaults to 20 s.
	Lease time.Duration
	// PutOff is for how long a chat is left alone when the model could not be reached. Defaults to 10 min.
	PutOff time.Duration
}

// Engine extracts memories. Its methods are safe for concurrent use.
type Engine struct{ Config }

// New returns an engine.
func New(config Config) *Engine {
	config.MostTurns = cmp.Or(config.MostTurns, 12)
	config.CallTimeout = cmp.Or(config.CallTimeout, time.Minute)
	config.EmbedTimeout = cmp.Or(config.EmbedTimeout, 20*time.Second)
	config.Lease = cmp.Or(config.Lease, 20*time.Second)
	config.PutOff = cmp.Or(config.PutOff, 10*time.Minute)
	return &Engine{Config: config}
}

// Extract reads the next turns of a chat that were not read yet, if they are due.
func (e *Engine) Extract(ctx context.Context, chatID uuid.UUID, job Job) (Report, error) {
	began := time.Now()
	x := &extraction{Engine: e, job: job, began: began}
	x.change = Change{
		ID: uuid.Must(uuid.NewV7()), ChatID: chatID, JobID: job.ID, Delay: e.Delay,
		Lease: lease.Lease{Token: uuid.New(), Duration: e.Lease},
	}
	report, err := x.run(ctx)
	e.record(ctx, chatID, report, time.Since(began), err)
	return report, err
}

// extraction is one call of Extract.
type extraction struct {
	*Engine

	job    Job
	began  time.Time
	change Change
}

// run claims the user's lease, reads and commits. It releases the lease, whatever the outcome.
func (x *extraction) run(ctx context.Context) (Report, error) {
	snapshot, claim, err := x.Store.Claim(ctx, x.change.ChatID, x.change.Lease, x.MostTurns)
	switch {
	case err != nil:
		return Report{Result: lease.Failed}, err
	case claim != lease.Taken:
		return Report{Result: claim.Result()}, nil
	}
	x.change.Planned = snapshot
	next, found, wait := plan(snapshot, x.Delay)
	switch {
	case !found && wait == 0:
		return Report{Result: lease.Nothing}, x.afterwards(ctx, x.Store.Settle)
	case !found:
		return Report{Result: lease.Nothing, Wait: wait}, x.afterwards(ctx, x.Store.Release)
	}
	x.change.Range = next
	report, err := x.read(ctx)
	if report.Result == lease.Done {
		return report, err
	}
	return x.failed(ctx, err)
}

// read makes the calls and commits.
func (x *extraction) read(ctx context.Context) (Report, error) {
	if x.change.Range.Skip {
		return x.skip(ctx)
	}
	ctx, stop := lease.Keep(ctx, x.change.Lease.Duration, func(ctx context.Context) (bool, error) {
		return x.Store.Renew(ctx, x.change.ChatID, x.change.Lease)
	})
	defer stop()
	report, err := x.learn(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, lease.ErrLost) && report.Result != lease.Done {
		err = cause
	}
	return report, err
}

// skip passes the range over.
func (x *extraction) skip(ctx context.Context) (Report, error) {
	x.change.Ledger, x.change.Operations, x.change.Used = Skipped, nil, nil
	return x.commit(ctx)
}

// commit writes the change. An outdated one is lease.Conflict.
func (x *extraction) commit(ctx context.Context) (Report, error) {
	x.change.Stats.Duration = time.Since(x.began)
	outcome, written, err := x.Store.Commit(ctx, x.change, x.job.EnqueueNext)
	switch {
	case err != nil:
		return Report{Result: lease.Failed}, err
	case outcome == Overtaken:
		return Report{Result: lease.Conflict}, lease.ErrLost
	case outcome == Outdated:
		return Report{Result: lease.Conflict}, nil
	}
	x.count(written)
	return x.change.Report(written), nil
}

// failed decides what becomes of an extraction that was not committed. A range whose answers are broken is skipped by the
// job's last attempt; a model that cannot be reached is left alone for a while, and loses nothing.
func (x *extraction) failed(ctx context.Context, err error) (Report, error) {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = lease.ErrPaused // the worker is stopped, which is no failure
	}
	switch {
	case err == nil || errors.Is(err, lease.ErrLost):
		return Report{Result: lease.Conflict}, x.afterwards(ctx, x.Store.Release)
	case errors.Is(err, lease.ErrPaused):
		return Report{Result: lease.Paused}, x.afterwards(ctx, x.Store.Release)
	case x.job.Last && errors.Is(err, lease.ErrBroken):
		return x.giveUp(ctx, err)
	case x.job.Last:
		put := func(ctx context.Context, chatID uuid.UUID, held lease.Lease) error {
			return x.Store.PutOff(ctx, chatID, held, x.PutOff)
		}
		return Report{Result: lease.Refused}, errors.Join(err, x.afterwards(ctx, put))
	}
	return Report{Result: lease.Failed}, errors.Join(err, x.afterwards(ctx, x.Store.Release))
}

// giveUp skips the range.
func (x *extraction) giveUp(ctx context.Context, cause error) (Report, error) {
	ctx, cancel := lease.Afterwards(ctx)
	defer cancel()
	report, err := x.skip(ctx)
	if err != nil || report.Result != lease.Done {
		return Report{Result: lease.Failed}, errors.Join(cause, err, x.afterwards(ctx, x.Store.Release))
	}
	x.Logger.LogAttrs(ctx, slog.LevelWarn, "turns skipped, nothing is remembered of them", slog.String("chat_id", x.change.ChatID.String()),
		slog.Int64("seq_from", report.SeqFrom), slog.Int64("seq_to", report.SeqTo), slog.Int("turns", report.Turns), slog.Any("error", cause))
	return report, nil
}

// afterwards ends the lease, so that the next try need not wait for its end.
func (x *extraction) afterwards(ctx context.Context, end func(context.Context, uuid.UUID, lease.Lease) error) error {
	return lease.GiveBack(ctx, func(ctx context.Context) error { return end(ctx, x.change.ChatID, x.change.Lease) })
}

// Report describes the change as it was written.
func (c *Change) Report(w Written) Report {
	return Report{
		Result: lease.Done, Ledger: c.Ledger, ID: c.ID, SeqFrom: c.Range.From, SeqTo: c.Range.To, Turns: c.Range.Turns,
		Candidates: c.Stats.Candidates, Added: w.Added, Updated: w.Updated, Superseded: w.Superseded, Noops: w.Noops,
		Dropped: c.Stats.Dropped, Used: len(c.Used), Calls: c.Stats.Calls, InputTokens: c.Stats.InputTokens, OutputTokens: c.Stats.OutputTokens,
		Model: c.Stats.Model, PromptRef: c.Stats.PromptRef, Rounds: c.Stats.Rounds, DurationMS: c.Stats.Duration.Milliseconds(),
	}
}

// count counts what was written.
func (x *extraction) count(w Written) {
	facts := x.Metrics.MemoryFacts.WithLabelValues
	facts("added").Add(float64(w.Added))
	facts("updated").Add(float64(w.Updated))
	facts("superseded").Add(float64(w.Superseded))
	facts("noop").Add(float64(w.Noops))
	facts("inbox").Add(float64(w.Inbox))
	for reason, n := range x.change.Stats.Dropped {
		x.Metrics.MemoryDropped.WithLabelValues(reason).Add(float64(n))
	}
	x.Metrics.MemoryDropped.WithLabelValues("erased").Add(float64(w.Erased))
}

// record writes the log line and the metrics of an extraction. There is no log line when nothing was done.
func (e *Engine) record(ctx context.Context, chatID uuid.UUID, report Report, took time.Duration, err error) {
	result := cmp.Or(string(report.Ledger), string(report.Result))
	e.Metrics.MemoryExtractions.WithLabelValues(result).Inc()
	if report.Result == lease.Nothing || report.Result == lease.Busy {
		return
	}
	e.Metrics.MemoryExtractionDuration.Observe(took.Seconds())
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("chat_id", chatID.String()), slog.String("result", result),
		slog.Int64("seq_from", report.SeqFrom), slog.Int64("seq_to", report.SeqTo), slog.Int("turns", report.Turns),
		slog.Int("candidates", report.Candidates), slog.Int("added", report.Added), slog.Int("updated", report.Updated),
		slog.Int("superseded", report.Superseded), slog.Int("noops", report.Noops), slog.Any("dropped", report.Dropped), slog.Int("used", report.Used),
		slog.String("model", report.Model), slog.String("prompt_ref", report.PromptRef), slog.Int("calls", report.Calls),
		slog.Int("rounds", report.Rounds), slog.Int64("duration_ms", took.Milliseconds()),
	}
	if err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Any("error", err))
	}
	e.Logger.LogAttrs(ctx, level, "extraction ended", attrs...)
}
