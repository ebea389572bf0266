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

func newBench(ctx context.Context, p *kit.Postgres, embedder *llm.Embedder, progress io.Writer) (b *bench, err error) {
	b = &bench{embedder: embedder, progress: progress}
	if b.admin, err = pgxpool.New(ctx, p.AdminDSN()); err != nil {
		return nil, err
	}
	if b.server, _, err = postgres.Open(ctx, p.DSN(), 0); err != nil {
		return nil, err
	}
	b.embeddings = postgres.NewEmbeddings(b.server, recall.VectorSize)
	if embedder != nil {
		b.questions = llm.NewQuestions(embedder)
	}
	return b, kit.Exec(ctx, b.admin, `create unlogged table proof_words (corpus uuid, seq bigint, words tsvector, primary key (corpus, seq))`)
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
func (b *bench) measure(ctx context.Context, s *set) (*table, error) {
	t := &table{set: s}
	ways, put := b.ways(s.asMemories), b.putChat
	if s.asMemories {
		put = b.putMemories
	}
	for _, w := range ways {
		t.rows = append(t.rows, row{way: w})
	}
	for _, d := range s.dialogs {
		c, err := b.put(ctx, d, put)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.progress, "%s, %s: %d messages, %d questions\n", s.name, d.name, len(d.messages), len(d.questions))
		for _, q := range d.questions {
			for n, way := range ways {
				began := time.Now()
				found, err := way.ask(ctx, c, q)
				if err != nil {
					return nil, fmt.Errorf("%s: %q: %w", way.name, q.text, err)
				}
				t.rows[n].add(d, q, found, time.Since(began))
			}
		}
	}
	return t, nil
}

// put stores a dialog of a new user, and what the baselines need of it.
func (b *bench) put(ctx context.Context, d *dialog, put func(context.Context, *corpus) error) (*corpus, error) {
	user, _, err := kit.NewUser(ctx, b.admin)
	if err != nil {
		return nil, err
	}
	c := &corpus{dialog: d, id: uuid.New(), bm25: newBM25()}
	c.user = auth.Principal{UserID: user, Claims: fmt.Sprintf(`{"sub":%q,"role":"authenticated"}`, user)}
	if err := put(ctx, c); err != nil {
		return nil, err
	}
	return c, b.prepareBaselines(ctx, c)
}

// putChat stores a dialog as a chat, indexes it, and makes its vectors.
func (b *bench) putChat(ctx context.Context, c *corpus) error {
	var roles, contents []string
	var times []time.Time
	for _, m := range c.messages {
		roles, contents, times = append(roles, m.role), append(contents, m.content), append(times, m.at)
	}
	if _, err := b.admin.Exec(ctx, `insert into public.chats (id, user_id, title) values ($1, $2, 'a dialog')`, c.id, c.user.UserID); err != nil {
		return err
	}
	if _, err := b.admin.Exec(ctx, `insert into public.messages (chat_id, user_id, role, content, created_at)
		select $1, $2, role, content, at from unnest($3::text[], $4::text[], $5::timestamptz[]) with ordinality m (role, content, at, place) order by place`,
		c.id, c.user.UserID, roles, contents, times); err != nil {
		return err
	}
	for more := true; more; {
		err := b.admin.QueryRow(ctx, `select throughline.index_turns($2, null) from (select set_config('request.jwt.claims', $1, false)) acting`,
			c.user.Claims, c.id).Scan(&more)
		if err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	if b.embedder == nil {
		return nil
	}
	vectors := recall.NewVectors(recall.VectorsConfig{
		Store: b.embeddings, Embedder: b.embedder, Metrics: metrics.New(), Logger: slog.New(slog.DiscardHandler), Turn: time.Hour,
	})
	_, err := vectors.EmbedTurns(ctx, c.id)
	return err
}

// putMemories stores each message as a memory, with its vector.
func (b *bench) putMemories(ctx context.Context, c *corpus) error {
	if _, err := b.admin.Exec(ctx, `insert into public.memory_users (user_id) values ($1)`, c.user.UserID); err != nil {
		return err
	}
	c.memories = map[uuid.UUID]int64{}
	for n, m := range c.messages {
		id := uuid.New()
		c.memories[id] = int64(n + 1)
		_, err := b.admin.Exec(ctx, `insert into public.memories (id, user_id, content) values ($1, $2, $3) on conflict do nothing`,
			id, c.user.UserID, m.content)
		if err != nil {
			return err
		}
	}
	if b.embedder == nil {
		return nil
	}
	vectors := memories.NewVectors(memories.VectorsConfig{
		Store: b.embeddings, Embedder: b.embedder, Logger: slog.New(slog.DiscardHandler), Turn: time.Hour,
	})
	_, err := vectors.EmbedMemories(ctx, c.user.UserID)
	return err
}

// prepareBaselines keeps the words of each message together with the one before, and those of each memory.
func (b *bench) prepareBaselines(ctx context.Context, c *corpus) error {
	contents := make([]string, len(c.messages))
	for n, m := range c.messages {
		contents[n] = m.content
	}
	rows, err := b.admin.Query(ctx, `with added as (insert into proof_words
		select $1, seq, case when $3 then coalesce(lag(own) over (order by seq), '') else '' end || own
		  from (select seq, to_tsvector('throughline.words', throughline.searchable(content)) as own
		          from unnest($2::text[]) with ordinality m (content, seq)) w returning seq, words)
		select seq, coalesce(l.lexemes, '{}'), coalesce(l.counts, '{}') from added,
		lateral (select array_agg(lexeme) as lexemes, array_agg(cardinality(positions)) as counts from unnest(words)) l order by seq`,
		c.id, contents, c.memories == nil)
	if err != nil {
		return err
	}
	var seq int64
	var lexemes []string
	var counts []int
	_, err = pgx.ForEachRow(rows, []any{&seq, &lexemes, &counts}, func() error {
		c.bm25.add(seq, lexemes, counts)
		return nil
	})
	return err
}
