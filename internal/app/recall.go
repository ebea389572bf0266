package app

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres"
)

// finder gives what package recall finds to prompts and to those who ask.
type finder struct {
	recaller *recall.Recaller // nil where RECALL is off
	chats    api.Store
	topics   bool // whether chats may have topics
}

func (a *App) makeFinder(chats api.Store, questions *recall.Questions) *finder {
	f := &finder{chats: chats, topics: a.hasTopics()}
	if a.config.Recall {
		f.recaller = &recall.Recaller{
			Store: &postgres.Recall{Pool: a.pool}, Questions: questions,
			Topics: recall.TopicRules{Similarity: a.config.Topics.Similarity, Continuity: a.config.Topics.Continuity},
		}
	}
	return f
}

// makeQuestions returns what makes the vectors of questions, once for all who need one, and what their cosines mean; nil
// without an embedder.
func (a *App) makeQuestions() *recall.Questions {
	if a.embedder == nil {
		return nil
	}
	return &recall.Questions{
		Embedder: hurried{a.embedder}, Scales: recall.NewScales(&postgres.Embeddings{Pool: a.pool}, a.embedder),
	}
}

// questionPatience is the longest that anybody waits for the vector of a question; then words have to do.
const questionPatience = 2 * time.Second

// hurried makes the vectors of questions, for which somebody waits.
type hurried struct{ recall.Embedder }

// Embed fails when the embedder takes longer than questionPatience.
func (h hurried) Embed(ctx context.Context, of recall.For, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, questionPatience)
	defer cancel()
	return h.Embedder.Embed(ctx, of, texts)
}

func retrievers(remembered *rememberer, found *finder) []chat.Retriever {
	var all []chat.Retriever
	if remembered != nil {
		all = append(all, remembered)
	}
	if found.recaller != nil {
		all = append(all, found)
	}
	return all
}

var _ chat.Retriever = (*finder)(nil)

// Section is that of the prompt.
func (f *finder) Section() string { return "recall" }

// Applies reports that every prompt may quote turns.
func (f *finder) Applies(*chat.Query) bool { return true }

// Needed reports whether turns of the chat are out of its prompt, or there are those of other chats.
func (f *finder) Needed(query *chat.Query) bool {
	return query.LeftPrompt() || query.Chat.RecallsOthers
}

// Retrieve finds the turns that a prompt should quote, and the topic that the conversation has come back to.
func (f *finder) Retrieve(ctx context.Context, user auth.Principal, query chat.Query) ([]prompt.Section, error) {
	found, err := f.recaller.Recall(ctx, user, recall.Query{
		ChatID: query.ChatID, Text: query.Content, After: query.Chat.Brief.ClearedSeq, Before: query.ShownFrom, Shown: query.Shown,
		Elsewhere: query.Chat.RecallsOthers, OwnShown: !query.LeftPrompt(),
		Topics: f.topics, Short: topics.IsShort(query.Content), Now: time.Now(), Limit: recall.SectionTurns,
		Sure: query.Answer.Give,
	})
	if err != nil {
		return nil, err
	}
	sections := []prompt.Section{recallSection(found, min(recall.SectionTokens, query.Room))}
	if found.Topic != nil {
		sections = append(sections, topicSection(found.Topic, min(topics.SectionTokens-headingTokens(), query.Room)))
	}
	return sections, nil
}

// headingTokens are those of the topic's heading, which counts as part of the section, and of the quote that a title may need. The first
// to ask counts them: a command that ends at once reads no token table.
var headingTokens = sync.OnceValue(func() int { return text.Tokens(prompt.Heading("topic") + " " + text.QuotePrefix) })

// topicSection writes a topic into at most so many tokens.
func topicSection(t *recall.Topic, budget int) prompt.Section {
	written, tokens := topics.Section(t, budget)
	section := prompt.Section{
		Account: prompt.Account{Name: "topic", Tokens: tokens}, Text: written, Budget: topics.SectionTokens,
		Shorter: func(tokens int) prompt.Section { return topicSection(t, tokens) },
	}
	if written == "" {
		section.LeftOut = 1
		return section
	}
	section.Items, section.IDs = 1, []uuid.UUID{t.ID}
	return section
}

// recallSection writes the turns that were found into at most so many tokens.
func recallSection(found recall.Found, budget int) prompt.Section {
	written, shown, tokens := recall.Section(found.Turns, budget)
	section := prompt.Section{
		Account: prompt.Account{Name: "recall", Tokens: tokens, Items: len(shown), LeftOut: len(found.Turns) - len(shown)},
		Text:    written, Budget: budget, How: string(found.How),
		Shorter: func(tokens int) prompt.Section { return recallSection(found, tokens) },
	}
	for _, turn := range shown {
		if turn.Elsewhere {
			section.Elsewhere = append(section.Elsewhere, prompt.ChatTurn{ChatID: turn.ChatID, Seq: turn.Seq})
		} else {
			section.Seqs = append(section.Seqs, turn.Seq)
		}
	}
	return section
}

// Recall finds messages for people and tools, the best first.
func (f *finder) Recall(ctx context.Context, user auth.Principal, query api.RecallQuery) ([]api.RecallResult, error) {
	if f.recaller == nil {
		return nil, api.NoRecall()
	}
	if query.Chat != uuid.Nil {
		if _, err := f.chats.FindChat(ctx, user, query.Chat); err != nil {
			return nil, err
		}
	}
	found, err := f.recaller.Search(ctx, user, recall.Query{ChatID: query.Chat, TopicID: query.Topic, Text: query.Text, Now: time.Now(), Limit: query.Limit})
	results := []api.RecallResult{}
	for _, turn := range found.Turns {
		for _, message := range turn.Messages {
			results = append(results, api.RecallResult{
				ChatID: turn.ChatID, Seq: message.Seq, MessageID: message.ID, Role: message.Role, CreatedAt: message.CreatedAt,
				Score: message.Score, Text: message.Text, Why: turn.Why,
			})
		}
	}
	slices.SortStableFunc(results, func(a, b api.RecallResult) int { return cmp.Compare(b.Score, a.Score) })
	return results[:min(len(results), query.Limit)], err
}
