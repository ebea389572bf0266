package brief

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lease"
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
	// FoldsPerUser is how many chats of one user are folded at once, on all servers together; 0, the default, is any
	// number. Background jobs leave one of them to the others.
	FoldsPerUser int
	// Turn is how long a change of several pieces may keep its worker. Then it ends with its progress stored, and the
	// jobs that wait come first. Defaults to 30 s.
	Turn time.Duration
	// Lease is how long a fold counts as alive after its worker renewed its lease, which it does three times in that
	// time. Defaults to 20 s.
	Lease time.Duration
}

// Engine folds chats. Its methods are safe for concurrent use.
type Engine struct {
	Config

	writer *Writer
}

// New returns an engine.
func New(config Config) *Engine {
	if config.Lease == 0 {
		config.Lease = 20 * time.Second
	}
	if config.Turn == 0 {
		config.Turn = 30 * time.Second
	}
	writer := NewWriter(WriterConfig{
		Summarizer: config.Summarizer, Prompt: config.Prompt, Cap: config.Limits.SummaryTokenCap, InputTokens: config.Limits.FoldInputTokens,
		Tokens: "fold", Logger: config.Logger, Metrics: config.Metrics,
	})
	return &Engine{Config: config, writer: writer}
}

// Result is the outcome of a fold.
type Result = lease.Result

// The results, as logs and metrics name them. Of a fold, Conflict says that the brief or the messages were changed
// meanwhile, Refused that the gate refused the summary twice, and Failed that the model or Postgres failed: after the
// job's last attempt the chat is put off.
const (
	Done     = lease.Done
	Nothing  = lease.Nothing
	Busy     = lease.Busy
	Paused   = lease.Paused
	Conflict = lease.Conflict
	Refused  = lease.Refused
	Failed   = lease.Failed
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
	// Pieces is the number of inputs that the change reads, one after the other; PiecesDone how many it has read.
	Pieces     int `json:"pieces,omitempty"`
	PiecesDone int `json:"pieces_done,omitempty"`
	// Again is after which time a refused summary is to be asked for again by the same job; 0 if by a later one.
	Again time.Duration `json:"-"`
	CallStats
}

// Job is the River job that runs a fold. It is completed in the transaction that writes the brief.
type Job struct {
	// ID is 0 when there is no job.
	ID int64
	// Background reports that nobody is talking in the chat now: other folds of the user come first.
	Background bool
	// Last reports that no other attempt follows if this one fails.
	Last bool
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
	change.Lease = Lease{Token: uuid.New(), Duration: e.Lease, PerUser: e.FoldsPerUser}
	if job.Background && e.FoldsPerUser > 1 {
		change.Lease.PerUser--
	}
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
		case claim != lease.Taken:
			return claim.Result(), nil
		}
		change.Planned = snapshot
		needed := false
		if !snapshot.PutOff {
			change.Plan, needed = plan(snapshot)
		}
		switch {
		case needed:
			return claimed, nil
		case snapshot.PutOff || len(snapshot.Messages) < most:
			if err := e.nothing(ctx, *change); err != nil {
				return Failed, err
			}
			return Nothing, nil
		}
	}
}

// nothing releases the lease of a change that is not needed. A fold that was due all the same is settled, unless a reply is
// running: its end may leave a turn to fold without changing the counters.
func (e *Engine) nothing(ctx context.Context, change Change) error {
	s := change.Planned
	running := slices.ContainsFunc(s.Messages, func(m memory.Message) bool { return m.Status == memory.StatusStreaming })
	if change.Kind == KindFold && !s.PutOff && !s.Brief.Stale && !s.Brief.Unreadable && !running && e.due(s.Counters, s.Settings) {
		return e.Store.Settle(ctx, change.ChatID, change.Lease, s.Counters)
	}
	return e.release(ctx, change)
}

// change makes the claimed change. It releases the lease, whatever the outcome.
func (e *Engine) change(ctx context.Context, change Change, began time.Time, job Job) (Report, error) {
	err := e.summarize(ctx, &change, began)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = lease.ErrPaused // the worker is stopped, which is no failure of the fold
	}
	change.Duration += time.Since(began)
	committed := false
	if err == nil {
		writing := time.Now()
		committed, err = e.Store.Commit(ctx, change, func(ctx context.Context, tx pgx.Tx, after Counters) error {
			if !e.due(after, change.Planned.Settings) {
				return nil
			}
			return job.EnqueueNext(ctx, tx)
		})
		e.Metrics.CommitDuration.Observe(time.Since(writing).Seconds())
	}
	report := change.Report()
	if committed && err == nil {
		return report, nil
	}
	report.Result = resultOf(err)
	if report.Result == Refused || report.Result == Failed && job.Last {
		return e.putOff(ctx, change, report, err)
	}
	if report.Result != Failed {
		err = nil
	}
	return report, errors.Join(err, e.release(ctx, change))
}

