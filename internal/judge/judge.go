package judge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/longterm"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
)

// Model is the model under test.
type Model interface {
	work.Asker
	brief.Summarizer
}

// Settings say how the models are called in production.
type Settings struct {
	// Prompt is that of summaries; its model reads cases for memories, too.
	Prompt brief.PromptConfig
	Limits memory.Limits
	// Extract and Consolidate are instructions of the app's own; "" for the built-in ones.
	Extract, Consolidate string
}

type player struct {
	Settings
	model   Model
	metrics *metrics.Metrics
}

// atOnce is how many cases are played at the same time.
const atOnce = 4

// Judge plays the cases, and tells what came of them. It ends with an error when a model cannot be reached; an answer
// of no use is a result.
func Judge(ctx context.Context, model Model, settings Settings, cases []Case) (*Report, error) {
	p := player{settings, model, metrics.New()}
	report := &Report{kinds: map[string]*count{}, languages: map[string]*count{}}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range cases {
		group.Go(func() error {
			play := p.learn
			if cases[i].summarized() {
				play = p.summarize
			}
			r, err := play(ctx, &cases[i])
			if err != nil {
				return fmt.Errorf("%s, %s: %w", cases[i].Language, cases[i].Kind, err)
			}
			mu.Lock()
			defer mu.Unlock()
			report.add(&cases[i], r)
			return nil
		})
	}
	err := group.Wait()
	report.sort()
	return report, err
}

type result struct {
	outcome

	// brief is the summary, "" for one that was refused.
	brief                            string
	calls, inputTokens, outputTokens int
	took                             time.Duration
}

// learn reads a case for memories. An answer that cannot be used leaves none.
func (p player) learn(ctx context.Context, one *Case) (result, error) {
	store := newNotebook(one)
	engine := longterm.NewExtractor(longterm.Extractor{
		Store: store, Leases: alone{}, Asker: p.model, Logger: slog.New(slog.DiscardHandler), Metrics: p.metrics, Model: p.Prompt.Model,
		Extraction: p.Extract, Consolidation: p.Consolidate,
	})
	attempt := work.Attempt{Last: true} // an answer of no use is passed over
	if _, err := engine.Extract(ctx, uuid.New(), attempt); err != nil {
		return result{}, err
	}
	stats := store.change.Stats
	return result{
		outcome: store.outcome(), calls: stats.Calls, inputTokens: stats.InputTokens, outputTokens: stats.OutputTokens, took: stats.Duration,
	}, nil
}

func (p player) summarize(ctx context.Context, one *Case) (result, error) {
	writer := &brief.Writer{
		Summarizer: p.model, Prompt: p.Prompt, Cap: p.Limits.SummaryTokenCap, InputTokens: p.Limits.FoldInputTokens, Kind: brief.KindFold,
		Logger: slog.New(slog.DiscardHandler), Metrics: p.metrics,
	}
	var stats brief.CallStats
	began := time.Now()
	task := brief.Task{ChatID: uuid.New(), UserID: uuid.New()}
	text, _, err := writer.Write(ctx, task, "", brief.WholePiece(memory.Turns(one.Said)), &stats)
	if _, refused := errors.AsType[*brief.RefusedError](err); refused {
		text, err = "", nil
	}
	return result{
		brief: text, calls: stats.Calls, inputTokens: stats.InputTokens, outputTokens: stats.OutputTokens, took: time.Since(began),
	}, err
}

