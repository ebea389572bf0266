package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// knowing is the size of measureRemembered.
type knowing struct {
	memories             []int // of the users that are looked up; the second one is asked in chats, too
	samples, firstDeltas int
	embedding            time.Duration // of a question
}

// known is a user with memories. They are in the language of recall_text.go.
type known struct {
	owner
	number, memories int
}

const memoryWords = 5

func (k known) words(n int) []int {
	random := rand.New(rand.NewPCG(uint64(k.number), uint64(n))) //nolint:gosec // it protects nothing
	zipf := rand.NewZipf(random, zipfExponent, zipfShift, lexiconSize-1)
	ranks := make([]int, memoryWords)
	for i := range ranks {
		ranks[i] = int(zipf.Uint64())
	}
	return ranks
}

// question asks for a memory with three of its words or, by meaning, with synonyms of them.
func (k known) question(random *rand.Rand, byMeaning bool) string {
	var asked [3]string
	for n, rank := range k.words(random.IntN(k.memories))[:len(asked)] {
		if asked[n] = lexeme(rank); byMeaning {
			asked[n] = synonym + asked[n]
		}
	}
	return "Is the " + asked[0] + " with my " + asked[1] + " for the " + asked[2] + "? Say tokens=1" // the last wish counts: the chat may hold others
}

// measureRemembered measures what it costs to find memories: each reply, and each look-up.
func measureRemembered(ctx context.Context, e *environment) (g group, err error) {
	g = group{Title: "find what a user is remembered for; added: less than LONG_TERM_MEMORY=false, in the same chats"}
	all := make([]known, len(e.known.memories))
	for n, count := range e.known.memories {
		all[n] = known{e.owners[n], n, count}
	}
	defer func() {
		err = errors.Join(err, e.forget(context.WithoutCancel(ctx), all), e.clearJobs(context.WithoutCancel(ctx)))
	}()
	if err := e.forget(ctx, all); err != nil { // what other parts made the user be remembered for
		return g, err
	}
	for _, k := range all {
		if err := e.memorize(ctx, k); err != nil {
			return g, fmt.Errorf("memorize: %w", err)
		}
	}
	if err := kit.Exec(ctx, e.admin, "vacuum (analyze) public.memories"); err != nil {
		return g, err
	}
	if err := e.addedByMemories(ctx, &g, all[1]); err != nil {
		return g, fmt.Errorf("first deltas: %w", err)
	}
	return g, e.memoryTimes(ctx, &g, all)
}

// memorize stores a user's memories, with their vectors.
func (e *environment) memorize(ctx context.Context, k known) error {
	contents := make([]string, k.memories)
	for n := range contents {
		contents[n] = "The user has it that " + sentences(k.words(n), uint64(n))
	}
	_, err := e.admin.Exec(ctx, `with kept as (insert into public.memory_users (user_id) values ($1))
		insert into public.memories (user_id, content) select $1, c from unnest($2::text[]) c on conflict do nothing`, k.principal.UserID, contents)
	if err != nil {
		return err
	}
	vectors := memories.NewVectors(memories.VectorsConfig{
		Store: postgres.NewEmbeddings(e.pool, recall.VectorSize), Embedder: bagOfWords{}, Logger: quiet(), Turn: time.Hour,
	})
	done, err := vectors.EmbedMemories(ctx, k.principal.UserID)
	if err == nil && done.Rest > 0 {
		err = errors.New("the embedder failed")
	}
	return err
}

func (e *environment) forget(ctx context.Context, all []known) error {
	ids := make([]uuid.UUID, len(all))
	for n, k := range all {
		ids[n] = k.principal.UserID
	}
	_, err := e.admin.Exec(ctx, "delete from public.memory_users where user_id = any($1)", ids)
	return err
}

// chat returns a chat of a user, one of a few.
func (e *environment) chat(owner, n int) conversation {
	const few = 10
	return e.conversation(shortChat, owner+n%min(few, max(1, e.shortChats()/e.users-1))*e.users)
}

