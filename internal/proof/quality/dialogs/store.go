package dialogs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// bench asks questions about stored dialogs.
type bench struct {
	admin, server *pgxpool.Pool
	embedder      *llm.Embedder // nil without vectors
	questions     *llm.Questions
	embeddings    *postgres.Embeddings
	progress      io.Writer
}

func newBench(ctx context.Context, p *kit.Postgres, embedder *llm.Embedder, progress io.Writer) (b *bench) {
	b = &bench{embedder: embedder, progress: progress, admin: kit.Must(pgxpool.New(ctx, p.AdminDSN()))}
	var err error
	b.server, _, err = postgres.Open(ctx, p.DSN(), 0)
	kit.Check(err)
	b.embeddings = postgres.NewEmbeddings(b.server, recall.VectorSize)
	if embedder != nil {
		b.questions = llm.NewQuestions(embedder)
	}
	kit.Check(kit.Exec(ctx, b.admin, `create unlogged table proof_words (corpus uuid, seq bigint, words tsvector, primary key (corpus, seq))`))
	return b
}

func (b *bench) close() {
	b.server.Close()
	b.admin.Close()
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
		t.rows = append(t.rows, row{way: w})
	}
	for _, d := range s.dialogs {
		c := b.put(ctx, d, put)
		fmt.Fprintf(b.progress, "%s, %s: %d messages, %d questions\n", s.name, d.name, len(d.messages), len(d.questions))
		for _, q := range d.questions {
			for n, way := range ways {
				began := time.Now()
				t.rows[n].add(d, q, way.ask(ctx, c, q), time.Since(began))
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
	vectors := recall.NewVectors(recall.VectorsConfig{
		Store: b.embeddings, Embedder: b.embedder, Metrics: metrics.New(), Logger: slog.New(slog.DiscardHandler), Turn: time.Hour,
	})
	kit.Must(vectors.EmbedTurns(ctx, c.id))
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
	vectors := memories.NewVectors(memories.VectorsConfig{
		Store: b.embeddings, Embedder: b.embedder, Logger: slog.New(slog.DiscardHandler), Turn: time.Hour,
	})
	kit.Must(vectors.EmbedMemories(ctx, c.user.UserID))
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
