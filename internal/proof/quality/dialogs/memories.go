package dialogs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
)

// known is a user with memories, and questions about them.
type known struct {
	name      string
	memories  []observation
	questions []question
	user      auth.Principal
	ids       map[uuid.UUID]int // places in memories
	bm25      *bm25
}

// observation is a sentence about a speaker, and the utterances that it was made of.
type observation struct {
	content  string
	evidence []string
}

// readObservations reads LoCoMo's observations as the memories of a user. A file without them has its utterances instead,
// each as a memory, which are harder: most say nothing by themselves.
func readObservations(path string) (users []*known, what string, err error) {
	var raw []struct {
		locomoDialog

		Observations map[string]map[string][][]any `json:"observation"`
	}
	if err := readJSON(path, &raw); err != nil {
		return nil, "", err
	}
	dialogs, err := readLoCoMo(path, false)
	if err != nil {
		return nil, "", err
	}
	what = "LoCoMo's observations"
	for n, d := range dialogs.dialogs {
		k := &known{name: d.name, questions: d.questions, ids: map[uuid.UUID]int{}, bm25: newBM25()}
		for _, session := range raw[n].Observations {
			for _, sentences := range session {
				for _, pair := range sentences {
					k.memories = append(k.memories, observation{fmt.Sprint(pair[0]), locomoEvidenceOf(pair[1:])})
				}
			}
		}
		if len(raw[n].Observations) == 0 {
			what = "LoCoMo's utterances, each as a memory"
			if k.memories, err = utterances(raw[n].locomoDialog); err != nil {
				return nil, "", err
			}
		}
		users = append(users, k)
	}
	return users, what, nil
}

func locomoEvidenceOf(found []any) []string {
	var ids []string
	for _, match := range locomoEvidence.FindAllStringSubmatch(fmt.Sprint(found...), -1) {
		ids = append(ids, "D"+match[1]+":"+match[2])
	}
	return ids
}

// utterances are those of a dialog with their speakers, each once.
func utterances(d locomoDialog) ([]observation, error) {
	var all []observation
	seen := map[string]bool{}
	for session := 1; d.Conversation[fmt.Sprint("session_", session)] != nil; session++ {
		var turns []locomoTurn
		if err := json.Unmarshal(d.Conversation[fmt.Sprint("session_", session)], &turns); err != nil {
			return nil, err
		}
		for _, t := range turns {
			content := []rune(strings.TrimSpace(t.Speaker + " says: " + t.Text + " " + t.Caption))
			content = content[:min(len(content), memories.MaxContent)]
			if !seen[string(content)] {
				seen[string(content)] = true
				all = append(all, observation{string(content), []string{t.ID}})
			}
		}
	}
	return all, nil
}

// store stores a user's memories with their vectors.
func (b *bench) store(ctx context.Context, k *known) error {
	c := &chat{}
	if err := b.newUser(ctx, c); err != nil {
		return err
	}
	k.user = c.user
	if _, err := b.admin.Exec(ctx, `insert into public.memory_users (user_id) values ($1)`, k.user.UserID); err != nil {
		return err
	}
	for n, m := range k.memories {
		id := uuid.New()
		var words []string
		var counts []int
		err := b.admin.QueryRow(ctx, `with stored as (insert into public.memories (id, user_id, content) values ($1, $2, $3) on conflict do nothing)
			select coalesce(array_agg(lexeme), '{}'), coalesce(array_agg(cardinality(positions)), '{}')
			  from unnest(to_tsvector('throughline.words', throughline.searchable($3)))`,
			id, k.user.UserID, m.content).Scan(&words, &counts)
		if err != nil {
			return err
		}
		k.ids[id] = n
		k.bm25.add(int64(n), words, counts)
	}
	if b.embedder == nil {
		return nil
	}
	vectors := memories.NewVectors(memories.VectorsConfig{Store: b.embeddings, Embedder: b.embedder, Logger: slog.New(slog.DiscardHandler), Turn: time.Hour})
	_, err := vectors.EmbedMemories(ctx, k.user.UserID)
	return err
}

