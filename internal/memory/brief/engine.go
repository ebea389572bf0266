package brief

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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

// Job is River's job behind a fold. It ends in the transaction that writes the brief, so that neither is
// true without the other.
type Job struct {
	// ID is 0 when there is no job.
	ID int64
	// Again inserts the chat's next job in that transaction, because the chat is due once more.
	Again func(ctx context.Context, tx pgx.Tx) error
}

// planner decides what a change will do; false when there is nothing to do.
type planner func(Snapshot) (Plan, bool)

// Fold brings the oldest turns of the buffer into the brief, if the chat is due.
func (e *Engine) Fold(ctx context.Context, chatID uuid.UUID, job Job) (Report, error) {
	return e.run(ctx, Change{ChatID: chatID, JobID: job.ID, Kind: KindFold}, job, func(s Snapshot) (Plan, bool) {
		// A brief that is stale or cannot be read is rebuilt first: a fold on top of it would hide that.
		if s.Brief.Stale || s.Brief.Unreadable || !e.due(s.Counters, s.Settings) {
			return Plan{}, false
		}
		return PlanFold(s.Brief, memory.Turns(s.Messages), e.Limits.For(s.Settings))
	})
}

// Rebuild writes the brief of a chat anew from its messages, when it is stale or cannot be read.
func (e *Engine) Rebuild(ctx context.Context, chatID uuid.UUID, job Job) (Report, error) {
	return e.run(ctx, Change{ChatID: chatID, JobID: job.ID, Kind: KindRebuild}, job, func(s Snapshot) (Plan, bool) {
		if !s.Brief.Stale && !s.Brief.Unreadable {
			return Plan{}, false
		}
		return PlanRebuild(s.Brief, memory.Turns(s.Messages), e.Limits), true
	})
}

func (e *Engine) due(c Counters, s memory.Settings) bool {
	return memory.Due(c.BriefTokens, c.PendingTokens, c.PendingTurns, e.Limits.For(s))
}

// run is the way of every change: claim, ask, commit.
func (e *Engine) run(ctx context.Context, change Change, job Job, plan planner) (Report, error) {
	began := time.Now()
	change.Lease = Lease{Token: uuid.New(), Duration: e.Lease}
	report := Report{Kind: change.Kind}
	claimed, err := e.claim(ctx, &change, plan)
	switch {
	case err != nil:
		report.Result = Failed
	case claimed == Busy:
		report.Result = Elsewhere
	case claimed != Taken:
		report.Result = Nothing
	default:
		report, err = e.change(ctx, change, began, job)
	}
	e.record(ctx, change.ChatID, report, time.Since(began), err)
	return report, err
}

// foldMessages bounds what a fold reads of a long backlog. It takes far less; the next one reads on from
// there.
const foldMessages = 2000

// claim takes the chat, and plans once the claim's transaction is over: parts of an overlong message are
// counted in tokens, which takes its time. When all that was read is one turn that goes on, more is read.
func (e *Engine) claim(ctx context.Context, change *Change, plan planner) (claimed Claimed, err error) {
	most := foldMessages
	if change.Kind == KindRebuild {
		most = math.MaxInt32
	}
	for ; ; most *= 8 {
		change.Planned, claimed, err = e.Store.Claim(ctx, change.ChatID, change.Kind, change.Lease, most)
		if err != nil || claimed != Taken {
			return claimed, err
		}
		var some bool
		if change.Plan, some = plan(change.Planned); some {
			return Taken, nil
		}
		if len(change.Planned.Messages) < most {
			return NotWanted, e.release(ctx, *change)
		}
	}
}

// change makes the claimed change. The lease ends with it, whatever becomes of it.
func (e *Engine) change(ctx context.Context, change Change, began time.Time, job Job) (Report, error) {
	err := e.summarize(ctx, &change)
	change.Duration = time.Since(began)
	report := change.Report()
	if err != nil {
		report.Result = resultOf(err)
		return report, errors.Join(err, e.release(ctx, change))
	}
	won, err := e.Store.Commit(ctx, change, func(ctx context.Context, tx pgx.Tx, after Counters) error {
		if !e.due(after, change.Planned.Settings) {
			return nil
		}
		return job.Again(ctx, tx)
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
func (e *Engine) summarize(ctx context.Context, change *Change) error {
	ctx, stop := e.keepLease(ctx, change.ChatID, change.Lease)
	defer stop()
	s := &session{writer: &e.writer, chatID: change.ChatID, userID: change.Planned.UserID, asked: &change.Asked}
	s.asked.Mode, s.asked.PromptRef = ModeNone, string(ModeNone)
	summary, tokens := change.Planned.Brief.Summary, change.Planned.Brief.Tokens
	if change.Kind == KindRebuild {
		summary, tokens = "", 0
	}
	for _, piece := range change.Plan.Pieces {
		var err error
		if summary, tokens, err = s.summarize(ctx, summary, piece); err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errLeaseLost) {
				err = cause
			}
			return err
		}
	}
	change.Summary, change.Tokens = summary, tokens
	return nil
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
