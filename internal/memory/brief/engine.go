package brief

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
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
	// Lease is how long a fold counts as alive after its worker renewed its lease, which it does three times in that
	// time. Defaults to 20 s.
	Lease time.Duration
}

// Engine folds chats. Its methods are safe for concurrent use.
type Engine struct {
	Config

	promptGone atomic.Bool // the API has answered that the hosted prompt does not exist
}

// New returns an engine.
func New(config Config) *Engine {
	if config.Lease == 0 {
		config.Lease = 20 * time.Second
	}
	if config.Prompt.CallTimeout == 0 {
		config.Prompt.CallTimeout = time.Minute
	}
	config.Summarizer = timedSummarizer{config.Summarizer, config.Metrics}
	config.Store = timedStore{config.Store, config.Metrics.CommitDuration}
	return &Engine{Config: config}
}

// Result is the outcome of a fold.
type Result string

// The results, as logs and metrics name them.
const (
	// Done: the brief was changed.
	Done Result = "done"
	// Nothing: there was nothing to do, or the chat was deleted.
	Nothing Result = "nothing"
	// Busy: another worker folds the chat; try again later.
	Busy Result = "elsewhere"
	// Conflict: the brief or the messages were changed meanwhile; plan again.
	Conflict Result = "lost"
	// Refused: the gate refused the summary twice.
	Refused Result = "refused"
	// Failed: the model or Postgres failed.
	Failed Result = "failed"
)

// claimed is the result of a fold that is still under way.
const claimed Result = ""

// Report describes a fold, without content.
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
	DurationMS   int64  `json:"duration_ms"`
	CallStats
}

// Job is the River job that runs a fold. It is completed in the transaction that writes the brief.
type Job struct {
	// ID is 0 when there is no job.
	ID int64
	// EnqueueNext inserts the chat's next job in that transaction. It is called when the chat is due again.
	EnqueueNext func(ctx context.Context, tx pgx.Tx) error
}

// planner returns what a change will do; false when there is nothing to do.
type planner func(Snapshot) (Plan, bool)

// Fold moves the oldest turns of the buffer into the brief, if the chat is due.
func (e *Engine) Fold(ctx context.Context, chatID uuid.UUID, job Job) (Report, error) {
	return e.run(ctx, Change{ChatID: chatID, JobID: job.ID, Kind: KindFold}, job, func(s Snapshot) (Plan, bool) {
		// A stale or unreadable brief is rebuilt first, because a fold would hide its state.
		if s.Brief.Stale || s.Brief.Unreadable || !e.due(s.Counters, s.Settings) {
			return Plan{}, false
		}
		return PlanFold(s.Brief, memory.Turns(s.Messages), e.Limits.For(s.Settings))
	})
}

// Rebuild makes the brief of a chat again from its messages, if it is stale or unreadable.
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

// run makes a change: it claims the chat, asks for the summary, and commits.
func (e *Engine) run(ctx context.Context, change Change, job Job, plan planner) (Report, error) {
	began := time.Now()
	change.Lease = Lease{Token: uuid.New(), Duration: e.Lease}
	report := Report{Kind: change.Kind}
	var err error
	if report.Result, err = e.claim(ctx, &change, plan); report.Result == claimed {
		report, err = e.change(ctx, change, began, job)
	}
	e.record(ctx, change.ChatID, report, time.Since(began), err)
	return report, err
}

// foldMessages is how many messages a fold of a long backlog reads at first. It needs far fewer; the next fold goes on
// where it ends.
const foldMessages = 2000

// claim takes the chat's lease and plans the change. It plans after the claim's transaction, because planning may have
// to count the tokens of overlong messages. When the messages that were read are all one unfinished turn, it reads more.
func (e *Engine) claim(ctx context.Context, change *Change, plan planner) (Result, error) {
	most := foldMessages
	if change.Kind == KindRebuild {
		most = math.MaxInt32
	}
	for ; ; most *= 8 {
		snapshot, claim, err := e.Store.Claim(ctx, change.ChatID, change.Kind, change.Lease, most)
		switch {
		case err != nil:
			return Failed, err
		case claim == ClaimBusy:
			return Busy, nil
		case claim == ClaimGone:
			return Nothing, nil
		}
		change.Planned = snapshot
		var needed bool
		if change.Plan, needed = plan(snapshot); needed {
			return claimed, nil
		}
		if len(snapshot.Messages) < most {
			if err := e.release(ctx, *change); err != nil {
				return Failed, err
			}
			return Nothing, nil
		}
	}
}

// change makes the claimed change. It releases the lease, whatever the outcome.
func (e *Engine) change(ctx context.Context, change Change, began time.Time, job Job) (Report, error) {
	err := e.summarize(ctx, &change)
	change.Duration = time.Since(began)
	report := change.Report()
	if err != nil {
		report.Result = resultOf(err)
		return report, errors.Join(err, e.release(ctx, change))
	}
	committed, err := e.Store.Commit(ctx, change, func(ctx context.Context, tx pgx.Tx, after Counters) error {
		if !e.due(after, change.Planned.Settings) {
			return nil
		}
		return job.EnqueueNext(ctx, tx)
	})
	if err != nil {
		report.Result = Failed
		return report, errors.Join(err, e.release(ctx, change))
	}
	if !committed {
		report.Result = Conflict
		return report, e.release(ctx, change)
	}
	return report, nil
}

// summarize sets the change's summary, which it makes piece by piece while the lease is renewed.
func (e *Engine) summarize(ctx context.Context, change *Change) error {
	ctx, stop := e.keepLease(ctx, change.ChatID, change.Lease)
	defer stop()
	change.Stats.Mode, change.Stats.PromptRef = ModeNone, string(ModeNone)
	summary, tokens := change.Planned.Brief.Summary, change.Planned.Brief.Tokens
	if change.Kind == KindRebuild {
		summary, tokens = "", 0
	}
	c := &summaryCalls{Engine: e, chatID: change.ChatID, userID: change.Planned.UserID, stats: &change.Stats}
	for _, piece := range change.Plan.Pieces {
		var err error
		if summary, tokens, err = c.summarize(ctx, summary, piece); err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errLeaseLost) {
				return cause
			}
			return err
		}
	}
	change.Summary, change.Tokens = summary, tokens
	return nil
}

var errLeaseLost = errors.New("another worker took the fold over")

// keepLease renews the lease until stop is called. The returned context ends when the lease is lost.
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
			// After an error the lease may still be held; Commit checks it in the end.
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

// release releases the lease, so that the next try need not wait for its end. It does so also after the job's
// deadline.
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
		return Conflict
	}
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return Refused
	}
	return Failed
}

// record writes the log line and the metrics of a fold. There is no log line when nothing was done.
func (e *Engine) record(ctx context.Context, chatID uuid.UUID, report Report, took time.Duration, err error) {
	e.Metrics.Folds.WithLabelValues(string(report.Kind), string(report.Result)).Inc()
	if report.Result == Nothing || report.Result == Busy {
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
