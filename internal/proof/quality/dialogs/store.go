package dialogs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

type bench struct {
	admin, server, worker *pgxpool.Pool
	embedder              *llm.Embedder     // nil without vectors
	questions             *recall.Questions // nil without vectors
	embeddings            *postgres.Embeddings
	progress              io.Writer
}

func newBench(ctx context.Context, p *kit.Postgres, embedder *llm.Embedder, progress io.Writer) (b *bench) {
	b = &bench{embedder: embedder, progress: progress, admin: kit.Must(pgxpool.New(ctx, p.AdminDSN()))}
	for dsn, pool := range map[string]**pgxpool.Pool{p.ServerDSN(): &b.server, p.DSN(): &b.worker} {
		opened, _, err := postgres.Open(ctx, dsn, 0)
		kit.Check(err)
		*pool = opened
	}
	b.embeddings = &postgres.Embeddings{Pool: b.worker}
	if embedder != nil {
		b.questions = &recall.Questions{Embedder: embedder, Scales: recall.NewScales(b.embeddings, embedder)}
	}
	kit.Check(kit.Exec(ctx, b.admin, `create unlogged table proof_words (corpus uuid, seq bigint, words tsvector, primary key (corpus, seq))`))
	return b
}

// corpus is a dialog that is stored: as a chat, or each of its messages as a memory of its user.
type corpus struct {
	*dialog
	id       uuid.UUID // of the chat
	user     auth.Principal
	memories map[uuid.UUID]int64 // seqs of memories
	bm25     *bm25
}

// measure stores a set's dialogs and asks all of its questions in every way.
func (b *bench) measure(ctx context.Context, s *set) *table {
	defer kit.In("%s", s.name)
	t := &table{set: s}
	ways, put := b.ways(s.asMemories), b.putChat
	if s.asMemories {
		put = b.putMemories
	}
	for _, w := range ways {
		t.rows = append(t.rows, row{way: w, kinds: make([]row, len(kinds))})
	}
	for _, d := range s.dialogs {
		c := b.put(ctx, d, put)
		fmt.Fprintf(b.progress, "%s, %s: %d messages, %d questions\n", s.name, d.name, len(d.messages), len(d.questions))
		for _, q := range d.questions {
			for n, way := range ways {
				began := time.Now()
				found := way.ask(ctx, c, q)
				took, section := time.Since(began), ""
				if way.quote != nil {
					section = way.quote(ctx, c, q)
				}
				t.rows[n].addAll(d, q, found, took, section)
			}
		}
	}
	return t
}

// put stores a dialog of a new user, and what the baselines need of it.
func (b *bench) put(ctx context.Context, d *dialog, put func(context.Context, *corpus)) *corpus {
	user, _, err := kit.NewUser(ctx, b.admin)
	kit.Check(err)
	c := &corpus{dialog: d, id: uuid.New(), bm25: newBM25()}
	c.user = auth.Principal{UserID: user, Claims: fmt.Sprintf(`{"sub":%q,"role":"authenticated"}`, user)}
	put(ctx, c)
	b.prepareBaselines(ctx, c)
	return c
}

// putChat stores a dialog as a chat, indexes it, and makes its vectors.
func (b *bench) putChat(ctx context.Context, c *corpus) {
	var roles, contents []string
	var times []time.Time
	for _, m := range c.messages {
		roles, contents, times = append(roles, m.role), append(contents, m.content), append(times, m.at)
	}
	kit.Must(b.admin.Exec(ctx, `insert into public.chats (id, user_id, title) values ($1, $2, 'a dialog')`, c.id, c.user.UserID))
	kit.Must(b.admin.Exec(ctx, `insert into public.messages (chat_id, user_id, role, content, created_at)
		select $1, $2, role, content, at from unnest($3::text[], $4::text[], $5::timestamptz[]) with ordinality m (role, content, at, place) order by place`,
		c.id, c.user.UserID, roles, contents, times))
	for more := true; more; {
		kit.Check(b.admin.QueryRow(ctx, `select throughline.index_turns($2, null) from (select set_config('request.jwt.claims', $1, false)) acting`,
			c.user.Claims, c.id).Scan(&more))
	}
	if b.embedder == nil {
		return
	}
	b.embed(ctx, "turns", &postgres.TurnVectors{Pool: b.worker}, c.id)
}

func (b *bench) embed(ctx context.Context, things string, store recall.VectorStore, owner uuid.UUID) {
	vectors := &recall.Vectors{
		Things: things, Store: store, Embedder: b.embedder, Scales: []*recall.Scales{recall.NewScales(b.embeddings, b.embedder)},
		Logger: slog.New(slog.DiscardHandler), Rest: recall.NewRest(0, 0, slog.New(slog.DiscardHandler)), Turn: time.Hour,
	}
	kit.Must(vectors.Embed(ctx, owner, 1))
}

// putMemories stores each message as a memory, with its vector.
func (b *bench) putMemories(ctx context.Context, c *corpus) {
	kit.Must(b.admin.Exec(ctx, `insert into public.memory_users (user_id) values ($1)`, c.user.UserID))
	c.memories = map[uuid.UUID]int64{}
	for n, m := range c.messages {
		id := uuid.New()
		c.memories[id] = int64(n + 1)
		kit.Must(b.admin.Exec(ctx, `insert into public.memories (id, user_id, content) values ($1, $2, $3) on conflict do nothing`,
			id, c.user.UserID, m.content))
	}
	if b.embedder == nil {
		return
	}
	b.embed(ctx, "memories", &postgres.MemoryVectors{Pool: b.worker}, c.user.UserID)
}

