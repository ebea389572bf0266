package app

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/rewrite"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
)

// makeUserTopics returns what users see of topics and change. Topics that are there can be seen where there are no new ones.
func (a *App) makeUserTopics(inserter *jobs.Client) *postgres.UserTopics {
	options := postgres.UserTopicsOptions{Settings: a.topicSettings()}
	if a.hasTopics() {
		options.Index, options.Compact = jobs.EnqueueIndex(inserter), jobs.EnqueueCompact(inserter)
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
	return standalone{store, rewrite.New(rewrite.Config{Writer: a.model, Model: a.config.Summary.Model, Metrics: a.metrics})}
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
