package dialogs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/llm"
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
	host          []string
	tables        []table
	memories      strings.Builder // the tables of memories
	progress      io.Writer
}

func newBench(ctx context.Context, p *kit.Postgres, embedderURL string, progress io.Writer) (*bench, error) {
	b := &bench{progress: progress}
	var err error
	if b.admin, err = pgxpool.New(ctx, p.AdminDSN()); err != nil {
		return nil, err
	}
	if b.server, _, err = postgres.Open(ctx, p.DSN(), 0); err != nil {
		return nil, err
	}
	if b.host, err = kit.Describe(ctx, b.admin); err != nil {
		return nil, err
	}
	b.embeddings = postgres.NewEmbeddings(b.server, recall.VectorSize)
	if embedderURL != "" {
		b.embedder = llm.NewEmbedder(llm.EmbedderConfig{BaseURL: embedderURL, APIKey: "none", Model: embedder.Model})
		b.questions = llm.NewQuestions(b.embedder)
	}
	return b, kit.Exec(ctx, b.admin, `create unlogged table proof_words (chat_id uuid, seq bigint, own tsvector, both_turns tsvector, primary key (chat_id, seq))`)
}

func (b *bench) close() {
	b.server.Close()
	b.admin.Close()
	if b.embedder != nil {
		b.embedder.Close()
	}
}

// chat is a stored dialog.
type chat struct {
	*dialog
	id   uuid.UUID
	user auth.Principal
	bm25 *bm25
}

// measure stores a set's dialogs and asks all of its questions in every way.
func (b *bench) measure(ctx context.Context, s *set) error {
	t := table{name: s.name}
	ways := b.ways()
	for _, way := range ways {
		t.rows = append(t.rows, row{way: way.name})
	}
	for _, d := range s.dialogs {
		c, err := b.put(ctx, d)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.progress, "%s, %s: %d messages, %d questions\n", s.name, d.name, len(d.messages), len(d.questions))
		t.messages += len(d.messages)
		t.questions += len(d.questions)
		for _, q := range d.questions {
			for n, way := range ways {
				began := time.Now()
				found, err := way.ask(ctx, c, q)
				if err != nil {
					return fmt.Errorf("%s: %q: %w", way.name, q.text, err)
				}
				t.rows[n].add(d, q, found, time.Since(began))
			}
		}
	}
	b.tables = append(b.tables, t)
	return nil
}

// put stores a dialog as a chat of a new user, and indexes it.
func (b *bench) put(ctx context.Context, d *dialog) (*chat, error) {
	c := &chat{dialog: d, id: uuid.New()}
	if err := b.newUser(ctx, c); err != nil {
		return nil, err
	}
	var roles, contents []string
	var times []time.Time
	for _, m := range d.messages {
		roles, contents, times = append(roles, m.role), append(contents, m.content), append(times, m.at)
	}
	if _, err := b.admin.Exec(ctx, `insert into public.chats (id, user_id, title) values ($1, $2, 'a dialog')`, c.id, c.user.UserID); err != nil {
		return nil, err
	}
	if _, err := b.admin.Exec(ctx, `insert into public.messages (chat_id, user_id, role, content, created_at)
		select $1, $2, role, content, at from unnest($3::text[], $4::text[], $5::timestamptz[]) with ordinality m (role, content, at, place) order by place`,
		c.id, c.user.UserID, roles, contents, times); err != nil {
		return nil, err
	}
	if err := b.index(ctx, c); err != nil {
		return nil, err
	}
	return c, b.prepareBaselines(ctx, c)
}

func (b *bench) newUser(ctx context.Context, c *chat) error {
	c.user.UserID = uuid.New()
	claims, err := json.Marshal(map[string]string{"sub": c.user.UserID.String(), "role": "authenticated"})
	if err != nil {
		return err
	}
	c.user.Claims = string(claims)
	_, err = b.admin.Exec(ctx, `insert into auth.users (id, aud, role, created_at, updated_at) values ($1, 'authenticated', 'authenticated', `+
		`now(), now())`, c.user.UserID)
	return err
}

// index indexes a chat, and makes its vectors.
func (b *bench) index(ctx context.Context, c *chat) error {
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
