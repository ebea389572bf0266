package brief

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Config of an Engine. All fields are required except where noted.
type Config struct {
	Store      Store
	Leases     work.Store
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
	config.Lease = cmp.Or(config.Lease, 20*time.Second)
	config.Turn = cmp.Or(config.Turn, 30*time.Second)
	return &Engine{Config: config, writer: &Writer{
		Summarizer: config.Summarizer, Prompt: config.Prompt, Cap: config.Limits.SummaryTokenCap, InputTokens: config.Limits.FoldInputTokens,
		Kind: KindFold, Logger: config.Logger, Metrics: config.Metrics,
	}}
}

// Report describes a fold, without content.
type Report struct {
	Result       work.Result `json:"result"`
	Version      int64       `json:"version,omitempty"`
	SeqFrom      int64       `json:"seq_from,omitempty"`
	SeqTo        int64       `json:"seq_to,omitempty"`
	Turns        int         `json:"turns"`
	TurnsTokens  int         `json:"turns_tokens"`
	TokensBefore int         `json:"tokens_before"`
	TokensAfter  int         `json:"tokens_after"`
	DurationMS   int64       `json:"duration_ms"`
	// Pieces is the number of inputs that the change reads, one after the other; PiecesDone how many it has read.
	Pieces     int `json:"pieces,omitempty"`
	PiecesDone int `json:"pieces_done,omitempty"`
	// Again is after which time a refused summary is to be asked for again by the same job; 0 if by a later one.
	Again time.Duration `json:"-"`
	CallStats
}

// Fold moves the oldest turns of the buffer into the brief, if the chat is due. Where no user is talking now, other folds of the user
// come first.
func (e *Engine) Fold(ctx context.Context, chatID uuid.UUID, attempt work.Attempt) (Report, error) {
	f := &fold{Engine: e, change: Change{ChatID: chatID, Attempt: attempt}, began: time.Now()}
	f.change.Lease = work.Lease{
		Kind: work.Fold, Key: chatID, ChatID: chatID, Token: uuid.New(), Duration: e.Lease, PerUser: e.FoldsPerUser, JobID: attempt.JobID,
	}
	if attempt.Priority > work.Now && e.FoldsPerUser > 1 {
		f.change.Lease.PerUser--
	}
	result, err := work.Run(ctx, e.Leases, f.change.Lease, attempt.Last, f)
	f.report.Result = result
	e.record(ctx, chatID, f.report, time.Since(f.began), err)
	return f.report, err
}

func (e *Engine) due(c Counters, s memory.Settings) bool {
	return memory.Due(c.BriefTokens, c.PendingTokens, c.PendingTurns, e.Limits.For(s))
}

// fold is one change of a brief.
type fold struct {
	*Engine

	change Change
	began  time.Time
	report Report
}

// foldMessages is how many messages a fold of a long backlog reads at first. It needs far fewer; the next fold goes on
// where it ends.
const foldMessages = 2000

// Plan plans the change, after the transaction that reads the chat, because planning may have to count the tokens of overlong
// messages. When the messages that were read are all one unfinished turn, it reads more. A brief that cannot be read is left to the sweep.
func (f *fold) Plan(ctx context.Context) (bool, error) {
	for most := foldMessages; ; most *= 8 {
		s, found, err := f.Store.Read(ctx, f.change.ChatID, most)
		if err != nil || !found || s.Brief.Unreadable || !f.due(s.Counters, s.Settings) {
			return false, err
		}
		f.change.Planned = s
		var needed bool
		if f.change.Plan, needed = PlanFold(s.Brief, memory.Turns(s.Messages), f.Limits.For(s.Settings)); needed {
			return true, nil
		}
		if len(s.Messages) < most {
			return false, f.settle(ctx)
		}
	}
}

// settle settles a fold that was due all the same, unless a reply is running: its end may leave a turn to fold without
// changing the counters.
func (f *fold) settle(ctx context.Context) error {
	s := f.change.Planned
	if slices.ContainsFunc(s.Messages, func(m memory.Message) bool { return m.Status.Open() }) {
		return nil
	}
	return f.Store.Settle(ctx, f.change.ChatID, s.Counters)
}