// memoryWay is a way to find memories. It returns their places, best first.
type memoryWay struct {
	name string
	ask  func(context.Context, *known, question) ([]int, error)
	// the sums of the share of the evidence that was found by the first 5 and 10, and how many questions found nothing
	first5, first10 float64
	nothing         int
	took            []time.Duration
}

func (b *bench) memoryWays() []*memoryWay {
	ways := []*memoryWay{{name: "BM25", ask: b.memoriesByBM25}}
	if b.embedder != nil {
		ways = append(ways,
			&memoryWay{name: "S4's letter: cosine of 0.7 and more", ask: b.memoriesByVectors(.7)},
			&memoryWay{name: "vectors alone", ask: b.memoriesByVectors(-1)})
	}
	ways = append(ways, &memoryWay{name: "**memories, words**", ask: b.memoriesByRules(memories.Config{})})
	if b.embedder != nil {
		ways = append(ways, &memoryWay{name: "**memories, words and meaning**", ask: b.memoriesByRules(memories.Config{
			Embedder: b.questions, Scales: recall.NewScales(b.embeddings, b.embedder), NearEnough: .7,
		})})
	}
	return ways
}

const mostMemories = 10

func (b *bench) memoriesByBM25(ctx context.Context, k *known, q question) ([]int, error) {
	var words []string
	if err := b.admin.QueryRow(ctx, `select `+questionWords+` where $1::uuid is not null`, uuid.New(), q.text).Scan(&words); err != nil {
		return nil, err
	}
	var places []int
	for _, place := range k.bm25.rank(words) {
		places = append(places, int(place))
	}
	return places[:min(mostMemories, len(places))], nil
}

func (b *bench) memoriesByVectors(least float64) func(context.Context, *known, question) ([]int, error) {
	return func(ctx context.Context, k *known, q question) ([]int, error) {
		vectors, err := b.questions.Embed(ctx, []string{q.text})
		if err != nil {
			return nil, err
		}
		found, err := postgres.NewMemories(b.server).Candidates(ctx, k.user, memories.Ask{
			Vector: recall.Vector{Model: b.embedder.Model(), Values: vectors[0]}, PerWay: mostMemories,
		})
		slices.SortFunc(found, func(a, b memories.Candidate) int {
			if a.Cosine > b.Cosine {
				return -1
			}
			return 1
		})
		var places []int
		for i := range found {
			if found[i].Cosine >= least {
				places = append(places, k.ids[found[i].ID])
			}
		}
		return places, err
	}
}

// memoriesByRules asks as a prompt does, without its bound of tokens.
func (b *bench) memoriesByRules(config memories.Config) func(context.Context, *known, question) ([]int, error) {
	config.Store, config.Top = postgres.NewMemories(b.server), mostMemories
	retriever := memories.New(config)
	return func(ctx context.Context, k *known, q question) ([]int, error) {
		found, err := retriever.Retrieve(ctx, k.user, memories.Query{Text: q.text, Now: q.at})
		var places []int
		for i := range found {
			places = append(places, k.ids[found[i].ID])
		}
		return places, err
	}
}

