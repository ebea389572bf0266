package app

import (
	"context"
	"strings"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/memory/topics"

	"github.com/arcoscribe/throughline/internal/memory/recall"

	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/google/uuid"
)

// hasTopics reports whether any chat may have topics. They are made of the turns that recall has indexed.
func (a *App) hasTopics() bool { return a.config.Recall && a.config.Topics.Mode != config.TopicsOff }

// toldApart reports whether topics are told apart by the vectors of their turns.
func (a *App) toldApart() bool {
	return a.hasTopics() && a.embedder != nil
}

// keepTopics adds what works the jobs of topics; nothing without topics.
func (a *App) keepTopics(worker *jobs.WorkerConfig, maintenance *postgres.Maintenance, insert postgres.Insert) {
	if !a.hasTopics() {
		return
	}
	assigning := topics.Assigner{
		Store:    &postgres.Assignments{Pool: a.workPool, Insert: insert},
		Settings: a.config.Topics.Settings, Mode: a.config.Topics.Mode, Metrics: a.metrics, Logger: a.logger,
	}
	if a.toldApart() {
		assigning.Model = a.embedder.Model()
		assigning.Scales = recall.NewTurnScales(&postgres.Embeddings{Pool: a.workPool}, a.embedder)
	}
	worker.Topics = &assigning
	maintenance.KeepTopics(assigning.Mode, assigning.Model, a.config.Topics.MaxMessages)
	worker.Compactor = topics.NewCompactor(topics.CompactorConfig{
		Store: &postgres.Packs{Pool: a.workPool, Insert: insert}, Leases: &postgres.Work{Pool: a.workPool},
		Summarizer: a.model, Prompt: a.config.Summary, InputTokens: a.config.Memory.FoldInputTokens,
		Settings: assigning.Settings, Logger: a.logger, Metrics: a.metrics,
	})
}

// keepTitles adds what gives chats their titles; nothing where CHAT_TITLES is off.
func (a *App) keepTitles(worker *jobs.WorkerConfig) {
	if a.config.ChatTitles > 0 {
		worker.Titler = &topics.Titler{
			Store: &postgres.Titles{Pool: a.workPool}, Writer: a.model, Model: a.config.Summary.Model, Rest: a.config.ChatTitles,
			Metrics: a.metrics, Logger: a.logger,
		}
	}
}

// makeUserTopics returns what users see of topics and change. Topics that are there can be seen where there are no new ones.
func (a *App) makeUserTopics(insert postgres.Insert) *postgres.UserTopics {
	options := postgres.UserTopicsOptions{Settings: a.config.Topics.Settings}
	if a.hasTopics() {
		options.Index, options.Compact = insert.OfChat(work.IndexTurns, work.Repair), insert.Compact
		options.FromTheFirstTurn = a.config.Topics.Mode == config.TopicsOn
	}
	return &postgres.UserTopics{Pool: a.pool, Options: options}
}

// standalone makes questions stand alone by what their chat is about.
type standalone struct {
	topics   api.Topics
	rewriter *topics.Rewriter
}

var _ api.Rewriter = standalone{}

func (a *App) makeStandalone(store api.Topics) standalone {
	return standalone{store, &topics.Rewriter{
		Writer: a.model, Model: a.config.Summary.Model, Instructions: a.config.Instructions["rewrite"], Metrics: a.metrics,
	}}
}

// Standalone asks no model where nothing was said before.
func (s standalone) Standalone(ctx context.Context, user auth.Principal, chatID uuid.UUID, asked api.Question) (api.Standalone, error) {
	said, err := s.topics.TopicContext(ctx, user, api.TopicRef{ChatID: chatID, Current: true})
	if err != nil {
		return api.Standalone{}, err
	}
	question := topics.Question{ChatID: chatID, UserID: user.UserID, Content: asked.Content}
	for _, m := range said.Messages {
		if summary, ok := strings.CutPrefix(m.Content, api.SummaryPrefix); ok && m.Role == "system" {
			question.Summary = summary
			continue
		}
		question.Said = append(question.Said, topics.QuestionMessage{Role: m.Role, Content: m.Content})
	}
	answer, rewritten, err := s.rewriter.Rewrite(ctx, question)
	return api.Standalone{Content: answer, Rewritten: rewritten}, err
}
