package app

import (
	"cmp"

	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
)

// grapher is nil unless memories have a graph.
func (a *App) grapher() jobs.Grapher {
	if !a.config.LongTerm.On || !a.config.LongTerm.Graph {
		return nil
	}
	return graph.New(graph.Config{
		Store: postgres.NewGraph(a.workPool), Asker: a.model, Model: cmp.Or(a.config.LongTerm.ExtractionModel, a.config.Summary.Model),
		Metrics: a.metrics, Logger: a.logger,
	})
}

// decayer is nil without long-term memory.
func (a *App) decayer() jobs.Decayer {
	if !a.config.LongTerm.On {
		return nil
	}
	return postgres.NewMaintenance(a.workPool, a.config.Memory)
}
