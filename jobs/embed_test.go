package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

const embeddingModel = "text-embedding-3-small"

func (r *rig) embedder() *llm.Embedder {
	embedder := llm.NewEmbedder(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL()}, embeddingModel)
	r.t.Cleanup(embedder.Close)
	return embedder
}

// embedding makes a worker embed turns and memories, and sweep all the time. change, which may be nil, is for turns.
func (r *rig) embedding(change func(*recall.Vectors)) setup {
	embedder := r.embedder()
	return func(_ *brief.Config, c *WorkerConfig) {
		c.SweepInterval = 200 * time.Millisecond
		vectors := recall.Vectors{
			Things: "turns", Store: &postgres.TurnVectors{Pool: r.pool}, Embedder: embedder, Logger: c.Logger,
			Scales: []*recall.Scales{recall.NewScales(&postgres.Embeddings{Pool: r.pool}, embedder)},
			Count:  func(turns int) { c.Metrics.EmbeddedTurns.Add(float64(turns)) },
			Rest:   recall.NewRest(20*time.Millisecond, 100*time.Millisecond, c.Logger),
		}
		ofMemories := vectors
		ofMemories.Things, ofMemories.Store, ofMemories.Count = "memories", &postgres.MemoryVectors{Pool: r.pool}, nil
		c.MemoryEmbedder = &ofMemories
		if change != nil {
			change(&vectors)
		}
		c.Embedder = &vectors
	}
}

// index indexes all of a chat's turns.
func (r *rig) index(chatID uuid.UUID) {
	for more := true; more; { // one call indexes some hundred messages
		err := pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(r.t.Context(),
				"select set_config('request.jwt.claims', (select json_build_object('sub', user_id)::text from chats where id = $1), true)",
				chatID); err != nil {
				return err
			}
			return tx.QueryRow(r.t.Context(), "select throughline.index_turns($1, null)", chatID).Scan(&more)
		})
		require.NoError(r.t, err)
	}
}

// indexed stores a chat with indexed turns.
func (r *rig) indexed(turns int) uuid.UUID {
	chatID := r.chat(turns, 3)
	r.index(chatID)
	return chatID
}

// bare counts the indexed turns without a vector of the model.
func (r *rig) bare(model string) int {
	return testkit.Ask[int](r.t, r.pool, "select count(*) from turn_index where embedding_model is distinct from $1", model)
}

func (r *rig) awaitVectors() {
	testkit.Eventually(r.t, "all turns have vectors", func() bool { return r.bare(embeddingModel) == 0 })
}

// embedded returns the texts of turns that the model was asked for, without the sentences of the calibration.
func (r *rig) embedded() []string {
	var texts []string
	for _, request := range r.model.Asked(offline.KindEmbedding) {
		if strings.Contains(request.Text, "User: ") {
			texts = append(texts, strings.Split(request.Text, "User: ")[1:]...)
		}
	}
	return texts
}

// However long chats are, each turn gets its vector once.
func TestIndexedTurnsGetVectors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chats := []uuid.UUID{r.indexed(3), r.indexed(140)}
	w := r.work(r.embedding(func(c *recall.Vectors) { c.Turn = time.Nanosecond })) // a long chat takes turns
	r.awaitVectors()
	texts := r.embedded()
	assert.Truef(t, len(texts) == 143 && strings.Contains(texts[0], "\nAssistant: "), "%d texts, the first is %q", len(texts), texts[0])
	for _, request := range r.model.Asked(offline.KindEmbedding) {
		assert.True(t, strings.Count(request.Text, "User: ") <= 128, "a call has more than 128 texts")
	}
	// The vector of a turn is near to its own words, and of length 1.
	for _, chatID := range chats {
		testkit.Want(t, r.pool, 0,
			"select count(*) from turn_index where chat_id = $1 and abs((-(embedding operator(throughline.<#>) embedding)) - 1) > 0.01", chatID)
	}
	testkit.Want(t, r.pool, 1, "select count(*) from embedding_models where model = $1 and dims = 512 and unrelated_p50 < unrelated_p99", embeddingModel)
	testkit.Eventually(t, "the turns are counted", func() bool { return embeddedTurns(t, w) == 143 })
	asked := len(r.model.Asked(offline.KindEmbedding))
	r.say(chats[0], 4, 4, 3)
	r.index(chats[0])
	r.awaitVectors()
	assert.Equal(t, 1, len(r.model.Asked(offline.KindEmbedding))-asked, "calls for one more turn")
}

func embeddedTurns(t *testing.T, w *worker) float64 {
	return testkit.Measured(t, w.metrics.EmbeddedTurns)
}

