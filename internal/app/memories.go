package app

import (
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
	config := learn.Config{
		Store: postgres.NewLearning(a.workPool), Asker: a.model, Logger: a.logger, Metrics: a.metrics,
		Model: a.config.Summary.Model, Delay: a.config.LongTerm.ExtractDelay,
	}
	if a.embedder != nil {
		config.Embedder = a.embedder
		config.Scales = recall.NewScales(postgres.NewEmbeddings(a.workPool, recall.VectorSize), a.embedder)
	}
	return learn.New(config)
}

// readForMemories adds what makes chats due to be read; nothing without long-term memory.
func (a *App) readForMemories(enqueue *postgres.Enqueue, inserter *jobs.Client) {
	if a.config.LongTerm.On {
		enqueue.Extract, enqueue.ExtractDelay = jobs.EnqueueExtract(inserter), a.config.LongTerm.ExtractDelay
	}
}
