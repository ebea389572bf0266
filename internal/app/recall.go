package app

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
)

// finder gives what package recall finds to prompts and to those who ask.
type finder struct {
	recaller *recall.Recaller // nil where RECALL is off
	chats    history.Store
	tokens   int // the most that a prompt shows
}

// makeFinder returns what finds turns.
func (a *App) makeFinder(chats history.Store) *finder {
	f := &finder{chats: chats, tokens: a.config.RecallTokens}
	if !a.config.Recall {
		return f
	}
	config := recall.Config{Store: postgres.NewRecall(a.pool)}
	if a.embedder != nil {
		config.Embedder = hurried{llm.NewQuestions(a.embedder)}
		config.Scales = recall.NewScales(postgres.NewEmbeddings(a.pool, a.config.EmbeddingDimensions), a.embedder)
	}
	f.recaller = recall.New(config)
	return f
}

// questionPatience is the longest that anybody waits for the vector of a question; then words have to do.
const questionPatience = 2 * time.Second

// hurried makes the vectors of questions, for which somebody waits.
type hurried struct{ recall.Embedder }

// Embed fails when the embedder takes longer than questionPatience.
func (h hurried) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, questionPatience)
	defer cancel()
	return h.Embedder.Embed(ctx, texts)
}

// retrievers are those of the prompts.
func (f *finder) retrievers() []chat.Retriever {
	if f.recaller == nil {
		return nil
	}
	return []chat.Retriever{f}
}

var _ chat.Retriever = (*finder)(nil)

// Section is that of the prompt.
func (f *finder) Section() string { return "recall" }

// Needed reports whether turns of the chat are out of its prompt.
func (f *finder) Needed(query *chat.Query) bool { return query.LeftPrompt() }

// Retrieve finds the turns that a prompt should quote.
func (f *finder) Retrieve(ctx context.Context, user auth.Principal, query chat.Query) (prompt.Section, error) {
	found, err := f.recaller.Recall(ctx, user, recall.Query{
		ChatID: query.ChatID, Text: query.Content, After: query.Chat.Brief.ClearedSeq, Before: query.ShownFrom, Shown: query.Shown,
		Now: time.Now(), Limit: recall.SectionTurns,
	})
	if err != nil {
		return prompt.Section{}, err
	}
	budget := min(f.tokens, query.Room)
	text, shown, tokens := recall.Section(found.Turns, budget)
	section := prompt.Section{
		Account: prompt.Account{Tokens: tokens, Items: len(shown), LeftOut: len(found.Turns) - len(shown)},
		Text:    text, Budget: budget, How: string(found.How),
	}
	for _, turn := range shown {
		section.Seqs = append(section.Seqs, turn.Seq)
	}
	return section, nil
}

// Recall finds messages for people and tools, the best first.
func (f *finder) Recall(ctx context.Context, user auth.Principal, query history.RecallQuery) ([]history.RecallResult, error) {
	if f.recaller == nil {
		return nil, history.NoRecall()
	}
	if query.Chat != uuid.Nil {
		if _, err := f.chats.FindChat(ctx, user, query.Chat); err != nil {
			return nil, err
		}
	}
	found, err := f.recaller.Search(ctx, user, recall.Query{ChatID: query.Chat, TopicID: query.Topic, Text: query.Text, Now: time.Now(), Limit: query.Limit})
	results := []history.RecallResult{}
	for _, turn := range found.Turns {
		for _, message := range turn.Messages {
			results = append(results, history.RecallResult{
				ChatID: turn.ChatID, Seq: message.Seq, MessageID: message.ID, Role: message.Role, CreatedAt: message.CreatedAt,
				Score: message.Score, Text: message.Text, Why: turn.Why,
			})
		}
	}
	slices.SortStableFunc(results, func(a, b history.RecallResult) int { return cmp.Compare(b.Score, a.Score) })
	return results[:min(len(results), query.Limit)], err
}
