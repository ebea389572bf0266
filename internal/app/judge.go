package app

import (
	"context"
	"log/slog"

	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/judge"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/metrics"
)

// Judge tells what the configured models are worth on labelled cases; see package judge. It needs no database.
func Judge(ctx context.Context, cfg config.Config, cases []judge.Case) (*judge.Report, error) {
	model := llm.New(llm.Config{
		APIKey: cfg.OpenAIAPIKey, BaseURL: cfg.OpenAIBaseURL, IdleTimeout: cfg.ModelIdleTimeout, Logger: slog.New(slog.DiscardHandler),
	})
	defer model.Close()
	return judge.Judge(ctx, judge.Config{
		Model: model, Prompt: cfg.Summary, Limits: cfg.Memory, Metrics: metrics.New(),
		Extract: cfg.Instructions["extract"], Consolidate: cfg.Instructions["consolidate"],
	}, cases)
}
