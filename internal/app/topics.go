package app

import (
	"context"
	"strings"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/rewrite"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/google/uuid"
)

// hasTopics reports whether any chat may have topics. They are made of the turns that recall has indexed.
func (a *App) hasTopics() bool { return a.config.Recall && a.config.Topics.Mode != config.TopicsOff }

// toldApart reports whether topics are told apart by the vectors of their turns.
func (a *App) toldApart() bool {
	return a.hasTopics() && a.embedder != nil && recall.Means(a.embedder.Model())
}

// keepTopics adds what works the jobs of topics; nothing without topics.
func (a *App) keepTopics(worker *jobs.WorkerConfig, maintenance *postgres.Maintenance, insert postgres.Insert) {
	if !a.hasTopics() {
		return
	}
	assigning := assign.Config{
		Store: postgres.NewAssignments(a.workPool, insert), Settings: a.config.Topics.Settings, Mode: a.config.Topics.Mode, Metrics: a.metrics, Logger: a.logger,
	}
	if a.toldApart() {
		assigning.Model = a.embedder.Model()
		assigning.Scales = recall.NewTurnScales(postgres.NewEmbeddings(a.workPool, recall.VectorSize), a.embedder)
	}
	worker.Topics = assign.New(assigning)
	maintenance.KeepTopics(assigning.Mode, assigning.Model, a.config.Topics.MaxMessages)
	worker.Compactor = pack.New(pack.Config{
		Store: postgres.NewPacks(a.workPool, insert), Leases: postgres.NewWork(a.workPool),
		Summarizer: a.model, Prompt: a.config.Summary, InputTokens: a.config.Memory.FoldInputTokens,
		Settings: assigning.Settings, Logger: a.logger, Metrics: a.metrics,
	})
}

// makeUserTopics returns what users see of topics and change. Topics that are there can be seen where there are no new ones.
func (a *App) makeUserTopics(insert postgres.Insert) *postgres.UserTopics {
	options := postgres.UserTopicsOptions{Settings: a.config.Topics.Settings}
	if a.hasTopics() {
		options.Index, options.Compact = insert.OfChat(work.IndexTurns, work.Repair), insert.Compact
		options.FromTheFirstTurn = a.config.Topics.Mode == config.TopicsOn
	}
	return postgres.NewUserTopics(a.pool, options)
}

// standalone makes questions stand alone by what their chat is about.
type standalone struct {
	topics   history.Topics
	rewriter *rewrite.Rewriter
}

var _ history.Rewriter = standalone{}

func (a *App) makeStandalone(store history.Topics) standalone {
	return standalone{store, rewrite.New(rewrite.Config{
		Writer: a.model, Model: a.config.Summary.Model, Instructions: a.config.Instructions["rewrite"], Metrics: a.metrics,
	})}
}

// Standalone asks no model where nothing was said before.
func (s standalone) Standalone(ctx context.Context, user auth.Principal, chatID uuid.UUID, content string) (history.Standalone, error) {
	said, err := s.topics.TopicContext(ctx, user, history.TopicRef{ChatID: chatID, Current: true})
	if err != nil {
		return history.Standalone{}, err
	}
	question := rewrite.Question{ChatID: chatID, UserID: user.UserID, Content: content}
	for _, m := range said.Messages {
		if summary, ok := strings.CutPrefix(m.Content, history.SummaryPrefix); ok && m.Role == "system" {
			question.Summary = summary
			continue
		}
		question.Said = append(question.Said, rewrite.Message{Role: m.Role, Content: m.Content})
	}
	answer, rewritten, err := s.rewriter.Rewrite(ctx, question)
	return history.Standalone{Content: answer, Rewritten: rewritten}, err
}
