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
	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
)

// Model is what is judged.
type Model interface {
	work.Asker
	brief.Summarizer
}

// Config says how the models are called in production.
type Config struct {
	Model Model
	// Prompt is that of summaries; its model reads cases for memories, too.
	Prompt brief.PromptConfig
	Limits memory.Limits
	// Extract and Consolidate are instructions of the app's own; "" for the built-in ones.
	Extract, Consolidate string
	Metrics              *metrics.Metrics
}

// atOnce is how many cases are played at the same time.
const atOnce = 4

// Judge plays the cases, and tells what came of them. It ends with an error when a model cannot be reached; an answer
// of no use is a result.
func Judge(ctx context.Context, config Config, cases []Case) (*Report, error) {
	report := newReport()
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range cases {
		group.Go(func() error {
			r, err := config.play(ctx, &cases[i])
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

// result is what came of a case.
type result struct {
	outcome

	// brief is what was summarized, "" for a summary that was refused.
	brief                            string
	calls, inputTokens, outputTokens int
	took                             time.Duration
}

func (c *Config) play(ctx context.Context, one *Case) (result, error) {
	if one.summarized() {
		return c.summarize(ctx, one)
	}
	return c.learn(ctx, one)
}

// learn reads a case for memories. An answer that cannot be used leaves none.
func (c *Config) learn(ctx context.Context, one *Case) (result, error) {
	store := newNotebook(one)
	engine := learn.New(learn.Config{
		Store: store, Leases: alone{}, Asker: c.Model, Logger: slog.New(slog.DiscardHandler), Metrics: c.Metrics, Model: c.Prompt.Model,
		Extract: c.Extract, Consolidate: c.Consolidate,
	})
	job := learn.Job{Last: true} // what is of no use is passed over
	if _, err := engine.Extract(ctx, uuid.New(), job); err != nil {
		return result{}, err
	}
	stats := store.change.Stats
	return result{
		outcome: store.outcome(), calls: stats.Calls, inputTokens: stats.InputTokens, outputTokens: stats.OutputTokens, took: stats.Duration,
	}, nil
}

func (c *Config) summarize(ctx context.Context, one *Case) (result, error) {
	writer := brief.NewWriter(brief.WriterConfig{
		Summarizer: c.Model, Prompt: c.Prompt, Cap: c.Limits.SummaryTokenCap, InputTokens: c.Limits.FoldInputTokens, Tokens: "fold",
		Logger: slog.New(slog.DiscardHandler), Metrics: c.Metrics,
	})
	var stats brief.CallStats
	began := time.Now()
	task := brief.Task{Kind: brief.KindFold, ChatID: uuid.New(), UserID: uuid.New()}
	text, _, err := writer.Write(ctx, task, "", brief.WholePiece(memory.Turns(one.Said)), &stats)
	if _, refused := errors.AsType[*brief.RefusedError](err); refused {
		text, err = "", nil
	}
	return result{
		brief: text, calls: stats.Calls, inputTokens: stats.InputTokens, outputTokens: stats.OutputTokens, took: time.Since(began),
	}, err
}

// judge counts what is right. What is wrong is told in a line each.
func judge(one *Case, r result) (c count, wrong []string) {
	c.cases, c.calls, c.input, c.output = 1, r.calls, r.inputTokens, r.outputTokens
	remembered := slices.Concat(r.active, r.inbox)
	if one.summarized() {
		remembered = []string{r.brief}
	}
	for _, wanted := range one.Keeps {
		c.wanted++
		if slices.ContainsFunc(remembered, wanted.in) {
			c.kept++
		} else {
			wrong = append(wrong, fmt.Sprintf("missing: %v", wanted))
		}
	}
	for _, wanted := range one.Closes {
		c.wanted++
		if slices.ContainsFunc(r.closed, wanted.in) {
			c.kept++
		} else {
			wrong = append(wrong, fmt.Sprintf("still believed: %v", wanted))
		}
	}
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