// judge counts the right results, and returns a line for each wrong one.
func judge(one *Case, r result) (c count, wrong []string) {
	c.cases, c.calls, c.input, c.output = 1, r.calls, r.inputTokens, r.outputTokens
	remembered := slices.Concat(r.active, r.inbox)
	if one.summarized() {
		remembered = []string{r.brief}
	}
	check := func(all []parts, held []string, otherwise string) {
		for _, wanted := range all {
			c.wanted++
			if slices.ContainsFunc(held, wanted.in) {
				c.kept++
			} else {
				wrong = append(wrong, fmt.Sprintf("%s: %v", otherwise, wanted))
			}
		}
	}
	check(one.Keeps, remembered, "missing")
	check(one.Closes, r.closed, "still believed")
	for _, fact := range r.active {
		c.stored++
		if (anyIn(one.Keeps, fact) || anyIn(one.May, fact)) && !anyIn(one.Never, fact) {
			c.right++
		} else {
			wrong = append(wrong, "wrong: "+fact)
		}
	}
	return c, wrong
}

// notebook is the store of one case: the memories of a user, one chat, and the change that it makes.
type notebook struct {
	user   uuid.UUID
	said   []memory.Message
	known  []longterm.Known
	change longterm.Change
}

var _ longterm.Store = (*notebook)(nil)

func newNotebook(c *Case) *notebook {
	n := &notebook{user: uuid.New(), said: c.Said}
	for place, content := range c.Known {
		n.known = append(n.known, longterm.Known{
			Memory: longterm.Memory{
				ID: uuid.New(), Content: content, Type: longterm.Fact, Status: longterm.Active, Confidence: 1,
				ValidFrom: said.AddDate(-1, 0, 0), SaidAt: said.AddDate(-1, 0, 0),
			},
			WordsPlace: place + 1,
		})
	}
	return n
}

func (n *notebook) Read(context.Context, uuid.UUID, int) (longterm.Snapshot, bool, error) {
	return longterm.Snapshot{UserID: n.user, Wanted: true, DueNow: true, LastSeq: int64(len(n.said)), Messages: n.said}, true, nil
}

func (n *notebook) Settle(context.Context, uuid.UUID) error { return nil }

// alone gives every lease: no other worker has a notebook.
type alone struct{}

func (alone) Claim(context.Context, work.Lease) (work.Claim, time.Duration, error) {
	return work.Taken, 0, nil
}
func (alone) Renew(context.Context, work.Lease) (bool, error) { return true, nil }
func (alone) Release(context.Context, work.Lease, bool) error { return nil }
func (alone) PutOff(context.Context, work.Lease, string, work.Delay) (int, time.Duration, error) {
	return 1, 0, nil
}
func (alone) Wait(context.Context, work.Lease, time.Time) error { return nil }

// Similar returns all that is known: of so few memories each is like each.
func (n *notebook) Similar(_ context.Context, _ uuid.UUID, texts []longterm.Text, _ string) (longterm.Knowledge, error) {
	known := longterm.Knowledge{}
	for range texts {
		known.Alike = append(known.Alike, n.known)
	}
	return known, nil
}

func (n *notebook) Commit(_ context.Context, change longterm.Change) (longterm.Outcome, longterm.Written, error) {
	n.change = change
	return longterm.Committed, longterm.Written{}, nil
}

// outcome are the memories after the case, and the closed ones.
type outcome struct {
	active, inbox, closed []string
}

func (n *notebook) outcome() (o outcome) {
	for _, op := range n.change.Operations {
		content := op.Content
		switch {
		case op.Action == longterm.Noop || op.Action == longterm.Unarchive:
			content = n.contentOf(op.Memory)
		case op.Action == longterm.Delete:
			for _, id := range append(op.Also, op.Memory) {
				o.closed = append(o.closed, n.contentOf(id))
			}
		case op.ConflictsWith != uuid.Nil:
			o.closed = append(o.closed, n.contentOf(op.ConflictsWith)) // when its user accepts it
		}
		switch op.Status {
		case longterm.Inbox:
			o.inbox = append(o.inbox, content)
		case longterm.Superseded:
		default:
			o.active = append(o.active, content)
		}
	}
	return o
}

func (n *notebook) contentOf(id uuid.UUID) string {
	for _, k := range n.known {
		if k.ID == id {
			return k.Content
		}
	}
	return ""
}
