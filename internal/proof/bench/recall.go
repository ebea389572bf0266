package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureRecall measures what it costs to find turns that left the prompt, and what is known of the user: by how much
// later a first delta comes. The program as shipped and stripped is asked by turns, in the same chats.
func measureRecall(ctx context.Context, f *fleet, g *group) error {
	if err := f.unfold(ctx); err != nil {
		return err
	}
	talks, err := f.fillTalks(ctx)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	g.title = fmt.Sprintf("questions in chats of %d and %d turns, of a user with %d memories", talks[0].turns, talks[1].turns, len(knownThings)*len(knownPlaces))
	address, stop, err := kit.Serve(ctx, slowEmbedder{takes: f.embedding}, 0)
	if err != nil {
		return err
	}
	defer stop()
	// Without workers, so that both leave the chat's jobs alone.
	ours, err := f.server(ctx, shipped, map[string]string{"EMBEDDING_MODEL": bagOfWords{}.Model(), "EMBEDDING_BASE_URL": address + "/v1"}, "--no-workers")
	if err != nil {
		return err
	}
	bare, err := f.server(ctx, stripped, nil, "--no-workers")
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // it protects nothing
	for _, c := range []struct {
		what, figure string
		in           talk
		ask          func() string
		most         float64 // added to p50, in milliseconds; 0 without a target
	}{
		{"small talk", "question_smalltalk_", talks[0], func() string { return smallTalk[random.IntN(len(smallTalk))] }, 1},
		{"found by words", "question_words_", talks[0], func() string { return talks[0].question(random, false) }, 4},
		{"waits for its vector", "question_vector_", talks[0], func() string { return talks[0].question(random, true) }, 25},
		{fmt.Sprintf("by words in %d turns", talks[1].turns), "question_long_words_", talks[1], func() string { return talks[1].question(random, false) }, 0},
		{fmt.Sprintf("by a vector in %d turns", talks[1].turns), "question_long_vector_", talks[1], func() string { return talks[1].question(random, true) }, 0},
	} {
		began := time.Now()
		took, err := firsts(ctx, []endpoint{ours, bare}, f.questions, func() func(endpoint) []byte {
			question := c.ask()
			return func(endpoint) []byte { return newClient(c.in.conversation).post(question) }
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		var targets []*target
		if c.most > 0 {
			targets = []*target{{limit: c.most, against: stripped, added: true}, {limit: 40, against: stripped, added: true}}
		}
		g.times("first delta, "+c.what, c.figure, targets, took...)
		if err := f.noteReceipts(ctx, g, c.what, began); err != nil {
			return err
		}
	}
	g.note("the embedder is a stand-in that takes %v, as the keyless one does, and knows words of our own", f.embedding)
	return f.settle(ctx)
}

// smallTalk asks for nothing that could be looked up.
var smallTalk = []string{"ok, thanks", "hello!", "good morning", "yes please", "great", "how are you?", "really?", "go on", "danke", "d'accord", "gracias"}

// noteReceipts says how the questions since a time were answered, by the receipts of their replies.
func (e *environment) noteReceipts(ctx context.Context, g *group, what string, since time.Time) error {
	var found string
	err := e.admin.QueryRow(ctx, `
		select coalesce(string_agg(n || ' ' || result, ', ' order by n desc, result), 'none')
		  from (select m.metadata->'memory'->>'recall' as result, count(*) as n from public.messages m
		         where m.role = 'assistant' and m.created_at >= $1 and m.metadata->'memory' ? 'recall' group by 1) r`, since).Scan(&found)
	g.note("receipts, %s: %s", what, found)
	return err
}
