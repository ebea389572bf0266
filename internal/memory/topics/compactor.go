package topics

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// CompactorConfig of a Compactor. All fields are required except where noted.
type CompactorConfig struct {
	Store      CompactStore
	Leases     work.Store
	Summarizer brief.Summarizer
	// Prompt is that of folds. Topics are summarized with the inline prompt in any mode: a hosted one has the cap of
	// briefs in its text.
	Prompt brief.PromptConfig
	// InputTokens is the most that one call of the model reads, as of a fold.
	InputTokens int
	Settings    Settings
	Logger      *slog.Logger
	Metrics     *metrics.Metrics
	// Turn is how long a compaction may read on in a long topic. Then it writes the pieces so far, and the jobs that wait come
	// first. Defaults to 30 s.
	Turn time.Duration
	// Lease is how long a compaction counts as alive after its worker renewed its lease. Defaults to 20 s.
	Lease time.Duration
}

// How long a topic is put off for which the model failed, and one whose summaries were refused.
const afterFailure, afterRefusal = 10 * time.Minute, 6 * time.Hour

// Compactor compacts topics. Its methods are safe for concurrent use.
type Compactor struct {
	CompactorConfig

	writer *brief.Writer
}

// NewCompactor returns an engine.
func NewCompactor(config CompactorConfig) *Compactor {
	config.Turn = cmp.Or(config.Turn, 30*time.Second)
	config.Lease = cmp.Or(config.Lease, 20*time.Second)
	config.Prompt.Mode = brief.ModeInline
	return &Compactor{CompactorConfig: config, writer: &brief.Writer{
		Summarizer: config.Summarizer, Prompt: config.Prompt, Cap: SummaryTokens, InputTokens: config.InputTokens,
		Kind: brief.KindTopic, Logger: config.Logger, Metrics: config.Metrics,
	}}
}

// Compact packs the older messages of a long topic, and makes a stale summary again.
func (e *Compactor) Compact(ctx context.Context, chatID, topicID uuid.UUID, attempt work.Attempt) (CompactReport, error) {
	c := &compaction{Compactor: e, began: time.Now()}
	c.change = Packed{ChatID: chatID, TopicID: topicID, Attempt: attempt, Lease: work.Lease{
		Kind: work.Compact, Key: topicID, ChatID: chatID, Token: uuid.New(), Duration: e.Lease, JobID: attempt.JobID,
	}}
	result, err := work.Run(ctx, e.Leases, c.change.Lease, attempt.Last, c)
	report := CompactReport{Result: result}
	if result == work.Done || c.change.Report.WithoutSummary && result == work.Refused {
		report = c.change.Report
		report.Result = result
	}
	report.DurationMS = time.Since(c.began).Milliseconds()
	e.record(ctx, &c.change, report, err)
	return report, err
}

// compaction is one call of Compact.
type compaction struct {
	*Compactor

	began   time.Time
	change  Packed
	partial bool
}

// Plan reads the topic, and plans its compaction.
func (c *compaction) Plan(ctx context.Context) (bool, error) {
	snapshot, found, err := c.Store.Read(ctx, c.change.ChatID, c.change.TopicID)
	if err != nil || !found {
		return false, err
	}
	c.change.Planned = snapshot
	plan, needed := planOf(&c.change.Planned, c.Settings)
	if needed {
		c.begin(plan)
	}
	return needed, nil
}

// Do adds the new messages to the summary, and commits. When its turn ends before the last piece, the compaction is one of the
// messages up to there.
func (c *compaction) Do(ctx context.Context) error {
	err := c.write(ctx)
	if _, refused := errors.AsType[*brief.RefusedError](err); refused && !c.change.Last {
		return errors.New(err.Error()) // which another attempt may not be
	}
	if err != nil {
		return err
	}
	return c.commit(ctx)
}

// begin sets the changes for a model that can add all that is new.
func (c *compaction) begin(plan Plan) {
	c.change.Plan = plan
	c.change.Summary, c.change.Tokens, c.change.SummarySeq = plan.Summary, plan.SummaryTokens, plan.SummarySeq
	if plan.Summarize {
		c.change.SummarySeq = max(plan.SummarySeq, plan.Upto)
	}
	c.change.CompactedSeq = plan.Upto
	c.change.Rehydrated = c.change.Planned.Rehydrated && (!plan.Pack || plan.Upto == 0)
	c.change.Report.Mode = brief.ModeNone
	if planned := &c.change.Planned; planned.Title == Untitled && planned.TitleSeq != nil && *planned.TitleSeq == 0 {
		c.nameByMessage(planned.Messages)
	}
}