// awaitNoEmbeddings waits until no embed_turns is unfinished.
func (r *rig) awaitNoEmbeddings() {
	testkit.Await(r.t, r.pool, "no turns wait for vectors", 0, "select count(*) from river.river_job where finalized_at is null and queue = 'vectors'")
}

// After a change of the model the old vectors are replaced, those of turns that had none first.
func TestVectorsOfAnotherModelAreReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	old, fresh := r.indexed(3), r.indexed(2)
	testkit.Exec(t, r.pool, `update turn_index set embedding_model = 'another', embedding = ('[' || repeat('0,', 511) || '1]')::throughline.embedding
		where chat_id = $1`, old)
	store := &postgres.Embeddings{Pool: r.pool}
	first, last, err := (&postgres.TurnVectors{Pool: r.pool}).Owners(t.Context(), embeddingModel, 10)
	assert.Truef(t, err == nil && len(first) == 1 && first[0] == fresh && len(last) == 1 && last[0] == old, "%v, %v, %v", first, last, err)
	n, err := store.CountBareTurns(t.Context(), embeddingModel)
	assert.Truef(t, err == nil && n == 5, "%d turns without a vector, %v", n, err)
	w := r.work(r.embedding(nil))
	r.awaitVectors()
	if n, err := store.CountBareTurns(t.Context(), embeddingModel); err != nil || n != 0 {
		t.Errorf("%d turns without a vector, %v", n, err)
	}
	r.awaitNoEmbeddings()
	w.stop()
	testkit.Want(t, r.pool, "2,3", "select string_agg(priority::text, ',' order by priority) from river.river_job where kind = 'embed_turns'")
}

// The jobs that wait are bounded, however many chats there are.
func TestSweepInsertsABoundedNumberOfEmbeddings(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 5 {
		r.indexed(1)
	}
	r.insertJob(work.Job{Name: work.EmbedMemories, UserID: r.user}) // hides no chat
	store := &postgres.TurnVectors{Pool: r.pool}
	for waiting, want := range []int{3, 2, 1, 0} {
		if fresh, _, err := store.Owners(t.Context(), embeddingModel, 3); err != nil || len(fresh) != want {
			t.Fatalf("with %d jobs: %d chats, %v", waiting, len(fresh), err)
		} else if want > 0 {
			r.insertJob(work.Job{Name: work.EmbedTurns, ChatID: fresh[0]})
		}
	}
}

// An embedder that fails leaves the turns as they are, and is asked again until it works.
func TestEmbedderFails(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	r := newRig(t, func(*offline.Request) offline.Answer {
		if up.Load() {
			return offline.Answer{}
		}
		return offline.Answer{Fault: offline.Fault503}
	})
	r.indexed(2)
	r.indexed(2)
	r.work(r.embedding(nil))
	testkit.Eventually(t, "it failed three times", func() bool { return strings.Count(r.logs.String(), "the embedding model fails") >= 3 })
	assert.Equal(t, 4, r.bare(embeddingModel), "turns are without a vector")
	assert.NotContains(t, r.logs.String(), "etude", "the log holds words of a turn")
	up.Store(true)
	r.awaitVectors()
}

// A text at which the embedder breaks down has no vector, and costs no other text its vector: neither the turns of its chat, nor
// other users, nor memories.
func TestATextThatBreaksTheEmbedderStopsNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if strings.Contains(request.Text, "undigestible") {
			return offline.Answer{Fault: offline.Fault500}
		}
		return offline.Answer{}
	})
	poisoned := r.chat(5, 3)
	testkit.Exec(t, r.pool, "update messages set content = 'undigestible' where chat_id = $1 and seq = 5", poisoned)
	r.index(poisoned)
	user := r.remember(4, "")
	testkit.Exec(t, r.pool, "update memories set content = 'undigestible' where user_id = $1 and content like '%person 2'", user)
	for range 8 {
		r.indexed(1)
	}
	r.work(r.embedding(nil))
	r.awaitVectors()
	testkit.Await(t, r.pool, "all memories are done", 0, "select count(*) from memories where embedding_model is distinct from $1", embeddingModel)
	const meansNothing = "abs(embedding operator(throughline.<#>) embedding) < 0.5"
	testkit.Want(t, r.pool, "5", "select string_agg(seq::text, ',') from turn_index where "+meansNothing)
	testkit.Want(t, r.pool, "undigestible", "select string_agg(content, ',') from memories where "+meansNothing)
	assert.NotContains(t, r.logs.String(), "the embedding model fails", "the embedder was left alone")
}

