package app

import (
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
)

// keepMemories adds what works the jobs of memories; nothing without long-term memory.
func (a *App) keepMemories(worker *jobs.WorkerConfig, maintenance *postgres.Maintenance) {
	if !a.config.LongTerm.On {
		return
	}
	maintenance.ExtractAfter(a.config.LongTerm.ExtractDelay)
	learning := learn.Config{
		Store: postgres.NewLearning(a.workPool), Asker: a.model, Logger: a.logger, Metrics: a.metrics,
		Model: a.config.Summary.Model, Delay: a.config.LongTerm.ExtractDelay,
	}
	if a.embedder != nil {
		learning.Embedder = a.embedder
		learning.Scales = recall.NewScales(postgres.NewEmbeddings(a.workPool, recall.VectorSize), a.embedder)
	}
	worker.Learner, worker.Extractions = learn.New(learning), maintenance
	worker.Grapher = graph.New(graph.Config{
		Store: postgres.NewGraph(a.workPool), Asker: a.model, Model: a.config.Summary.Model, Metrics: a.metrics, Logger: a.logger,
	})
	worker.Decayer, worker.DecayAt, worker.ArchiveDeleteDays = maintenance, decayAt, a.config.LongTerm.ArchiveDeleteDays
}

// readForMemories adds what makes chats due to be read; nothing without long-term memory.
func (a *App) readForMemories(enqueue *postgres.Enqueue, inserter *jobs.Client) {
	if a.config.LongTerm.On {
		enqueue.Extract, enqueue.ExtractDelay = jobs.EnqueueExtract(inserter), a.config.LongTerm.ExtractDelay
	}
}