// prepareBaselines keeps the words of each message together with the one before, and those of each memory.
func (b *bench) prepareBaselines(ctx context.Context, c *corpus) {
	contents := make([]string, len(c.messages))
	for n, m := range c.messages {
		contents[n] = m.content
	}
	rows, _ := b.admin.Query(ctx, `with added as (insert into proof_words
		select $1, seq, case when $3 then coalesce(lag(own) over (order by seq), '') else '' end || own
		  from (select seq, to_tsvector('throughline.words', throughline.searchable(content)) as own
		          from unnest($2::text[]) with ordinality m (content, seq)) w returning seq, words)
		select seq, coalesce(l.lexemes, '{}'), coalesce(l.counts, '{}') from added,
		lateral (select array_agg(lexeme) as lexemes, array_agg(cardinality(positions)) as counts from unnest(words)) l order by seq`,
		c.id, contents, c.memories == nil) // ForEachRow has the error
	var seq int64
	var lexemes []string
	var counts []int
	kit.Must(pgx.ForEachRow(rows, []any{&seq, &lexemes, &counts}, func() error {
		c.bm25.add(seq, lexemes, counts)
		return nil
	}))
}

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
	quote   quote // what a prompt quotes; nil for what makes no prompt
}

type ask func(context.Context, *corpus, question) []int64

// quote returns the section that a prompt has for a question.
type quote func(context.Context, *corpus, question) string

// ways are those that can be asked, in the order of the table.
func (b *bench) ways(ofMemories bool) []way {
	byWords, quoteByWords := b.byRecall(false)
	byMeaning, quoteByMeaning := b.byRecall(true)
	ways := []way{
		{"`ts_rank`, message and the one before", "recall_ts_rank", false, b.byTSRank, nil},
		{"BM25, message and the one before", "recall_bm25", false, b.byBM25(most), nil},
		{"vectors alone", "", true, b.byVectors, nil},
		{"BM25 and vectors, plain RRF", "", true, b.byRRF, nil},
		{"**recall, words**", "recall_ours", false, byWords, quoteByWords},
		{"**recall, words and meaning**", "recall_ours", true, byMeaning, quoteByMeaning},
	}
	if ofMemories {
		ways = []way{
			{"BM25", "", false, b.byBM25(mostMemories), nil},
			{"S4's letter: cosine of 0.7 and more", "", true, b.memoriesByVectors(.7), nil},
			{"vectors alone", "", true, b.memoriesByVectors(-1), nil},
			{"**memories, words**", "", false, b.memoriesByRules(false), nil},
			{"**memories, words and meaning**", "", true, b.memoriesByRules(true), nil},
		}
	}
	return slices.DeleteFunc(ways, func(w way) bool { return w.vectors && b.embedder == nil })
}

func (b *bench) byRecall(meaning bool) (ask, quote) {
	recaller := &recall.Recaller{Store: &postgres.Recall{Pool: b.server}}
	if meaning {
		recaller.Questions = b.questions
	}
	quote := func(ctx context.Context, c *corpus, q question) string {
		found := kit.Must(recaller.Recall(ctx, c.user, recall.Query{ChatID: c.id, Text: q.text, Now: c.asked, Limit: recall.SectionTurns}))
		section, _, _ := recall.Section(found.Turns, recall.SectionTokens)
		return section
	}
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
	}, quote
}

// memoriesByRules asks as a prompt does, without its bound of tokens.
func (b *bench) memoriesByRules(meaning bool) ask {
	retriever := &longterm.Retriever{Store: &postgres.Memories{Pool: b.server}, Tokens: longterm.SectionTokens}
	if meaning {
		retriever.Questions = b.questions
	}
	return func(ctx context.Context, c *corpus, q question) (seqs []int64) {
		tooMany := memory.Memories{On: true, Active: memory.MostFirst + 1} // more than a prompt shows without a search
		found := kit.Must(retriever.Retrieve(ctx, c.user, longterm.Query{Text: q.text, Known: tooMany, Now: c.asked}))
		for _, m := range found[:min(len(found), mostMemories)] {
			seqs = append(seqs, c.memories[m.ID])
		}
		return seqs
	}
}

func (b *bench) vector(ctx context.Context, q question) recall.Vector {
	vector, _, err := b.questions.Vector(ctx, recall.Question{Text: q.text}, true)
	kit.Check(err)
	return vector
}

// byVectors ranks turns by their vectors, and gives each turn's messages in their order.
func (b *bench) byVectors(ctx context.Context, c *corpus, q question) (seqs []int64) {
	vector := b.vector(ctx, q)
	near := kit.Must((&postgres.Recall{Pool: b.server}).Nearness(ctx, c.user, recall.Query{ChatID: c.id}, vector, nil))
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
		found := kit.Must((&postgres.Memories{Pool: b.server}).Candidates(ctx, c.user, longterm.Ask{Vector: vector, PerWay: mostMemories}))
		slices.SortFunc(found, func(a, b longterm.Found) int { return cmp.Compare(b.Cosine, a.Cosine) })
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