// nameByMessage makes a title of the first message of the user or, without one, of the first: the old one's is gone.
func (c *compaction) nameByMessage(messages []memory.Message) {
	if len(messages) == 0 {
		return
	}
	first := max(slices.IndexFunc(messages, func(m memory.Message) bool { return m.Role == memory.RoleUser }), 0)
	c.change.Title, c.change.TitleSeq = new(Title(messages[first].Content)), &messages[first].Seq
}

func (c *compaction) write(ctx context.Context) error {
	task := brief.Task{ChatID: c.change.ChatID, UserID: c.change.Planned.UserID}
	if len(c.change.Plan.New) == 0 {
		return nil
	}
	pieces := c.writer.Pieces(memory.Turns(c.change.Plan.New))
	for n, piece := range pieces {
		var err error
		task.Titled = c.change.Summary == "" && c.change.Planned.TitleSeq != nil
		c.change.Summary, c.change.Tokens, err = c.writer.Write(ctx, task, c.change.Summary, piece, &c.change.Report.CallStats)
		if err != nil {
			return err
		}
		if named := c.change.Report.Title; task.Titled && named != "" {
			c.change.Title, c.change.TitleSeq = &named, new(int64(0))
		}
		if last, whole := lastOf(piece); whole && n < len(pieces)-1 && time.Since(c.began) >= c.Turn {
			c.stopAt(last)
			return nil
		}
	}
	return nil
}

// lastOf returns the last message of a piece, and whether all of it is there.
func lastOf(piece brief.Piece) (seq int64, whole bool) {
	turn := piece.Turns[len(piece.Turns)-1]
	last := turn[len(turn)-1]
	return last.Message.Seq, last.Part == last.Parts
}

// stopAt makes the compaction one of the messages up to seq.
func (c *compaction) stopAt(seq int64) {
	c.partial = true
	c.change.SummarySeq = seq
	if planned := &c.change.Planned; planned.Stale {
		c.change.CompactedSeq = seq
	} else {
		c.change.CompactedSeq = max(seq, planned.CompactedSeq)
	}
}

// commit writes the change, unless the topic has changed meanwhile.
func (c *compaction) commit(ctx context.Context) error {
	if !c.change.Plan.Pack {
		c.change.CompactedSeq = 0
	}
	c.fillReport()
	c.change.More = c.partial && c.Settings.OverLimit(c.change.Planned.after(c.change.SummarySeq))
	committed, err := c.Store.Commit(ctx, c.change)
	if err == nil && !committed {
		return work.ErrLost
	}
	return err
}

func (c *compaction) fillReport() {
	planned, r := &c.change.Planned, &c.change.Report
	r.Result = work.Done
	r.Archived = len(upto(planned.Messages, c.change.CompactedSeq))
	r.Active = len(planned.Messages) - r.Archived
	r.Packed = max(r.Archived-len(upto(planned.Messages, planned.CompactedSeq)), 0)
	r.Summarized = len(between(c.change.Plan.New, 0, c.change.SummarySeq))
	r.SummaryTokens = c.change.Tokens
	r.DurationMS = time.Since(c.began).Milliseconds()
}

// GiveUp puts a topic off. One whose summaries were refused is packed without, so that it does not grow for ever, and its
// summary catches up later. A stale one stays so.
func (c *compaction) GiveUp(ctx context.Context, cause error) (work.Result, error) {
	if _, refused := errors.AsType[*brief.RefusedError](cause); !refused {
		_, _, err := c.Leases.PutOff(ctx, c.change.Lease, string(work.Failed), work.Delay{First: afterFailure, Longest: afterFailure})
		return work.Refused, errors.Join(cause, err)
	}
	planned := &c.change.Planned
	c.change.Wait, c.change.Report.WithoutSummary = afterRefusal, true
	c.change.Summary, c.change.Tokens, c.change.SummarySeq = planned.Summary, planned.SummaryTokens, planned.SummarySeq
	c.change.CompactedSeq, c.change.Stale = c.change.Plan.Upto, planned.Stale
	if err := c.commit(ctx); err != nil {
		return work.Failed, errors.Join(cause, err)
	}
	c.Logger.LogAttrs(ctx, slog.LevelWarn, "topic packed without a summary", slog.String("chat_id", c.change.ChatID.String()),
		slog.String("topic_id", c.change.TopicID.String()), slog.Int("packed", c.change.Report.Packed), slog.Any("error", cause))
	return work.Refused, nil
}