// addedByMemories times first deltas of servers with and without long-term memory, by turns. Nothing is read out of the
// chats meanwhile: the part memorycost measures that.
func (e *environment) addedByMemories(ctx context.Context, g *group, asked known) (err error) {
	address, stop, err := kit.Serve(ctx, &slowEmbedder{takes: e.known.embedding}, 0)
	if err != nil {
		return err
	}
	defer stop()
	const pause = `insert into river.river_queue (name, paused_at, updated_at) values ('memories', now(), now())
		on conflict (name) do update set paused_at = now()`
	if err := kit.Exec(ctx, e.admin, pause); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, kit.Exec(context.WithoutCancel(ctx), e.admin, "delete from river.river_queue where name = 'memories'"))
	}()
	f, err := e.startServers(ctx,
		map[string]string{"RECALL": "off"},
		map[string]string{"RECALL": "off", "LONG_TERM_MEMORY": "true"},
		map[string]string{"RECALL": "off", "LONG_TERM_MEMORY": "true", "EMBEDDING_MODEL": bagOfWords{}.Model(), "EMBEDDING_BASE_URL": address + "/v1"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	off, byWords, withVectors := f[1], f[2], f[3]
	random := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // it protects nothing
	ask := func(byMeaning bool) func(n int) (conversation, string) {
		return func(n int) (conversation, string) { return e.chat(asked.number, n), asked.question(random, byMeaning) }
	}
	for _, c := range []struct {
		what   string
		server endpoint
		ask    func(n int) (conversation, string)
		most   *target // of p50
	}{
		{"nothing remembered: added", withVectors, func(n int) (conversation, string) {
			return e.chat(len(e.known.memories), n), asked.question(random, false)
		}, atMost(0.3)},
		{"found by words: added", byWords, ask(false), atMost(4)},
		{"by words, with a vector: added", withVectors, ask(false), nil},
		{"found by meaning: added", withVectors, ask(true), nil},
	} {
		began := time.Now()
		took, err := e.firstDeltasOf(ctx, []endpoint{off, c.server}, e.known.firstDeltas, c.ask)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		g.addAdded(c.what, took[0], took[1], c.most)
		if err := e.noteShown(ctx, g, c.what, began); err != nil {
			return err
		}
	}
	g.note("first deltas: a user with %d memories, chats of %d turns and more; a vector takes its server %v", asked.memories, shortTurns, e.known.embedding)
	return nil
}

// noteShown says how many replies since a time were shown memories, by their receipts.
func (e *environment) noteShown(ctx context.Context, g *group, what string, since time.Time) error {
	var shown, all int
	err := e.admin.QueryRow(ctx, `
		select count(*) filter (where jsonb_array_length(m.metadata->'memory'->'memories') > 0), count(*) from public.messages m
		 where m.role = 'assistant' and m.created_at >= $1 and m.metadata->'memory' ? 'memories'`, since).Scan(&shown, &all)
	g.note("receipts, %s: %d of %d name memories", what[:len(what)-len(": added")], shown, all)
	return err
}

// memoryTimes times the look-up of a turn, by words alone and with a vector that is there, and what an app shows.
func (e *environment) memoryTimes(ctx context.Context, g *group, all []known) error {
	random := rand.New(rand.NewPCG(4, 4)) //nolint:gosec // it protects nothing
	asUser := &arm{work: func(ctx context.Context) error { return e.selectAsUser(ctx, e.conversation(shortChat, 0)) }}
	arms := []*arm{asUser}
	var names []string
	add := func(what string, work func(context.Context) error) {
		names, arms = append(names, what), append(arms, &arm{work: work})
	}
	store, shown := postgres.NewMemories(e.pool), postgres.NewUserMemories(e.pool, postgres.UserMemoriesOptions{})
	lookUp := func(k known, vector bool) func(context.Context) error {
		return func(ctx context.Context) error {
			text := k.question(random, false)
			ask := memories.Ask{Words: recall.Words(text), Names: recall.Names(text), PerWay: 10}
			if vector {
				ask.Vector = recall.Vector{Model: bagOfWords{}.Model(), Values: vectorOf(text)}
			}
			found, err := store.Candidates(ctx, k.principal, ask)
			if err == nil && len(found) == 0 {
				err = errors.New("no memory was found")
			}
			return err
		}
	}
	for _, k := range all {
		add(fmt.Sprintf("look-up of %d memories, words", k.memories), lookUp(k, false))
		add(fmt.Sprintf("look-up of %d, words and vector", k.memories), lookUp(k, true))
	}
	largest := all[len(all)-1]
	for _, c := range []struct{ what, text string }{{"a page of", ""}, {"search in", lexeme(50) + " " + lexeme(3000)}} {
		add(fmt.Sprintf("%s %d memories", c.what, largest.memories), func(ctx context.Context) error {
			_, err := shown.ListMemories(ctx, largest.principal, history.MemoriesQuery{Text: c.text, Status: history.StatusCurrent, Limit: 50})
			return err
		})
	}
	if err := alternate(ctx, e.known.samples, arms...); err != nil {
		return err
	}
	for n, what := range names {
		took := arms[n+1].took
		const half, most = .5, .95
		g.add(
			row{What: what + ", p50", Unit: "ms", Value: took.MS(half), Baseline: asUser.took.MS(half), Against: "one row, as user"},
			row{What: what + ", p95", Unit: "ms", Value: took.MS(most), Baseline: asUser.took.MS(most), Against: "one row, as user"},
		)
	}
	return nil
}
