package app

import (
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
)

// grapher is nil without long-term memory.
func (a *App) grapher() jobs.Grapher {
	if !a.config.LongTerm.On {
		return nil
	}
	return graph.New(graph.Config{
		Store: postgres.NewGraph(a.workPool), Asker: a.model, Model: a.config.Summary.Model,
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