// Many chats wait for an embedder that is away, and only a few calls find out.
func TestEmbedderThatIsAwayIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Fault: offline.Fault500} })
	for range 20 {
		r.indexed(1)
	}
	r.work(r.embedding(func(c *recall.Vectors) { c.Rest = recall.NewRest(time.Hour, time.Hour, c.Logger) }))
	testkit.Eventually(t, "the embedder is left alone", func() bool { return strings.Contains(r.logs.String(), "the embedding model fails") })
	testkit.Await(t, r.pool, "all jobs wait", 0, "select count(*) from river.river_job where kind = 'embed_turns' and state in ('available', 'running')")
	if n := len(r.model.Asked(offline.KindEmbedding)); n > 2*embeddingsAtOnce { // the second asks whether it was the texts
		t.Errorf("the embedder was asked %d times", n)
	}
}

// Two workers share the chats, and each turn is embedded once.
func TestTwoWorkersEmbed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 12 {
		r.indexed(3)
	}
	r.work(r.embedding(nil))
	r.work(r.embedding(nil))
	r.awaitVectors()
	r.awaitNoEmbeddings()
	assert.Len(t, r.embedded(), 36, "embedded turns")
	testkit.Want(t, r.pool, 1, "select count(*) from embedding_models")
}

// Twenty edits meet their turns' embedding: in the end each vector is that of the words that are there.
func TestEditsRaceWithEmbeddings(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const races = 20
	chats := make([]uuid.UUID, races)
	for n := range chats {
		chats[n] = r.indexed(1)
	}
	r.work(r.embedding(nil))
	for n, chatID := range chats {
		testkit.Exec(t, r.pool, "update messages set content = $2 where chat_id = $1 and seq = 1", chatID, fmt.Sprintf("Zebra number%d.", n))
	}
	r.awaitVectors()
	r.awaitNoEmbeddings()
	embedder := r.embedder()
	for n, chatID := range chats {
		said := testkit.Ask[string](t, r.pool, "select 'User: ' || string_agg(content, E'\nAssistant: ' order by seq) from messages where chat_id = $1", chatID)
		vectors, err := embedder.Embed(context.Background(), recall.For{}, []string{said})
		require.NoError(t, err)
		cosine := testkit.Ask[float64](t, r.pool,
			"select -(embedding operator(throughline.<#>) $2::real[]::extensions.halfvec::throughline.embedding) from turn_index where chat_id = $1", chatID, vectors[0])
		assert.Truef(t, cosine >= .99, "chat %d has the vector of other words (cosine %f)", n, cosine)
	}
}

// An indexed turn gets its vectors at once, not with the next sweep.
func TestIndexedTurnsDoNotWaitForTheSweep(t *testing.T) {
	t.Parallel()
	for _, name := range []string{work.FoldBrief, work.IndexTurns} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			chatID := r.chat(7, 10)
			r.work(r.embedding(nil), func(_ *brief.Config, c *WorkerConfig) { c.SweepInterval = time.Hour })
			testkit.Await(t, r.pool, "the first sweep is over", 1, "select count(*) from river.river_job where kind = 'sweep_briefs' and state = 'completed'")
			r.enqueueAs(name, work.Now, chatID)
			testkit.Eventually(t, "turns are indexed", func() bool { return testkit.Ask[int](t, r.pool, "select count(*) from turn_index") > 0 })
			r.awaitVectors()
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
	engine := &recall.Vectors{
		Things: "memories", Store: &postgres.MemoryVectors{Pool: r.pool}, Embedder: r.embedder(), Logger: r.logs.Logger(),
		Rest: recall.NewRest(0, 0, r.logs.Logger()),
	}
	r.insertJob(work.Job{Name: work.EmbedMemories, UserID: user})
	job := testkit.Ask[int64](t, r.pool, "update river.river_job set state = 'running' where kind = 'embed_memories' returning id")
	done, err := engine.Embed(t.Context(), user, 1)
	require.Truef(t, err == nil && done.Made == 1 && done.Calls == 1, "%+v, %v", done, err)
	testkit.Exec(t, r.pool, "insert into memories (user_id, content) values ($1, 'The user keeps bees.')", user)
	for _, want := range []bool{false, true} {
		finished, err := engine.Finish(t.Context(), user, job, done)
		require.Truef(t, err == nil && finished == want, "finished %v, %v", finished, err)
		_, err = engine.Embed(t.Context(), user, 1)
		require.NoError(t, err)
	}
	testkit.Want(t, r.pool, `completed {"calls": 1, "changed": 0, "memories": 1}`,
		"select state || ' ' || (metadata -> 'output') from river.river_job where id = $1", job)
}
