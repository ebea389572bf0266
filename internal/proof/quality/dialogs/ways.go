package dialogs

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// How many messages, and how many memories, every way returns.
const (
	most         = 50
	mostMemories = 10
)

// way is a way to find messages or memories. It returns their seqs, best first.
type way struct {
	name    string
	figure  string // the name by which documents quote it
	vectors bool   // it needs them
	ask     ask
}

type ask func(context.Context, *corpus, question) []int64

// ways are those that can be asked, in the order of the table.
func (b *bench) ways(ofMemories bool) []way {
	ways := []way{
		{"`ts_rank`, message and the one before", "recall_ts_rank", false, b.byTSRank},
		{"BM25, message and the one before", "recall_bm25", false, b.byBM25(most)},
		{"vectors alone", "", true, b.byVectors},
		{"BM25 and vectors, plain RRF", "", true, b.byRRF},
		{"**recall, words**", "recall_ours", false, b.byRecall(false)},
		{"**recall, words and meaning**", "recall_ours", true, b.byRecall(true)},
	}
	if ofMemories {
		ways = []way{
			{"BM25", "", false, b.byBM25(mostMemories)},
			{"S4's letter: cosine of 0.7 and more", "", true, b.memoriesByVectors(.7)},
			{"vectors alone", "", true, b.memoriesByVectors(-1)},
			{"**memories, words**", "", false, b.memoriesByRules(false)},
			{"**memories, words and meaning**", "", true, b.memoriesByRules(true)},
		}
	}
	return slices.DeleteFunc(ways, func(w way) bool { return w.vectors && b.embedder == nil })
}

func (b *bench) byRecall(meaning bool) ask {
	config := recall.Config{Store: postgres.NewRecall(b.server)}
	if meaning && b.embedder != nil {
		config.Embedder, config.Scales = b.questions, recall.NewScales(b.embeddings, b.embedder)
	}
	recaller := recall.New(config)
	return func(ctx context.Context, c *corpus, q question) (seqs []int64) {
		var messages []recall.Message
		for _, t := range kit.Must(recaller.Search(ctx, c.user, recall.Query{ChatID: c.id, Text: q.text, Now: c.asked, Limit: most})).Turns {
			messages = append(messages, t.Messages...)
		}
		slices.SortStableFunc(messages, func(a, b recall.Message) int { return cmp.Compare(b.Score, a.Score) })
		for _, m := range messages {
			seqs = append(seqs, m.Seq)
		}
		return seqs
	}
}

// memoriesByRules asks as a prompt does, without its bound of tokens.
func (b *bench) memoriesByRules(meaning bool) ask {
	config := memories.Config{Store: postgres.NewMemories(b.server), Top: mostMemories}
	if meaning && b.embedder != nil {
		config.Embedder, config.Scales, config.NearEnough = b.questions, recall.NewScales(b.embeddings, b.embedder), .7
	}
	retriever := memories.New(config)
	return func(ctx context.Context, c *corpus, q question) (seqs []int64) {
		for _, m := range kit.Must(retriever.Retrieve(ctx, c.user, memories.Query{Text: q.text, Now: c.asked})) {
			seqs = append(seqs, c.memories[m.ID])
		}
		return seqs
	}
}

// vector is that of a question.
func (b *bench) vector(ctx context.Context, q question) recall.Vector {
	vectors := kit.Must(b.questions.Embed(ctx, []string{q.text}))
	return recall.Vector{Model: b.embedder.Model(), Values: vectors[0]}
}