// record writes the log line and the metrics of a compaction. There is no log line when nothing was done.
func (e *Compactor) record(ctx context.Context, change *Packed, report CompactReport, err error) {
	e.Metrics.TopicCompactions.WithLabelValues(string(report.Result)).Inc()
	if report.Result == work.Nothing || report.Result == work.Busy {
		return
	}
	work.LogEnd(ctx, e.Logger, "topic compaction ended", err,
		slog.String("chat_id", change.ChatID.String()), slog.String("topic_id", change.TopicID.String()), slog.String("result", string(report.Result)),
		slog.Int("packed", report.Packed), slog.Int("archived", report.Archived), slog.Int("active", report.Active),
		slog.Int("summarized", report.Summarized), slog.Int("summary_tokens", report.SummaryTokens), slog.Bool("without_summary", report.WithoutSummary),
		slog.String("model", change.Report.Model), slog.String("prompt_ref", change.Report.PromptRef), slog.Int("calls", change.Report.Calls),
		slog.Any("refusals", change.Report.Refusals), slog.Int64("duration_ms", report.DurationMS))
}

// Plan is the plan of a compaction.
type Plan struct {
	// Upto is the last message that is to be packed, if Pack is set, and in the summary, if Summarize is.
	Upto            int64
	Pack, Summarize bool
	// Summary is where the summary goes on, SummarySeq the last message that it holds, and New those to add to it.
	Summary       string
	SummaryTokens int
	SummarySeq    int64
	New           []memory.Message
}

// planOf returns the plan for a topic; false where there is nothing to do. All but the last messages are packed of one that has
// too many active ones. One that the conversation has returned to stays whole while it is talked about. A stale summary is made again
// from the first message on. A summary that an earlier compaction had to do without catches up, and so does that of a topic
// which was archived before its compaction.
func planOf(s *CompactSnapshot, settings Settings) (Plan, bool) {
	if s.State == Merged {
		return Plan{}, false
	}
	p := Plan{Upto: s.CompactedSeq, Pack: true, Summary: s.Summary, SummaryTokens: s.SummaryTokens, SummarySeq: s.SummarySeq}
	stays := s.Rehydrated && s.Current
	switch {
	case s.Stale:
		p.Upto, p.Pack, p.Summarize = s.target(settings), !stays, true
		p.Summary, p.SummaryTokens, p.SummarySeq = "", 0, 0
	case s.State == Archived:
		// It faded before all that was too much of it was summarized.
		p.Summarize = settings.OverLimit(s.after(s.SummarySeq))
	case settings.OverLimit(s.after(s.CompactedSeq)) && !stays:
		p.Upto, p.Summarize = max(p.Upto, s.target(settings)), true
	default:
		p.Summarize = s.SummarySeq < s.CompactedSeq
	}
	if p.Summarize {
		p.New = between(s.Messages, p.SummarySeq, p.Upto)
	}
	return p, p.Summarize
}

// target returns the last of the messages that are packed of a topic with too many, 0 of one that has few enough.
func (s *CompactSnapshot) target(settings Settings) int64 {
	keep := settings.KeepMessages
	if s.State == Archived {
		keep = 0
	} else if !settings.OverLimit(len(s.Messages)) {
		return 0
	}
	if n := len(s.Messages) - keep; n > 0 {
		return s.Messages[n-1].Seq
	}
	return 0
}

// after returns how many messages there are after one.
func (s *CompactSnapshot) after(seq int64) int {
	return len(s.Messages) - len(upto(s.Messages, seq))
}

// upto returns the messages up to one, which are in order.
func upto(messages []memory.Message, seq int64) []memory.Message {
	n, _ := slices.BinarySearchFunc(messages, seq+1, func(m memory.Message, seq int64) int { return cmp.Compare(m.Seq, seq) })
	return messages[:n]
}

// between returns the messages after one, up to another.
func between(messages []memory.Message, after, last int64) []memory.Message {
	return upto(messages[len(upto(messages, after)):], last)
}
