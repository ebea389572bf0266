package longterm

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Extractor extracts memories. All fields are required except where noted. Its methods are safe for concurrent use.
type Extractor struct {
	Store   Store
	Leases  work.Store
	Asker   work.Asker
	Logger  *slog.Logger
	Metrics *metrics.Metrics
	// Model answers extractions and consolidations.
	Model string
	// Extraction and Consolidation replace the built-in instructions; "" for those.
	Extraction, Consolidation string
	// Embedder makes the vectors of memories, and Scales says what they mean; nil for none: then words have to do.
	Embedder recall.Embedder
	Scales   *recall.Scales
	// Delay is how long a chat rests before it is read, MostTurns how many turns are read at once. Defaults to 12.
	Delay     time.Duration
	MostTurns int
	// CallTimeout bounds each call of the model. Defaults to 60 s.
	CallTimeout time.Duration
	// Lease is how long an extraction counts as alive after its worker renewed its lease. Defaults to 20 s.
	Lease time.Duration
}

const (
	embedTimeout = 20 * time.Second // of each call of the embedder
	putOff       = 10 * time.Minute // for so long a chat is left alone when the model could not be reached
)

// NewExtractor returns an engine with defaults for the fields that are not set.
func NewExtractor(e Extractor) *Extractor {
	e.MostTurns = cmp.Or(e.MostTurns, 12)
	e.CallTimeout = cmp.Or(e.CallTimeout, time.Minute)
	e.Lease = cmp.Or(e.Lease, 20*time.Second)
	return &e
}

// Extract reads the next turns of a chat that were not read yet, if they are due. The extractions of a user's chats pass one
// after the other.
func (e *Extractor) Extract(ctx context.Context, chatID uuid.UUID, attempt work.Attempt) (Report, error) {
	x := &extraction{Extractor: e, began: time.Now()}
	x.change = Change{
		ID: uuid.Must(uuid.NewV7()), ChatID: chatID, Attempt: attempt, Delay: e.Delay,
		Lease: work.Lease{
			Kind: work.Extract, Key: chatID, ChatID: chatID, Token: uuid.New(), Duration: e.Lease, PerUser: 1, JobID: attempt.JobID,
		},
	}
	result, err := work.Run(ctx, e.Leases, x.change.Lease, attempt.Last, x)
	x.report.Result = result
	e.record(ctx, chatID, x.report, time.Since(x.began), err)
	return x.report, err
}

type extraction struct {
	*Extractor

	began  time.Time
	change Change
	report Report
}

// Plan chooses what to read.
func (x *extraction) Plan(ctx context.Context) (bool, error) {
	snapshot, found, err := x.Store.Read(ctx, x.change.ChatID, x.MostTurns)
	if err != nil || !found {
		return false, err
	}
	x.change.Planned = snapshot
	x.change.Range, found, x.report.Wait = plan(snapshot, x.Delay)
	if !found && x.report.Wait == 0 {
		return false, x.Store.Settle(ctx, x.change.ChatID)
	}
	return found, nil
}

// Do makes the calls and commits.
func (x *extraction) Do(ctx context.Context) error {
	if x.change.Range.Skip {
		return x.skip(ctx)
	}
	return x.learn(ctx)
}

func (x *extraction) skip(ctx context.Context) error {
	x.change.Ledger, x.change.Operations, x.change.Used = Skipped, nil, nil
	outcome, err := x.commit(ctx)
	if err == nil && outcome != Committed {
		return work.ErrLost
	}
	return err
}

func (x *extraction) commit(ctx context.Context) (Outcome, error) {
	x.change.Stats.Duration = time.Since(x.began)
	outcome, written, err := x.Store.Commit(ctx, x.change)
	if err == nil && outcome == Committed {
		x.count(written)
		x.report = x.change.Report(written)
	}
	return outcome, err
}

// GiveUp skips a range whose answers are broken. A model that cannot be reached is left alone for a while, and loses nothing.
func (x *extraction) GiveUp(ctx context.Context, cause error) (work.Result, error) {
	if !errors.Is(cause, work.ErrBroken) {
		_, _, err := x.Leases.PutOff(ctx, x.change.Lease, string(work.Failed), work.Delay{First: putOff, Longest: putOff})
		return work.Refused, errors.Join(cause, err)
	}
	if err := x.skip(ctx); err != nil {
		return work.Failed, errors.Join(cause, err)
	}
	x.Logger.LogAttrs(ctx, slog.LevelWarn, "turns skipped, nothing is remembered of them", slog.String("chat_id", x.change.ChatID.String()),
		slog.Int64("seq_from", x.report.SeqFrom), slog.Int64("seq_to", x.report.SeqTo), slog.Int("turns", x.report.Turns), slog.Any("error", cause))
	return work.Done, nil
}

// Report describes the change as it was written.
func (c *Change) Report(w Written) Report {
	return Report{
		Result: work.Done, Ledger: c.Ledger, ID: c.ID, SeqFrom: c.Range.From, SeqTo: c.Range.To, Turns: c.Range.Turns, Used: len(c.Used),
		DurationMS: c.Stats.Duration.Milliseconds(), Written: w, Stats: c.Stats,
	}
}

func (x *extraction) count(w Written) {
	for fate, n := range map[string]int{"added": w.Added, "updated": w.Updated, "superseded": w.Superseded, "noop": w.Noops, "inbox": w.Inbox} {
		x.Metrics.MemoryFacts.WithLabelValues(fate).Add(float64(n))
	}
	dropped := map[string]int{"erased": w.Erased, "full": w.Full, "unstorable": w.Unstorable}
	maps.Copy(dropped, x.change.Stats.Dropped)
	for reason, n := range dropped {
		x.Metrics.MemoryDropped.WithLabelValues(reason).Add(float64(n))
	}
}

// record writes the log line and the metrics of an extraction. There is no log line when nothing was done.
func (e *Extractor) record(ctx context.Context, chatID uuid.UUID, report Report, took time.Duration, err error) {
	result := cmp.Or(string(report.Ledger), string(report.Result))
	e.Metrics.MemoryExtractions.WithLabelValues(result).Inc()
	if report.Result == work.Nothing || report.Result == work.Busy {
		return
	}
	e.Metrics.MemoryExtractionDuration.Observe(took.Seconds())
	work.LogEnd(ctx, e.Logger, "extraction ended", err,
		slog.String("chat_id", chatID.String()), slog.String("result", result),
		slog.Int64("seq_from", report.SeqFrom), slog.Int64("seq_to", report.SeqTo), slog.Int("turns", report.Turns),
		slog.Int("candidates", report.Candidates), slog.Int("added", report.Added), slog.Int("updated", report.Updated),
		slog.Int("superseded", report.Superseded), slog.Int("noops", report.Noops), slog.Any("dropped", report.Dropped), slog.Int("used", report.Used),
		slog.String("model", report.Model), slog.String("prompt_ref", report.PromptRef), slog.Int("calls", report.Calls),
		slog.Int("rounds", report.Rounds), slog.Int64("duration_ms", took.Milliseconds()))
}