// byVectors ranks turns by their vectors, and gives each turn's messages in their order.
func (b *bench) byVectors(ctx context.Context, c *corpus, q question) (seqs []int64) {
	vector := b.vector(ctx, q)
	near := kit.Must(postgres.NewRecall(b.server).Nearness(ctx, c.user, recall.Scope{ChatID: c.id}, vector))
	slices.SortStableFunc(near.Turns, func(a, b recall.Near) int { return cmp.Compare(b.Cosine, a.Cosine) })
	for _, n := range near.Turns {
		for seq := n.Seq; seq <= n.LastSeq && len(seqs) < most; seq++ {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

func (b *bench) memoriesByVectors(least float64) ask {
	return func(ctx context.Context, c *corpus, q question) (seqs []int64) {
		vector := b.vector(ctx, q)
		found := kit.Must(postgres.NewMemories(b.server).Candidates(ctx, c.user, memories.Ask{Vector: vector, PerWay: mostMemories}))
		slices.SortFunc(found, func(a, b memories.Candidate) int { return cmp.Compare(b.Cosine, a.Cosine) })
		for i := range found {
			if found[i].Cosine >= least {
				seqs = append(seqs, c.memories[found[i].ID])
			}
		}
		return seqs
	}
}

// questionWords are a question's words as the index has them, without English stop words.
const questionWords = `array(select lexeme from unnest(to_tsvector('throughline.words', throughline.searchable($1)))
	where to_tsvector('pg_catalog.english', lexeme) <> '')`

func (b *bench) byTSRank(ctx context.Context, c *corpus, q question) []int64 {
	rows, _ := b.admin.Query(ctx, `with asked as materialized
		(select (select string_agg(quote_literal(w), '|') from unnest(`+questionWords+`) w)::tsquery as query)
		select seq from proof_words, asked where corpus = $2 and words @@ query order by ts_rank(words, query) desc, seq desc limit $3`, q.text, c.id, most)
	return kit.Must(pgx.CollectRows(rows, pgx.RowTo[int64]))
}

func (b *bench) byBM25(limit int) ask {
	return func(ctx context.Context, c *corpus, q question) []int64 {
		var words []string
		kit.Check(b.admin.QueryRow(ctx, `select `+questionWords, q.text).Scan(&words))
		ranked := c.bm25.rank(words)
		return ranked[:min(limit, len(ranked))]
	}
}

// byRRF adds up 1/(60 + place) of the first hundred by BM25 and of those by vectors.
func (b *bench) byRRF(ctx context.Context, c *corpus, q question) []int64 {
	scores := map[int64]float64{}
	for _, ask := range []ask{b.byBM25(2 * most), b.byVectors} {
		for place, seq := range ask(ctx, c, q) {
			scores[seq] += 1 / float64(60+place+1)
		}
	}
	ranked := ordered(scores)
	return ranked[:min(most, len(ranked))]
}

// ordered returns the keys, best first; of equals the newest first.
func ordered(scores map[int64]float64) []int64 {
	return slices.SortedFunc(maps.Keys(scores), func(a, b int64) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(b, a))
	})
}

// bm25 is the usual one, with k1 1.2 and b 0.75.
type bm25 struct {
	counts map[string]map[int64]int
	sizes  map[int64]int
	total  int
}

func newBM25() *bm25 { return &bm25{counts: map[string]map[int64]int{}, sizes: map[int64]int{}} }

func (b *bm25) add(seq int64, words []string, counts []int) {
	for n, word := range words {
		if b.counts[word] == nil {
			b.counts[word] = map[int64]int{}
		}
		b.counts[word][seq] = counts[n]
		b.sizes[seq] += counts[n]
		b.total += counts[n]
	}
}

func (b *bm25) rank(words []string) []int64 {
	const k1, share = 1.2, .75
	documents := float64(len(b.sizes))
	average := float64(b.total) / documents
	scores := map[int64]float64{}
	for _, word := range words {
		holders := float64(len(b.counts[word]))
		rarity := math.Log(1 + (documents-holders+.5)/(holders+.5))
		for seq, count := range b.counts[word] {
			tf := float64(count)
			scores[seq] += rarity * tf * (k1 + 1) / (tf + k1*(1-share+share*float64(b.sizes[seq])/average))
		}
	}
	return ordered(scores)
}
