package main

import (
	"fmt"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/judge"
	"github.com/arcoscribe/throughline/internal/llm"
	limits "github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// judgeKeyless tells what `throughline quality` says of the offline model, which knows some English: what memories are worth
// without a key.
func judgeKeyless(s *scene, _ int) (figures []figure) {
	model := kit.Must(offline.Start(offline.Options{}))
	defer func() { s.check(model.Close()) }()
	client := llm.New(llm.Config{APIKey: "offline", BaseURL: model.BaseURL()})
	defer client.Close()
	config := judge.Config{
		Model: client, Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "offline"}, Limits: limits.DefaultLimits(), Metrics: metrics.New(),
	}
	for _, spoken := range []struct {
		name      string
		languages []string
	}{{"English", []string{"en"}}, {"ten languages", nil}} {
		report := kit.Must(judge.Judge(s.ctx, config, kit.Must(judge.Cases(spoken.languages...))))
		kept, of := report.Kept()
		right, stored := report.Right()
		figures = append(figures,
			figure{what: "the offline model keeps, " + spoken.name, text: fmt.Sprintf("%d of %d", kept, of)},
			figure{what: "of its memories are right, " + spoken.name, text: fmt.Sprintf("%d of %d", right, stored)})
	}
	return figures
}
