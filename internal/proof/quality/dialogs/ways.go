package dialogs

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
)

// most is how many messages every way returns.
const most = 50

// way is a way to find messages. It returns their seqs, best first.
type way struct {
	name string
	ask  func(context.Context, *chat, question) ([]int64, error)
}

func (b *bench) ways() []way {
	ways := []way{
		{"`ts_rank`, message and the one before", b.byTSRank},
		{"BM25, message and the one before", b.byBM25},
	}
	if b.embedder != nil {
		ways = append(ways, way{"vectors alone", b.byVectors}, way{"BM25 and vectors, plain RRF", b.byRRF})
	}
	ways = append(ways, way{"**recall, words**", b.byRecall(recall.Config{})})
	if b.embedder != nil {
		ways = append(ways, way{"**recall, words and meaning**", b.byRecall(recall.Config{
			Embedder: b.questions, Scales: recall.NewScales(b.embeddings, b.embedder),
		})})
	}
	return ways
}

func (b *bench) byRecall(config recall.Config) func(context.Context, *chat, question) ([]int64, error) {
	config.Store = postgres.NewRecall(b.server)
	recaller := recall.New(config)
	return func(ctx context.Context, c *chat, q question) ([]int64, error) {
		found, err := recaller.Search(ctx, c.user, recall.Query{ChatID: c.id, Text: q.text, Now: q.at, Limit: most})
		var messages []recall.Message
		for _, t := range found.Turns {
			messages = append(messages, t.Messages...)
		}
		slices.SortStableFunc(messages, func(a, b recall.Message) int { return cmp.Compare(b.Score, a.Score) })
		seqs := make([]int64, len(messages))
		for n, m := range messages {
			seqs[n] = m.Seq
		}
		return seqs, err
	}
}

// questionWords are a question's words as the index has them, without English stop words.
const questionWords = `array(select lexeme from unnest(to_tsvector('throughline.words', throughline.searchable($2)))
	where to_tsvector('pg_catalog.english', lexeme) <> '')`

// prepareBaselines keeps the words of each message, and of each with the one before.
func (b *bench) prepareBaselines(ctx context.Context, c *chat) error {
	_, err := b.admin.Exec(ctx, `insert into proof_words
		select chat_id, seq, own, coalesce(lag(own) over (order by seq), '') || own
		  from (select chat_id, seq, to_tsvector('throughline.words', throughline.searchable(content)) as own from public.messages where chat_id = $1) m`, c.id)
	if err != nil {
		return err
	}
	rows, err := b.admin.Query(ctx, `select w.seq, coalesce(l.lexemes, '{}'), coalesce(l.counts, '{}') from proof_words w,
		lateral (select array_agg(lexeme) as lexemes, array_agg(cardinality(positions)) as counts from unnest(w.both_turns)) l
		where w.chat_id = $1 order by w.seq`, c.id)
	if err != nil {
		return err
	}
	c.bm25 = newBM25()
	var seq int64
	var lexemes []string
	var counts []int
	_, err = pgx.ForEachRow(rows, []any{&seq, &lexemes, &counts}, func() error {
		c.bm25.add(seq, lexemes, counts)
		return nil
	})
	return err
}

func (b *bench) seqs(ctx context.Context, sql string, args ...any) ([]int64, error) {
	rows, err := b.admin.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

func (b *bench) byTSRank(ctx context.Context, c *chat, q question) ([]int64, error) {
	return b.seqs(ctx, `with asked as materialized (select (select string_agg(quote_literal(w), '|') from unnest(`+questionWords+`) w)::tsquery as query)
		select seq from proof_words, asked where chat_id = $1 and both_turns @@ query
		order by ts_rank(both_turns, query) desc, seq desc limit $3`, c.id, q.text, most)
}

func (b *bench) byBM25(ctx context.Context, c *chat, q question) ([]int64, error) {
	return b.bm25Ranked(ctx, c, q, most)
}

func (b *bench) bm25Ranked(ctx context.Context, c *chat, q question, limit int) ([]int64, error) {
	var words []string
	err := b.admin.QueryRow(ctx, `select `+questionWords+` where $1::uuid is not null`, c.id, q.text).Scan(&words)
	ranked := c.bm25.rank(words)
	return ranked[:min(limit, len(ranked))], err
}

// byVectors ranks turns by their vectors, and gives each turn's messages in their order.
func (b *bench) byVectors(ctx context.Context, c *chat, q question) ([]int64, error) {
	vectors, err := b.questions.Embed(ctx, []string{q.text})
	if err != nil {
		return nil, err
	}
	near, err := postgres.NewRecall(b.server).Nearness(ctx, c.user, recall.Scope{ChatID: c.id}, recall.Vector{Model: b.embedder.Model(), Values: vectors[0]})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(near.Turns, func(a, b recall.Near) int { return cmp.Compare(b.Cosine, a.Cosine) })
	var seqs []int64
	for _, n := range near.Turns {
		for seq := n.Seq; seq <= n.LastSeq && len(seqs) < most; seq++ {
			seqs = append(seqs, seq)
		}
	}
	return seqs, nil
}

// byRRF adds up 1/(60 + place) of the first hundred by BM25 and of those by vectors.
func (b *bench) byRRF(ctx context.Context, c *chat, q question) ([]int64, error) {
	words, err := b.bm25Ranked(ctx, c, q, 2*most)
	if err != nil {
		return nil, err
	}
	vectors, err := b.byVectors(ctx, c, q)
	if err != nil {
		return nil, err
	}
	scores := map[int64]float64{}
	for _, ranked := range [][]int64{words, vectors} {
		for place, seq := range ranked {
			scores[seq] += 1 / float64(60+place+1)
		}
	}
	ranked := ordered(scores)
	return ranked[:min(most, len(ranked))], nil
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
