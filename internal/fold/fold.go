// Package fold brings old turns into a chat's brief: it claims the chat, plans, asks the model outside
// of any transaction, and writes what came of it if nothing has changed meanwhile. The rules it
// follows are in memory; the rows are kept by a Store; when it runs is decided in jobs.
//
// Every method may run twice, at once, and may be killed at any moment: nothing is written before the
// one transaction at the end, and that one compares before it sets.
package fold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Config of an Engine. All fields are required except where noted.
type Config struct {
	Store      Store
	Summarizer Summarizer
	Prompt     PromptConfig
	Limits     memory.Limits
	Logger     *slog.Logger
	Metrics    *metrics.Metrics
	// Lease is how long a fold counts as alive after its worker was last heard of. It is renewed three
	// times as often. Defaults to 20 s.
	Lease time.Duration
}

// Engine folds chats. Its methods are safe for concurrent use.
type Engine struct {
	Config
	writer writer
}

// New makes an engine.
func New(config Config) *Engine {
	if config.Lease == 0 {
		config.Lease = 20 * time.Second
	}
	if config.Prompt.CallTimeout == 0 {
		config.Prompt.CallTimeout = time.Minute
	}
	e := &Engine{Config: config}
	e.writer.PromptConfig = config.Prompt
	e.writer.summarizer, e.writer.limits = config.Summarizer, config.Limits
	e.writer.metrics, e.writer.logger = config.Metrics, config.Logger
	return e
}

// Result says what became of a fold.
type Result string

// The results.
const (
	// Done: the brief was changed.
	Done Result = "done"
	// Nothing: there was nothing to do, or the chat is gone.
	Nothing Result = "nothing"
	// Elsewhere: another worker is at it; look again later.
	Elsewhere Result = "elsewhere"
	// Lost: somebody changed the brief or the messages meanwhile; plan again.
	Lost Result = "lost"
	// Refused: the gate refused the summary twice.
	Refused Result = "refused"
	// Failed: the model or Postgres failed.
	Failed Result = "failed"
)

