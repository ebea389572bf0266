package main

import (
	"fmt"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/judge"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// judgeKeyless tells what `throughline quality` says of the offline model, which knows some English: what memories are worth
// without a key.
func judgeKeyless(s *scene, _ int) (figures []figure) {
	model := kit.Must(offline.Start(offline.Options{}))
	defer func() { s.check(model.Close()) }()
	settings := map[string]string{"OPENAI_BASE_URL": model.BaseURL(), "OPENAI_API_KEY": "offline"}
	cfg := kit.Must(config.Parse(func(name string) (string, bool) { return settings[name], settings[name] != "" }, false))
	for _, spoken := range []struct {
		name      string
		languages []string
	}{{"English", []string{"en"}}, {"ten languages", nil}} {
		report := kit.Must(app.Judge(s.ctx, cfg, kit.Must(judge.Cases(spoken.languages...))))
		kept, of := report.Kept()
		right, stored := report.Right()
		figures = append(figures,
			figure{what: "the offline model keeps, " + spoken.name, text: fmt.Sprintf("%d of %d", kept, of)},
			figure{what: "of its memories are right, " + spoken.name, text: fmt.Sprintf("%d of %d", right, stored)})
	}
	return figures
}