// measureMemories asks LoCoMo's questions of memories, and times what they cost.
func (b *bench) measureMemories(ctx context.Context, path string) error {
	users, what, err := readObservations(path)
	if err != nil {
		return err
	}
	ways, stored, asked := b.memoryWays(), 0, 0
	for _, k := range users {
		if err := b.store(ctx, k); err != nil {
			return err
		}
		fmt.Fprintf(b.progress, "%s, %s: %d memories, %d questions\n", what, k.name, len(k.memories), len(k.questions))
		stored, asked = stored+len(k.memories), asked+len(k.questions)
		for _, q := range k.questions {
			for _, way := range ways {
				began := time.Now()
				places, err := way.ask(ctx, k, q)
				if err != nil {
					return fmt.Errorf("%s: %q: %w", way.name, q.text, err)
				}
				way.add(k, q, places, time.Since(began))
			}
		}
	}
	fmt.Fprintf(&b.memories, "%s: %d memories of %d users, %d questions\n\n| evidence, %% | @5 | @10 | of questions nothing | p50 / p95 ms "+
		"|\n|---|---|---|---|---|\n", what, stored, len(users), asked)
	for _, way := range ways {
		fmt.Fprintf(&b.memories, "| %s | %.1f | %.1f | %.1f | %s |\n", way.name,
			100*way.first5/float64(asked), 100*way.first10/float64(asked), 100*float64(way.nothing)/float64(asked), percentilesOf(way.took))
	}
	return b.timeMemories(ctx)
}

func (w *memoryWay) add(k *known, q question, places []int, took time.Duration) {
	share := func(most int) float64 {
		var ids []string
		for _, place := range places[:min(most, len(places))] {
			ids = append(ids, k.memories[place].evidence...)
		}
		return shareFound(ids, q.messages, len(ids))
	}
	w.first5 += share(5)
	w.first10 += share(10)
	if len(places) == 0 {
		w.nothing++
	}
	w.took = append(w.took, took)
}

func percentilesOf(took []time.Duration) string {
	slices.Sort(took)
	ms := func(share float64) float64 { return took[int(share*float64(len(took)-1))].Seconds() * 1000 }
	return fmt.Sprintf("%.1f / %.1f", ms(.5), ms(.95))
}

// timeMemories times the look-up of users with few and many memories, all with vectors.
func (b *bench) timeMemories(ctx context.Context) error {
	b.memories.WriteString("\n| one look-up, p50 / p95 ms | words | words and a vector |\n|---|---|---|\n")
	for _, size := range []int{100, 1000, 5000} {
		c := &chat{}
		if err := b.newUser(ctx, c); err != nil {
			return err
		}
		if _, err := b.admin.Exec(ctx, `insert into public.memory_users (user_id) values ($1)`, c.user.UserID); err != nil {
			return err
		}
		if _, err := b.admin.Exec(ctx, `insert into public.memories (user_id, content, embedding, embedding_model)
			select $1, format('The user met person%s in city%s and talked about subject%s for an hour.', n, n % 100, n % 977),
			       (select '[' || string_agg(round((random() - .5)::numeric / 6.5, 4)::text, ',') || ']'
			          from generate_series(1, 512) where n > 0)::throughline.embedding, 'timed'
			  from generate_series(1, $2::int) n`, c.user.UserID, size); err != nil {
			return err
		}
		if _, err := b.admin.Exec(ctx, `vacuum analyze public.memories`); err != nil {
			return err
		}
		fmt.Fprintf(&b.memories, "| %d memories |", size)
		for _, vector := range []recall.Vector{{}, {Model: "timed", Values: unit()}} {
			var took []time.Duration
			for n := range 120 {
				text := fmt.Sprintf("What did person%d tell me in city%d about subject%d and the hour?", n*7%size, n%100, n)
				began := time.Now()
				if _, err := postgres.NewMemories(b.server).Candidates(ctx, c.user, memories.Ask{
					Words: recall.Words(text), Names: recall.Names(text), Vector: vector, PerWay: mostMemories,
				}); err != nil {
					return err
				}
				if n >= 20 {
					took = append(took, time.Since(began))
				}
			}
			fmt.Fprintf(&b.memories, " %s |", percentilesOf(took))
		}
		b.memories.WriteString("\n")
	}
	b.memories.WriteString("\n")
	return nil
}

func unit() []float32 {
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // it protects nothing
	v := make([]float32, recall.VectorSize)
	for n := range v {
		v[n] = float32((random.Float64() - .5) * math.Sqrt(12./recall.VectorSize))
	}
	return v
}
