package jobs

import (
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/google/uuid"
)

// embeddingMemories makes a worker embed memories, and sweep all the time.
func (r *rig) embeddingMemories() setup {
	r.t.Helper()
	embedder := r.embedder()
	return func(_ *brief.Config, c *WorkerConfig) {
		c.SweepInterval = 200 * time.Millisecond
		c.MemoryEmbedder = memories.NewVectors(memories.VectorsConfig{
			Store: postgres.NewEmbeddings(r.pool, 512), Embedder: embedder, Logger: c.Logger,
			Rest: recall.NewRest(20*time.Millisecond, 100*time.Millisecond, c.Logger),
		})
	}
}

// remember stores memories of a new user, with vectors of a model; "" for none.
func (r *rig) remember(count int, model string) uuid.UUID {
	r.t.Helper()
	user := testkit.NewUser(r.t, r.db)
	for _, sql := range []string{
		"insert into memory_users (user_id) values ($1) on conflict do nothing",
		"insert into memories (user_id, content) select $1, 'The user knows person ' || n from generate_series(1, " +
			testkit.Ask[string](r.t, r.pool, "select $1::int::text", count) + ") n",
	} {
		if _, err := r.pool.Exec(r.t.Context(), sql, user); err != nil {
			r.t.Fatal(err)
		}
	}
	if model != "" {
		if _, err := r.pool.Exec(r.t.Context(), `update memories set embedding = ('[1' || repeat(',0', 511) || ']')::throughline.embedding, embedding_model = $2
			where user_id = $1`, user, model); err != nil {
			r.t.Fatal(err)
		}
	}
	return user
}

// The sweep finds memories without a vector, those of another model as well, and superseded ones need none.
func TestMemoriesGetVectors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	users := []uuid.UUID{r.remember(3, ""), r.remember(140, ""), r.remember(5, "another model")}
	if _, err := r.pool.Exec(t.Context(), "update memories set status = 'superseded' where user_id = $1 and content like '%person 2'", users[0]); err != nil {
		t.Fatal(err)
	}
	r.work(r.embeddingMemories())
	testkit.Await(t, r.pool, "all memories have vectors", 0,
		"select count(*) from memories where status = 'active' and embedding_model is distinct from $1", embeddingModel)
	testkit.Want(t, r.pool, 147, "select count(*) from memories where embedding_model = $1", embeddingModel)
	testkit.Want(t, r.pool, 0, "select count(*) from memories where version > 1 and status = 'active'")
}
