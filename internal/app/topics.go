package app

import (
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
)

// hasTopics reports whether any chat may have topics. They are made of the turns that recall has indexed.
func (a *App) hasTopics() bool { return a.config.Recall && a.config.Topics.Mode != config.TopicsOff }

// toldApart reports whether topics are told apart by the vectors of their turns.
func (a *App) toldApart() bool {
	return a.hasTopics() && a.embedder != nil && recall.Means(a.embedder.Model())
}

// topicSettings are those of the configuration.
func (a *App) topicSettings() topics.Settings {
	set := a.config.Topics
	return topics.Settings{
		Similarity: set.Similarity, Continuity: topics.Defaults().Continuity, Max: set.Max, HalfLife: set.HalfLife, HalfLifeMax: set.HalfLifeMax,
		LongTermAccesses: set.LongTermAccesses, MaxMessages: set.MaxMessages, KeepMessages: set.KeepMessages,
	}
}

// keepTopics adds what works the jobs of topics; nothing without topics.
func (a *App) keepTopics(worker *jobs.WorkerConfig) {
	if !a.hasTopics() {
		return
	}
	assigning := assign.Config{
		Store: postgres.NewAssignments(a.workPool), Settings: a.topicSettings(), Mode: a.config.Topics.Mode, Metrics: a.metrics, Logger: a.logger,
	}
	if a.toldApart() {
		assigning.Model = a.embedder.Model()
		assigning.Scales = recall.NewTurnScales(postgres.NewEmbeddings(a.workPool, recall.VectorSize), a.embedder)
	}
	worker.Topics, worker.TopicSweep = assign.New(assigning), postgres.NewTopicSweep(a.workPool, assigning.Mode, assigning.Model, a.config.Topics.MaxMessages)
	worker.Compactor = pack.New(pack.Config{
		Store: postgres.NewPacks(a.workPool), Summarizer: a.model, Prompt: a.config.Summary, InputTokens: a.config.Memory.FoldInputTokens,
		Settings: assigning.Settings, Logger: a.logger, Metrics: a.metrics,
	})
}
