package app

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/longterm"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
)

// keepMemories adds what works the jobs of memories; nothing without long-term memory.
func (a *App) keepMemories(worker *jobs.WorkerConfig, maintenance *postgres.Maintenance, insert postgres.Insert) {
	if !a.config.LongTerm.On {
		return
	}
	maintenance.ExtractAfter(a.config.LongTerm.ExtractDelay)
	learning := longterm.Extractor{
		Store: &postgres.Learning{Pool: a.workPool, Insert: insert}, Leases: &postgres.Work{Pool: a.workPool}, Asker: a.model, Logger: a.logger, Metrics: a.metrics,
		Model: a.config.Summary.Model, Delay: a.config.LongTerm.ExtractDelay,
		Extraction: a.config.Instructions["extract"], Consolidation: a.config.Instructions["consolidate"],
	}
	if a.embedder != nil {
		learning.Embedder = a.embedder
		learning.Scales = recall.NewScales(&postgres.Embeddings{Pool: a.workPool}, a.embedder)
	}
	worker.Learner = longterm.NewExtractor(learning)
	worker.Grapher = &graph.Engine{
		Store: &postgres.Graph{Pool: a.workPool}, Leases: &postgres.Work{Pool: a.workPool},
		Asker: a.model, Model: a.config.Summary.Model, Metrics: a.metrics, Logger: a.logger,
	}
	worker.Fade, worker.ArchiveDeleteDays = true, a.config.LongTerm.ArchiveDeleteDays
}

// readForMemories adds what makes chats due to be read; nothing without long-term memory.
func (a *App) readForMemories(enqueue *postgres.Enqueue, insert postgres.Insert) {
	if a.config.LongTerm.On {
		enqueue.Extract, enqueue.ExtractDelay = insert.Extract, a.config.LongTerm.ExtractDelay
	}
}

// listsByMeaning finds memories by what a text means as well, where there is an embedder.
type listsByMeaning struct {
	api.Memories
	questions *recall.Questions
}

// ListMemories goes by words alone if there is no vector of the text, or none that means something.
func (l listsByMeaning) ListMemories(ctx context.Context, user auth.Principal, query api.MemoriesQuery) (api.MemoryPage, error) {
	if vector, scale, ok := l.questions.Meaning(ctx, recall.For{UserID: user.UserID}, query.Text); ok {
		query.Vector, query.LeastCosine = vector, recall.Cosine(longterm.NearEnough, scale)
	}
	return l.Memories.ListMemories(ctx, user, query)
}

// rememberer gives prompts what a user is remembered for.
type rememberer struct {
	retriever *longterm.Retriever
	showEmpty bool // say so where there is nothing
}

// makeRememberer returns what finds memories; nil without long-term memory. The questions are the finder's, so
// that a vector is asked for once.
func (a *App) makeRememberer(questions *recall.Questions) *rememberer {
	if !a.config.LongTerm.On {
		return nil
	}
	return &rememberer{
		retriever: &longterm.Retriever{
			Store: &postgres.Memories{Pool: a.pool}, Questions: questions, Tokens: longterm.SectionTokens,
		},
		showEmpty: a.config.LongTerm.ShowEmpty,
	}
}

var _ chat.Retriever = (*rememberer)(nil)

// Section is that of the prompt.
func (r *rememberer) Section() string { return "memories" }

// Applies reports whether the chat shows memories.
func (r *rememberer) Applies(query *chat.Query) bool { return query.Chat.Memories.On }

// Needed reports whether there is something to show.
func (r *rememberer) Needed(query *chat.Query) bool {
	return r.showEmpty || query.Chat.Memories.Active > 0
}

// Retrieve finds the memories that a prompt should show. A search is given up when nine tenths of its time are over, so that
// what needs none is still in time.
func (r *rememberer) Retrieve(ctx context.Context, user auth.Principal, query chat.Query) ([]prompt.Section, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/10))
		defer cancel()
	}
	found, err := r.retriever.Retrieve(ctx, user, longterm.Query{
		Text: query.Content, ChatID: query.ChatID, Shown: query.Visible, Known: query.Chat.Memories, Now: time.Now(),
		Answered: query.Answer.Wait,
	})
	return []prompt.Section{r.section(found, query.Room)}, err
}

// section writes memories into at most so many tokens.
func (r *rememberer) section(found []memory.Remembered, room int) prompt.Section {
	budget := min(longterm.SectionTokens, room)
	text, shown, tokens := longterm.Section(found, budget)
	section := prompt.Section{
		Account: prompt.Account{Name: "memories", Tokens: tokens, Items: len(shown), LeftOut: len(found) - len(shown)},
		Text:    text, Budget: budget,
		Shorter: func(tokens int) prompt.Section { return r.section(found, tokens) },
	}
	for i := range shown {
		section.IDs = append(section.IDs, shown[i].ID)
	}
	if len(shown) == 0 && r.showEmpty {
		section.Text = longterm.Empty
	}
	return section
}
