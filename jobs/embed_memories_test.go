package jobs

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// remember stores memories of a new user, with vectors of a model; "" for none.
func (r *rig) remember(count int, model string) uuid.UUID {
	r.t.Helper()
	user := testkit.NewUser(r.t, r.db)
	for _, sql := range []string{
		"insert into memory_users (user_id) values ($1) on conflict do nothing",
		"insert into memories (user_id, content) select $1, 'The user knows person ' || n from generate_series(1, " +
			testkit.Ask[string](r.t, r.pool, "select $1::int::text", count) + ") n",
	} {
		_, err := r.pool.Exec(r.t.Context(), sql, user)
		require.NoError(r.t, err)
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
	_, err := r.pool.Exec(t.Context(), "update memories set status = 'superseded' where user_id = $1 and content like '%person 2'", users[0])
	require.NoError(t, err)
	r.work(r.embedding(nil))
	testkit.Await(t, r.pool, "all memories have vectors", 0,
		"select count(*) from memories where status = 'active' and embedding_model is distinct from $1", embeddingModel)
	testkit.Want(t, r.pool, 147, "select count(*) from memories where embedding_model = $1", embeddingModel)
	testkit.Want(t, r.pool, 0, "select count(*) from memories where version > 1 and status = 'active'")
}

// A memory that comes while the job runs has inserted no job of its own: the job sees it before it ends.
func TestMemoriesThatComeMeanwhileGetVectors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	user := r.remember(1, "")
	engine := recall.NewVectors(recall.VectorsConfig{
		Things: "memories", Store: postgres.NewMemoryVectors(r.pool), Embedder: r.embedder(), Logger: r.logs.Logger(),
	})
	r.insertJob(work.Job{Name: work.EmbedMemories, UserID: user})
	job := testkit.Ask[int64](t, r.pool, "update river.river_job set state = 'running' where kind = 'embed_memories' returning id")
	done, err := engine.Embed(t.Context(), user)
	require.Truef(t, err == nil && done.Made == 1 && done.Calls == 1, "%+v, %v", done, err)
	testkit.Exec(t, r.pool, "insert into memories (user_id, content) values ($1, 'The user keeps bees.')", user)
	for _, want := range []bool{false, true} {
		if finished, err := engine.Finish(t.Context(), user, job, done); err != nil || finished != want {
			t.Fatalf("finished %v, %v", finished, err)
		}
		if _, err := engine.Embed(t.Context(), user); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Want(t, r.pool, `completed {"calls": 1, "changed": 0, "memories": 1}`,
		"select state || ' ' || (metadata -> 'output') from river.river_job where id = $1", job)
}