// Report is what a fold did, in ids and numbers.
type Report struct {
	Kind         Kind   `json:"kind"`
	Result       Result `json:"result"`
	Version      int64  `json:"version,omitempty"`
	SeqFrom      int64  `json:"seq_from,omitempty"`
	SeqTo        int64  `json:"seq_to,omitempty"`
	Turns        int    `json:"turns"`
	TurnsTokens  int    `json:"turns_tokens"`
	TokensBefore int    `json:"tokens_before"`
	TokensAfter  int    `json:"tokens_after"`
	Mode         Mode   `json:"mode,omitempty"`
	PromptRef    string `json:"prompt_ref,omitempty"`
	Model        string `json:"model,omitempty"`
	Calls        int    `json:"calls"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
	DurationMS   int64  `json:"duration_ms"`
	// Refusals are the keys of what the gate refused on the way.
	Refusals []string `json:"refusals,omitempty"`
}

// Within runs in the transaction that writes the brief. again tells that the chat is due once more.
type Within func(ctx context.Context, tx pgx.Tx, report Report, again bool) error

// Fold brings the oldest turns of the buffer into the brief, if the chat is due.
func (e *Engine) Fold(ctx context.Context, chatID uuid.UUID, within Within) (Report, error) {
	var plan memory.Plan
	wanted := func(s Snapshot) bool {
		// A stale brief is rebuilt first: a fold on top of it would hide that it is stale.
		if s.Brief.Stale || !e.due(s.Counters) {
			return false
		}
		var some bool
		plan, some = memory.PlanFold(s.Brief, memory.Turns(s.Messages), e.Limits)
		return some
	}
	return e.run(ctx, chatID, KindFold, &plan, wanted, within)
}

// Rebuild writes the brief of a stale chat anew from its messages.
func (e *Engine) Rebuild(ctx context.Context, chatID uuid.UUID, within Within) (Report, error) {
	var plan memory.Plan
	wanted := func(s Snapshot) bool {
		if !s.Brief.Stale || s.Brief.CoveredSeq == 0 {
			return false
		}
		plan = memory.PlanRebuild(s.Brief, memory.Turns(s.Messages), e.Limits)
		return true
	}
	return e.run(ctx, chatID, KindRebuild, &plan, wanted, within)
}

func (e *Engine) due(c Counters) bool {
	return memory.Due(c.BriefTokens, c.PendingTokens, c.PendingTurns, e.Limits)
}

// run is the way of every change: claim, ask, commit.
func (e *Engine) run(ctx context.Context, chatID uuid.UUID, kind Kind, plan *memory.Plan, wanted func(Snapshot) bool, within Within) (Report, error) {
	began := time.Now()
	lease := Lease{Token: uuid.New(), Duration: e.Lease}
	snapshot, claimed, err := e.Store.Claim(ctx, chatID, kind, lease, wanted)
	report := Report{Kind: kind}
	switch {
	case err != nil:
		report.Result = Failed
	case claimed == Busy:
		report.Result = Elsewhere
	case claimed != Taken:
		report.Result = Nothing
	default:
		change := Change{ChatID: chatID, Kind: kind, Lease: lease, Planned: snapshot, Plan: *plan}
		report, err = e.change(ctx, change, began, within)
	}
	e.record(ctx, chatID, report, time.Since(began), err)
	return report, err
}

// change makes the claimed change. The lease ends with it, whatever becomes of it.
func (e *Engine) change(ctx context.Context, change Change, began time.Time, within Within) (Report, error) {
	summary, asked, err := e.summarize(ctx, change)
	change.Summary, change.Asked, change.Tokens = summary, asked, memory.Tokens(summary)
	change.Duration = time.Since(began)
	report := reportOf(change)
	if err != nil {
		report.Result = resultOf(err)
		return report, errors.Join(err, e.release(ctx, change))
	}
	report.Result = Done
	won, err := e.Store.Commit(ctx, change, func(ctx context.Context, tx pgx.Tx, after Counters) error {
		return within(ctx, tx, report, e.due(after))
	})
	if err != nil {
		report.Result = Failed
		return report, errors.Join(err, e.release(ctx, change))
	}
	if !won {
		report.Result = Lost
		return report, e.release(ctx, change)
	}
	return report, nil
}

// summarize asks for the new summary, piece by piece, while the lease is kept alive.
func (e *Engine) summarize(ctx context.Context, change Change) (string, Asked, error) {
	ctx, stop := e.keepLease(ctx, change.ChatID, change.Lease)
	defer stop()
	s := &session{writer: &e.writer, chatID: change.ChatID, userID: change.Planned.UserID}
	s.asked.Mode, s.asked.PromptRef = ModeNone, string(ModeNone)
	summary := change.Planned.Brief.Summary
	if change.Kind == KindRebuild {
		summary = ""
	}
	for _, piece := range change.Plan.Pieces {
		var err error
		if summary, err = s.summarize(ctx, summary, piece); err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errLeaseLost) {
				err = cause
			}
			return "", s.asked, err
		}
	}
	return summary, s.asked, nil
}

var errLeaseLost = errors.New("another worker took the fold over")

// keepLease renews the lease until stop is called, and ends the context when it is lost.
func (e *Engine) keepLease(ctx context.Context, chatID uuid.UUID, lease Lease) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(lease.Duration / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			// An error is no proof that the lease is lost; the compare-and-set decides in the end.
			if held, err := e.Store.Renew(ctx, chatID, lease); err == nil && !held {
				cancel(errLeaseLost)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-stopped
	}
}

// release gives the lease back so that the next try need not wait for its end. It runs also when the
// job's time is up.
func (e *Engine) release(ctx context.Context, change Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := e.Store.Release(ctx, change.ChatID, change.Lease); err != nil {
		return fmt.Errorf("give the lease back: %w", err)
	}
	return nil
}

func reportOf(c Change) Report {
	return Report{
		Kind: c.Kind, Version: c.Version(), SeqFrom: c.Plan.SeqFrom, SeqTo: c.Plan.SeqTo, Turns: c.Plan.Turns,
		TurnsTokens: c.Plan.Tokens, TokensBefore: c.Planned.Brief.Tokens, TokensAfter: c.Tokens,
		Mode: c.Asked.Mode, PromptRef: c.Asked.PromptRef, Model: c.Asked.Model, Calls: c.Asked.Calls,
		InputTokens: c.Asked.InputTokens, OutputTokens: c.Asked.OutputTokens, Refusals: c.Asked.Refusals,
		DurationMS: c.Duration.Milliseconds(),
	}
}

func resultOf(err error) Result {
	if errors.Is(err, errLeaseLost) {
		return Lost
	}
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return Refused
	}
	return Failed
}

// record is the one log line and the metrics of a fold. A look that found nothing is no news.
func (e *Engine) record(ctx context.Context, chatID uuid.UUID, report Report, took time.Duration, err error) {
	e.Metrics.Folds.WithLabelValues(string(report.Kind), string(report.Result)).Inc()
	if report.Result == Nothing || report.Result == Elsewhere {
		return
	}
	e.Metrics.FoldDuration.WithLabelValues(string(report.Kind)).Observe(took.Seconds())
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("chat_id", chatID.String()), slog.String("kind", string(report.Kind)), slog.String("result", string(report.Result)),
		slog.Int64("version", report.Version), slog.Int("turns", report.Turns), slog.Int64("seq_from", report.SeqFrom), slog.Int64("seq_to", report.SeqTo),
		slog.Int("tokens_before", report.TokensBefore), slog.Int("tokens_after", report.TokensAfter), slog.Int("turns_tokens", report.TurnsTokens),
		slog.String("model", report.Model), slog.String("prompt_ref", report.PromptRef), slog.Int("calls", report.Calls),
		slog.Any("refusals", report.Refusals), slog.Int64("duration_ms", took.Milliseconds()),
	}
	if err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Any("error", err))
	}
	e.Logger.LogAttrs(ctx, level, "fold ended", attrs...)
}