// summarize sets the change's summary, which it makes piece by piece while the lease is renewed. It stores its progress
// after each piece but the last.
func (e *Engine) summarize(ctx context.Context, change *Change, began time.Time) error {
	ctx, stop := e.keepLease(ctx, change.ChatID, change.Lease)
	defer stop()
	change.begin()
	for first := true; change.PiecesDone < len(change.Plan.Pieces); first = false {
		if !first && time.Since(began) >= e.Turn {
			return lease.ErrPaused
		}
		err := e.addPiece(ctx, change, began)
		if cause := context.Cause(ctx); errors.Is(cause, lease.ErrLost) {
			return cause
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) addPiece(ctx context.Context, change *Change, began time.Time) error {
	task := Task{Kind: change.Kind, ChatID: change.ChatID, UserID: change.Planned.UserID}
	summary, tokens, err := e.writer.Write(ctx, task, change.Summary, change.Plan.Pieces[change.PiecesDone], &change.Stats)
	if err != nil {
		return err
	}
	change.Summary, change.Tokens = summary, tokens
	change.PiecesDone++
	if change.PiecesDone == len(change.Plan.Pieces) {
		return nil
	}
	saved, err := e.Store.SaveDraft(ctx, *change, change.draft(time.Since(began)))
	if err == nil && !saved {
		return lease.ErrLost
	}
	return err
}

// keepLease renews the lease until stop is called. The returned context ends when the lease is lost.
func (e *Engine) keepLease(ctx context.Context, chatID uuid.UUID, held Lease) (_ context.Context, stop func()) {
	return lease.Keep(ctx, held.Duration, func(ctx context.Context) (bool, error) { return e.Store.Renew(ctx, chatID, held) })
}

// release releases the lease, so that the next try need not wait for its end.
func (e *Engine) release(ctx context.Context, change Change) error {
	return lease.GiveBack(ctx, func(ctx context.Context) error { return e.Store.Release(ctx, change.ChatID, change.Lease) })
}

// How long a chat is put off. A summary that the gate refused is asked for again soon, as chance may have made it; one that is
// refused again and again will be once more. A model that failed is back sooner or later, and River has tried it several times.
var (
	afterRefusal = Delay{Soon: []time.Duration{5 * time.Second, 30 * time.Second}, First: 5 * time.Minute, Longest: 6 * time.Hour}
	afterFailure = Delay{First: 5 * time.Minute, Longest: time.Hour}
)

// putOff gives the change up for a while, and logs for how long.
func (e *Engine) putOff(ctx context.Context, change Change, report Report, cause error) (Report, error) {
	ctx, cancel := lease.Afterwards(ctx)
	defer cancel()
	failure, delay := string(Failed), afterFailure
	if refused, ok := errors.AsType[*RefusedError](cause); ok {
		failure, delay = "refused: "+refused.Refusal.Key, afterRefusal
	}
	until, done, err := e.Store.PutOff(ctx, change, failure, delay)
	switch {
	case err != nil:
		return report, errors.Join(cause, fmt.Errorf("put the fold off: %w", err))
	case !done:
		report.Result = Conflict
		return report, e.release(ctx, change)
	}
	if until.Failures <= len(delay.Soon) {
		report.Again = until.Wait
	}
	e.Logger.LogAttrs(ctx, slog.LevelWarn, "fold put off",
		slog.String("chat_id", change.ChatID.String()), slog.String("kind", string(change.Kind)), slog.String("failure", failure),
		slog.Int("failures", until.Failures), slog.Int64("wait_s", int64(until.Wait.Seconds())), slog.Bool("brief_dropped", change.Planned.Brief.Stale))
	return report, cause
}

// resultOf returns the result of a change that was not committed. Without an error it lost the comparison.
func resultOf(err error) Result {
	_, refused := errors.AsType[*RefusedError](err)
	switch {
	case err == nil || errors.Is(err, lease.ErrLost):
		return Conflict
	case errors.Is(err, lease.ErrPaused):
		return Paused
	case refused:
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
		slog.Any(
			"refusals",
			report.Refusals,
		), slog.Int("pieces", report.Pieces), slog.Int("pieces_done", report.PiecesDone), slog.Int64("duration_ms", took.Milliseconds()),
	}
	if err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Any("error", err))
	}
	e.Logger.LogAttrs(ctx, level, "fold ended", attrs...)
}
