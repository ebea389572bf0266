package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureRecall measures what it costs to find turns that left the prompt: each reply, each question, each fold, and
// Postgres's disk.
func measureRecall(ctx context.Context, e *environment) (group, error) {
	g := group{Title: "find turns that left the prompt; added: less than RECALL=off, in the same chats"}
	// The servers would make vectors of what other benchmarks have folded.
	if err := errors.Join(e.unfold(ctx), e.fillTalks(ctx)); err != nil {
		return g, fmt.Errorf("fill: %w", err)
	}
	for _, part := range []struct {
		name    string
		measure func(context.Context, *group) error
	}{{"first deltas", e.addedByRecall}, {"topics", e.addedByTopics}, {"questions", e.recallTimes}, {"small talk", e.smallTalk}, {"commits", e.indexedCommits}} {
		if err := part.measure(ctx, &g); err != nil {
			return g, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return g, errors.Join(e.addIndexSize(ctx, &g), e.clearJobs(ctx))
}

// The servers of addedByRecall, by their place.
const (
	recallOff = iota
	recallByWords
	recallWithVectors
)

// addedByRecall times first deltas of servers with and without recall, by turns.
func (e *environment) addedByRecall(ctx context.Context, g *group) (err error) {
	embedder := &slowEmbedder{takes: e.recall.embedding}
	address, stop, err := kit.Serve(ctx, embedder, 0)
	if err != nil {
		return err
	}
	defer stop()
	f, err := e.startServers(ctx,
		map[string]string{"RECALL": "off"},
		map[string]string{"EMBEDDING_MODEL": "none"},
		map[string]string{"EMBEDDING_MODEL": bagOfWords{}.Model(), "EMBEDDING_BASE_URL": address + "/v1"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	servers := f[1:]
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // it protects nothing
	ask := func(byMeaning bool) func(n int) (conversation, string) {
		return func(n int) (conversation, string) {
			asked := e.talks.asked[n%len(e.talks.asked)]
			return asked.conversation, asked.question(random, byMeaning)
		}
	}
	for _, c := range []struct {
		what   string
		server int
		ask    func(n int) (conversation, string)
		most   *target // of p50
	}{
		{"nothing to recall: added", recallWithVectors, func(int) (conversation, string) { return e.next(), "What is new? Say tokens=1" }, atMost(0.3)},
		{"found by words: added", recallByWords, ask(false), atMost(4)},
		{"by words, with a vector: added", recallWithVectors, ask(false), nil},
		{"found by meaning: added", recallWithVectors, ask(true), nil},
	} {
		began := time.Now()
		took, err := e.firstDeltasOf(ctx, []endpoint{servers[recallOff], servers[c.server]}, e.recall.firstDeltas, c.ask)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		g.addAdded(c.what, took[0], took[1], c.most)
		if err := e.noteReceipts(ctx, g, c.what, began); err != nil {
			return err
		}
	}
	g.note("asked in chats of %d turns, all but %d of them folded; a vector takes its server %v", e.recall.askedTurns, shortTurns, e.recall.embedding)
	return nil
}

// addAdded adds by how much later a first delta comes than without something. most is the target of p50, or nil.
func (g *group) addAdded(what string, without, with kit.Times, most *target) {
	for _, p := range percentiles {
		r := row{What: what + ", " + p.name, Unit: "ms", Value: with.MS(p.q) - without.MS(p.q), Baseline: without.MS(p.q), Against: "first delta, off"}
		if p.q == .5 {
			r.Target = most
		}
		g.add(r)
	}
}

// startServers starts a model and a server with each of the settings behind it.
func (e *environment) startServers(ctx context.Context, settings ...map[string]string) (fleet, error) {
	f, err := e.startFleet(ctx, role{})
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		helper, err := startRole(ctx, role{Kind: roleServer, Database: e.at.server, Model: f[0].Address, Settings: s})
		if err != nil {
			return nil, errors.Join(err, f.stop())
		}
		f = append(f, endpoint{Helper: helper, name: roleServer, ours: true})
	}
	return f, nil
}

// firstDeltasOf sends each question to all servers, in the same chat, and returns the times to the first deltas. Each
// server comes first as often as the others: the first one finds the chat less often in Postgres's memory.
func (e *environment) firstDeltasOf(ctx context.Context, servers []endpoint, count int, ask func(n int) (conversation, string)) ([]kit.Times, error) {
	took := make([]kit.Times, len(servers))
	connections := make([]*connection, len(servers))
	for i, s := range servers {
		var err error
		if connections[i], err = s.connect(ctx); err != nil {
			return nil, err
		}
		defer func() { _ = connections[i].Close() }()
	}
	warm := count / 5 // see firsts
	for n := range warm + count {
		c, question := ask(n)
		for turn := range servers {
			i := (n + turn) % len(servers)
			const tokens = 1
			found, err := connections[i].talk(newClient(c).post(question), tokens)
			if err != nil {
				return nil, err
			}
			if n >= warm {
				took[i] = append(took[i], found.first)
			}
		}
	}
	return took, nil
}

// noteReceipts says how the questions since a time were answered, by the receipts of their replies.
func (e *environment) noteReceipts(ctx context.Context, g *group, what string, since time.Time) error {
	rows, err := e.admin.Query(ctx, `
		select m.metadata->'memory'->>'recall', count(*) from public.messages m
		 where m.role = 'assistant' and m.created_at >= $1 and m.metadata->'memory' ? 'recall' group by 1 order by 2 desc, 1`, since)
	if err != nil {
		return err
	}
	var results []string
	var result string
	var count int
	for rows.Next() {
		if err := rows.Scan(&result, &count); err != nil {
			return err
		}
		results = append(results, fmt.Sprintf("%d %s", count, result))
	}
	name, _, _ := strings.Cut(what, ":")
	g.note("receipts, %s: %s", name, strings.Join(results, ", "))
	return rows.Err()
}

// recallTimes times recall alone: in chats of several lengths and in all chats, by words and with a vector that is there.
func (e *environment) recallTimes(ctx context.Context, g *group) error {
	random := rand.New(rand.NewPCG(2, 2)) //nolint:gosec // it protects nothing
	store := postgres.NewRecall(e.pool)
	byWords := recall.New(recall.Config{Store: store})
	withVectors := recall.New(recall.Config{Store: store, Embedder: bagOfWords{}, Scales: recall.NewScales(postgres.NewEmbeddings(e.pool, recall.VectorSize), bagOfWords{})})
	asUser := &arm{work: func(ctx context.Context) error { return e.selectAsUser(ctx, e.conversation(shortChat, 0)) }}
	arms := []*arm{asUser}
	found := 0
	add := func(r *recall.Recaller, t talk, query recall.Query) *arm {
		a := &arm{work: func(ctx context.Context) error {
			query.Text = t.question(random, false)
			result, err := r.Recall(ctx, t.principal, query)
			found += min(len(result.Turns), 1)
			return err
		}}
		arms = append(arms, a)
		return a
	}
	type pair struct {
		what           string
		words, vectors *arm
		most           *target // of p95
	}
	var pairs []pair
	limits := map[int]*target{2000: atMost(10), 20_000: atMost(40)}
	for _, t := range e.talks.searched {
		query := recall.Query{ChatID: t.id, Before: int64(t.covered()) + 1, Now: time.Now(), Limit: recall.SectionTurns}
		pairs = append(pairs, pair{fmt.Sprintf("%d turns", t.turns), add(byWords, t, query), add(withVectors, t, query), limits[t.turns]})
	}
	everywhere := recall.Query{ChatID: uuid.Nil, Now: time.Now(), Limit: recall.SectionTurns}
	pairs = append(pairs, pair{"all chats", add(byWords, e.talks.asked[0], everywhere), add(withVectors, e.talks.asked[0], everywhere), nil})
	if err := alternate(ctx, e.recall.samples, arms...); err != nil {
		return err
	}
	for _, p := range pairs {
		const half, most = .5, .95
		g.add(
			row{What: p.what + ", words, p50", Unit: "ms", Value: p.words.took.MS(half), Baseline: asUser.took.MS(half), Against: "one row, as user"},
			row{What: p.what + ", words, p95", Unit: "ms", Value: p.words.took.MS(most), Baseline: asUser.took.MS(most), Against: "one row, as user", Target: p.most},
			row{What: p.what + ", words and vectors, p50", Unit: "ms", Value: p.vectors.took.MS(half), Baseline: p.words.took.MS(half), Against: "words"},
			row{What: p.what + ", words and vectors, p95", Unit: "ms", Value: p.vectors.took.MS(most), Baseline: p.words.took.MS(most), Against: "words", Target: p.most},
		)
	}
	asked := (len(arms) - 1) * len(asUser.took)
	g.note("recall alone: %d other chats of the user beside, %d turns in all; %d of %d questions found something",
		e.recall.others, e.talks.withVectors.turns, min(found, asked), asked)
	return nil
}

// countedRecall counts what a Recaller asks for.
type countedRecall struct {
	recall.Store
	bagOfWords
	trips, vectors atomic.Int64
}

func (c *countedRecall) Matches(ctx context.Context, user auth.Principal, in recall.Scope, words [][]string) (recall.Matches, error) {
	c.trips.Add(1)
	return c.Store.Matches(ctx, user, in, words)
}

func (c *countedRecall) Nearness(ctx context.Context, user auth.Principal, in recall.Scope, vector recall.Vector) (recall.Nearby, error) {
	c.trips.Add(1)
	return c.Store.Nearness(ctx, user, in, vector)
}

func (c *countedRecall) Texts(ctx context.Context, user auth.Principal, turns []recall.Span, topic uuid.UUID) (
	map[recall.TurnID][]recall.Message, *recall.Topic, error,
) {
	c.trips.Add(1)
	return c.Store.Texts(ctx, user, turns, topic)
}

func (c *countedRecall) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.vectors.Add(1)
	return c.bagOfWords.Embed(ctx, texts)
}

var smallTalk = []string{
	"ok", "ok, thanks", "Thanks!", "thank you so much", "hi", "Hello!", "hey there", "good morning", "good night", "bye", "see you tomorrow",
	"yes", "no", "sure", "yes please", "no, thanks", "great", "cool", "nice", "wow", "hm", "lol", "I see", "got it", "makes sense",
	"how are you?", "What do you think?", "really?", "why?", "and then?", "go on", "continue", "please go on", "one more", "again please",
	"danke", "danke schön", "guten Morgen", "alles klar", "wie geht's?", "merci", "bonjour", "ça va ?", "d'accord", "gracias", "hola", "vale",
	"grazie", "ciao", "va bene", "obrigado", "bom dia", "tudo bem?", "👍", "🙏", ":-)", "...",
}

// smallTalk counts the trips to Postgres and the vectors that small talk costs.
func (e *environment) smallTalk(ctx context.Context, g *group) error {
	c := &countedRecall{Store: postgres.NewRecall(e.pool)}
	recaller := recall.New(recall.Config{Store: c, Embedder: c, Scales: recall.NewScales(postgres.NewEmbeddings(e.pool, recall.VectorSize), c)})
	asked := e.talks.asked[0]
	for _, content := range smallTalk {
		query := recall.Query{ChatID: asked.id, Text: content, Before: int64(asked.covered()) + 1, Now: time.Now(), Limit: recall.SectionTurns}
		if _, err := recaller.Recall(ctx, asked.principal, query); err != nil {
			return err
		}
	}
	of := fmt.Sprintf("of %d", len(smallTalk))
	g.add(
		row{What: "small talk: second trips", Unit: of, Value: float64(c.trips.Load()), Target: atMost(0)},
		row{What: "small talk: vectors asked for", Unit: of, Value: float64(c.vectors.Load()), Target: atMost(0)},
	)
	return nil
}

// addIndexSize adds what the index takes on disk, beside the texts.
func (e *environment) addIndexSize(ctx context.Context, g *group) error {
	ids := make([]uuid.UUID, 0, len(e.talks.searched))
	for _, t := range slices.Concat(e.talks.searched, e.talks.asked) {
		ids = append(ids, t.id)
	}
	var texts float64
	err := e.admin.QueryRow(ctx, `
		select 2 * avg(octet_length(content)) from public.messages where chat_id = any($1) and created_at < now() - interval '1 hour'`, ids).Scan(&texts)
	if err != nil {
		return err
	}
	bare, whole := e.talks.bare, e.talks.withVectors
	g.add(
		row{What: "index of a turn, words", Unit: "bytes", Value: bare.perTurn(), Baseline: texts, Against: "its text"},
		row{What: "index of a turn, words and vector", Unit: "bytes", Value: whole.perTurn(), Baseline: texts, Against: "its text"},
	)
	g.note("index: %d bytes of rows and %d of indexes a turn without vectors, %d and %d with them, without free space",
		bare.table/bare.turns, bare.indexes/bare.turns, whole.table/whole.turns, whole.indexes/whole.turns)
	return nil
}