// Do makes the change.
func (f *fold) Do(ctx context.Context) error {
	err := f.summarize(ctx)
	f.change.Duration += time.Since(f.began)
	f.report = f.change.Report()
	if err != nil {
		return err
	}
	writing := time.Now()
	committed, err := f.Store.Commit(ctx, f.change, func(after Counters) bool { return f.due(after, f.change.Planned.Settings) })
	f.Metrics.CommitDuration.Observe(time.Since(writing).Seconds())
	if err == nil && !committed {
		return work.ErrLost
	}
	return err
}

// summarize sets the change's summary, which it makes piece by piece. It stores its progress after each piece but the last.
func (f *fold) summarize(ctx context.Context) error {
	f.change.begin()
	for first := true; f.change.PiecesDone < len(f.change.Plan.Pieces); first = false {
		if !first && time.Since(f.began) >= f.Turn {
			return work.ErrPaused
		}
		if err := f.addPiece(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *fold) addPiece(ctx context.Context) error {
	change := &f.change
	task := Task{ChatID: change.ChatID, UserID: change.Planned.UserID}
	summary, tokens, err := f.writer.Write(ctx, task, change.Summary, change.Plan.Pieces[change.PiecesDone], &change.Stats)
	if err != nil {
		return err
	}
	change.Summary, change.Tokens = summary, tokens
	change.PiecesDone++
	if change.PiecesDone == len(change.Plan.Pieces) {
		return nil
	}
	progress := *change
	progress.Duration += time.Since(f.began)
	saved, err := f.Store.SaveDraft(ctx, progress)
	if err == nil && !saved {
		return work.ErrLost
	}
	return err
}

// How long a chat is put off. A summary that the gate refused is asked for again soon, as chance may have made it; one that is
// refused again and again will be once more. A model that failed is back sooner or later, and River has tried it several times.
var (
	afterRefusal = work.Delay{Soon: []time.Duration{5 * time.Second, 30 * time.Second}, First: 5 * time.Minute, Longest: 6 * time.Hour}
	afterFailure = work.Delay{First: 5 * time.Minute, Longest: time.Hour}
)

// GiveUp puts the chat off, and logs for how long.
func (f *fold) GiveUp(ctx context.Context, cause error) (work.Result, error) {
	result, failure, delay := work.Failed, string(work.Failed), afterFailure
	if refused, ok := errors.AsType[*RefusedError](cause); ok {
		result, failure, delay = work.Refused, "refused: "+refused.Refusal.Key, afterRefusal
	}
	times, wait, err := f.Store.PutOff(ctx, f.change, failure, delay)
	switch {
	case err != nil:
		return work.Failed, errors.Join(cause, fmt.Errorf("put the fold off: %w", err))
	case times == 0:
		return work.Conflict, nil
	}
	if times <= len(delay.Soon) {
		f.report.Again = wait
	}
	f.Logger.LogAttrs(ctx, slog.LevelWarn, "fold put off",
		slog.String("chat_id", f.change.ChatID.String()), slog.String("failure", failure),
		slog.Int("failures", times), slog.Int64("wait_s", int64(wait.Seconds())))
	return result, cause
}

// record writes the log line and the metrics of a fold. There is no log line when nothing was done.
func (e *Engine) record(ctx context.Context, chatID uuid.UUID, report Report, took time.Duration, err error) {
	e.Metrics.Folds.WithLabelValues(string(report.Result)).Inc()
	if report.Result == work.Nothing || report.Result == work.Busy {
		return
	}
	e.Metrics.FoldDuration.Observe(took.Seconds())
	work.LogEnd(ctx, e.Logger, "fold ended", err,
		slog.String("chat_id", chatID.String()), slog.String("result", string(report.Result)),
		slog.Int64("version", report.Version), slog.Int("turns", report.Turns), slog.Int64("seq_from", report.SeqFrom), slog.Int64("seq_to", report.SeqTo),
		slog.Int("tokens_before", report.TokensBefore), slog.Int("tokens_after", report.TokensAfter), slog.Int("turns_tokens", report.TurnsTokens),
		slog.String("model", report.Model), slog.String("prompt_ref", report.PromptRef), slog.Int("calls", report.Calls),
		slog.Any("refusals", report.Refusals),
		slog.Int("pieces", report.Pieces), slog.Int("pieces_done", report.PiecesDone), slog.Int64("duration_ms", took.Milliseconds()))
}
