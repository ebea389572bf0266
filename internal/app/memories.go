package app

import (
	"cmp"

	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
)

// learner returns what extracts memories; nil without long-term memory.
func (a *App) learner() jobs.Learner {
	if !a.config.LongTerm.On {
		return nil
	}
	settings := a.config.LongTerm
	config := learn.Config{
		Store: postgres.NewLearning(a.workPool), Asker: a.model, Logger: a.logger, Metrics: a.metrics,
		Model: cmp.Or(settings.ExtractionModel, a.config.Summary.Model), Similar: settings.Similar,
		Delay: settings.ExtractDelay, MostTurns: settings.ExtractTurns, Graph: settings.Graph, Inbox: settings.Inbox,
	}
	if a.embedder != nil {
		config.Embedder = a.embedder
		config.Scales = recall.NewScales(postgres.NewEmbeddings(a.workPool, a.config.EmbeddingDimensions), a.embedder)
	}
	return learn.New(config)
}

// readForMemories adds what makes chats due to be read; nothing without long-term memory.
func (a *App) readForMemories(enqueue *postgres.Enqueue, inserter *jobs.Client) {
	if a.config.LongTerm.On {
		enqueue.Extract, enqueue.ExtractDelay = jobs.EnqueueExtract(inserter), a.config.LongTerm.ExtractDelay
	}
}
