package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const embeddingModel = "text-embedding-3-small"

func (r *rig) embedder() *llm.Embedder {
	r.t.Helper()
	embedder := llm.NewEmbedder(llm.EmbedderConfig{APIKey: "offline", BaseURL: r.model.BaseURL(), Model: embeddingModel})
	r.t.Cleanup(embedder.Close)
	return embedder
}

// embedding makes a worker embed turns, and sweep all the time. change may be nil.
func (r *rig) embedding(change func(*recall.VectorsConfig)) func(*brief.Config, *WorkerConfig) {
	r.t.Helper()
	embedder := r.embedder()
	return func(_ *brief.Config, c *WorkerConfig) {
		c.SweepInterval = 200 * time.Millisecond
		vectors := recall.VectorsConfig{
			Store: postgres.NewEmbeddings(r.pool, 512), Embedder: embedder, Logger: c.Logger, Metrics: c.Metrics,
			Rest: recall.NewRest(20*time.Millisecond, 100*time.Millisecond, c.Logger),
		}
		if change != nil {
			change(&vectors)
		}
		c.Embedder = recall.NewVectors(vectors)
	}
}

// index indexes all of a chat's turns.
func (r *rig) index(chatID uuid.UUID) {
	r.t.Helper()
	for more := true; more; { // one call indexes some hundred messages
		err := pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(r.t.Context(), "select set_config('request.jwt.claim.sub', (select user_id::text from chats where id = $1), true)", chatID); err != nil {
				return err
			}
			return tx.QueryRow(r.t.Context(), "select throughline.index_turns($1, null)", chatID).Scan(&more)
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// indexed stores a chat with indexed turns.
func (r *rig) indexed(turns int) uuid.UUID {
	r.t.Helper()
	chatID := r.chat(turns, 3)
	r.index(chatID)
	return chatID
}

// bare counts the indexed turns without a vector of the model.
func (r *rig) bare(model string) int {
	r.t.Helper()
	return testkit.Ask[int](r.t, r.pool, "select count(*) from turn_index where embedding_model is distinct from $1", model)
}

func (r *rig) awaitVectors() {
	r.t.Helper()
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

func TestIndexedTurnsGetVectors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chats := []uuid.UUID{r.indexed(3), r.indexed(140)}
	w := r.work(r.embedding(nil))
	r.awaitVectors()
	texts := r.embedded()
	if len(texts) != 143 || !strings.Contains(texts[0], "\nAssistant: ") {
		t.Errorf("%d texts, the first is %q", len(texts), texts[0])
	}
	for _, request := range r.model.Asked(offline.KindEmbedding) {
		if strings.Count(request.Text, "User: ") > 128 {
			t.Error("a call has more than 128 texts")
		}
	}
	// The vector of a turn is near to its own words, and of length 1.
	for _, chatID := range chats {
		if wrong := testkit.Ask[int](t, r.pool, "select count(*) from turn_index where chat_id = $1 and abs((-(embedding operator(throughline.<#>) embedding)) - 1) > 0.01", chatID); wrong != 0 {
			t.Errorf("%d vectors are not of length 1", wrong)
		}
	}
	if n := testkit.Ask[int](t, r.pool, "select count(*) from embedding_models where model = $1 and dims = 512 and unrelated_p50 < unrelated_p99", embeddingModel); n != 1 {
		t.Error("the model was not measured")
	}
	testkit.Eventually(t, "the turns are counted", func() bool { return embeddedTurns(t, w) == 143 })
	asked := len(r.model.Asked(offline.KindEmbedding))
	r.say(chats[0], 4, 4, 3)
	r.index(chats[0])
	r.awaitVectors()
	if more := len(r.model.Asked(offline.KindEmbedding)) - asked; more != 1 {
		t.Errorf("one more turn took %d calls", more)
	}
}

func embeddedTurns(t *testing.T, w *worker) float64 {
	t.Helper()
	return testkit.Measured(t, w.metrics.EmbeddedTurns)
}

// A change of words while their vector is made leaves no vector of the old words.
func TestChangesWhileTurnsAreEmbedded(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"edit":     "update messages set content = 'Something else, a canary.' where seq = 3",
		"deletion": "delete from messages where seq in (3, 4)",
		"chat":     "delete from chats",
		"nothing":  "select 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			r := newRig(t, func(request *offline.Request) offline.Answer {
				if strings.Contains(request.Text, mark("user", 2)) {
					return offline.Answer{Gate: gate}
				}
				return offline.Answer{}
			})
			chatID := r.indexed(4)
			r.work(r.embedding(nil))
			r.model.AwaitRequest(t, "the turns are embedded", func(a offline.Request) bool { return strings.Contains(a.Text, mark("user", 2)) })
			testkit.Exec(t, r.pool, change)
			close(gate)
			r.awaitVectors()
			r.awaitNoEmbeddings()
			texts := strings.Join(r.embedded(), "")
			switch name {
			case "edit":
				if !strings.Contains(texts, "canary") {
					t.Error("the new words have no vector")
				}
				if same := testkit.Ask[float64](t, r.pool, "select -(a.embedding operator(throughline.<#>) b.embedding) from turn_index a, turn_index b where a.seq = 1 and b.seq = 3"); same > .9 {
					t.Errorf("the edited turn still has its old vector (cosine %f)", same)
				}
			case "deletion":
				if rows := testkit.Ask[int](t, r.pool, "select count(*) from turn_index where chat_id = $1", chatID); rows != 3 {
					t.Errorf("%d turns are left", rows)
				}
			case "chat":
				if rows := testkit.Ask[int](t, r.pool, "select count(*) from turn_index"); rows != 0 {
					t.Errorf("%d turns came back", rows)
				}
			case "nothing":
				if n := len(r.embedded()); n != 4 {
					t.Errorf("%d turns were embedded", n)
				}
			}
		})
	}
}

// awaitNoEmbeddings waits until no embed_turns is unfinished.
func (r *rig) awaitNoEmbeddings() {
	r.t.Helper()
	testkit.Eventually(r.t, "no turns wait for vectors", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from river.river_job where finalized_at is null and queue = 'vectors'") == 0
	})
}

// After a change of the model the old vectors are replaced, those of turns that had none first.
func TestVectorsOfAnotherModelAreReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	old, fresh := r.indexed(3), r.indexed(2)
	testkit.Exec(t, r.pool, `update turn_index set embedding_model = 'another', embedding = ('[' || repeat('0,', 511) || '1]')::throughline.embedding where chat_id = $1`, old)
	store := postgres.NewEmbeddings(r.pool, 512)
	first, last, err := store.BareChats(t.Context(), embeddingModel, 10)
	if err != nil || len(first) != 1 || first[0] != fresh || len(last) != 1 || last[0] != old {
		t.Errorf("%v, %v, %v", first, last, err)
	}
	if n, err := store.CountBareTurns(t.Context(), embeddingModel); err != nil || n != 5 {
		t.Errorf("%d turns without a vector, %v", n, err)
	}
	w := r.work(r.embedding(nil))
	r.awaitVectors()
	if n, err := store.CountBareTurns(t.Context(), embeddingModel); err != nil || n != 0 {
		t.Errorf("%d turns without a vector, %v", n, err)
	}
	r.awaitNoEmbeddings()
	w.stop()
	if priorities := testkit.Ask[string](t, r.pool, "select string_agg(priority::text, ',' order by priority) from river.river_job where kind = 'embed_turns'"); priorities != "2,3" {
		t.Errorf("priorities %s", priorities)
	}
}

// The jobs that wait are bounded, however many chats there are.
func TestSweepInsertsABoundedNumberOfEmbeddings(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 5 {
		r.indexed(1)
	}
	store := postgres.NewEmbeddings(r.pool, 512)
	for waiting, want := range []int{3, 2, 1, 0} {
		if fresh, _, err := store.BareChats(t.Context(), embeddingModel, 3); err != nil || len(fresh) != want {
			t.Fatalf("with %d jobs: %d chats, %v", waiting, len(fresh), err)
		} else if want > 0 {
			r.insertJob(newEmbedTurns(fresh[0]))
		}
	}
}

// Every failure of the embedder leaves the turns as they are, is not asked about all the time, and passes.
func TestEmbedderFails(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]offline.Answer{
		"500":   {Fault: offline.Fault500},
		"503":   {Fault: offline.Fault503},
		"429":   {Fault: offline.Fault429, RetryAfter: "0"},
		"401":   {Fault: offline.Fault401},
		"stall": {Fault: offline.FaultStall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mended sync.Map
			r := newRig(t, func(*offline.Request) offline.Answer {
				if _, ok := mended.Load(true); ok {
					return offline.Answer{}
				}
				return fault
			})
			r.indexed(2)
			r.indexed(2)
			r.work(r.embedding(func(c *recall.VectorsConfig) {
				if name == "stall" {
					c.CallTimeout = 500 * time.Millisecond
				}
			}))
			testkit.Eventually(t, "it failed three times", func() bool { return strings.Count(r.logs.String(), "the embedding model fails") >= 3 })
			if n := r.bare(embeddingModel); n != 4 {
				t.Errorf("%d turns are without a vector", n)
			}
			if strings.Contains(r.logs.String(), "etude") {
				t.Error("the log holds words of a turn")
			}
			mended.Store(true, true)
			r.awaitVectors()
		})
	}
}

// Many chats wait for an embedder that is away, and only a few calls find out.
func TestEmbedderThatIsAwayIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Fault: offline.Fault500} })
	for range 20 {
		r.indexed(1)
	}
	r.work(r.embedding(func(c *recall.VectorsConfig) { c.Rest = recall.NewRest(time.Hour, time.Hour, c.Logger) }))
	testkit.Eventually(t, "the embedder is left alone", func() bool { return strings.Contains(r.logs.String(), "the embedding model fails") })
	testkit.Eventually(t, "all jobs wait", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'embed_turns' and state in ('available', 'running')") == 0
	})
	if n := len(r.model.Asked(offline.KindEmbedding)); n > embeddingsAtOnce {
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
	if n := len(r.embedded()); n != 36 {
		t.Errorf("36 turns were embedded %d times", n)
	}
	if rows := testkit.Ask[int](t, r.pool, "select count(*) from embedding_models"); rows != 1 {
		t.Errorf("%d scales", rows)
	}
}

// A turn that the model finds no meaning in is done, and asked about no more.
func TestTurnsWithoutMeaningAreDone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.indexed(2)
	testkit.Exec(t, r.pool, "alter table messages disable trigger user")
	testkit.Exec(t, r.pool, "update messages set content = ' ' where seq in (1, 2)") // as only a broken row is
	testkit.Exec(t, r.pool, "alter table messages enable trigger user")
	r.work(r.embedding(nil))
	r.awaitVectors()
	if n := testkit.Ask[int](t, r.pool, "select count(*) from turn_index where (-(embedding operator(throughline.<#>) embedding)) = 0"); n != 1 {
		t.Errorf("%d turns have no meaning", n)
	}
}

// Jobs from before the vectors were switched off end, and none are inserted.
func TestNoVectorsAreMadeWithoutAnEmbedder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.indexed(2)
	r.insertJob(newEmbedTurns(chatID))
	r.work(func(_ *brief.Config, c *WorkerConfig) { c.SweepInterval = 50 * time.Millisecond })
	r.awaitNoEmbeddings()
	testkit.Eventually(t, "three sweeps", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'sweep_briefs' and state = 'completed'") >= 3
	})
	if n := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'embed_turns'"); n != 1 || len(r.model.Requests()) != 0 {
		t.Errorf("%d jobs, %d calls", n, len(r.model.Requests()))
	}
}

// Long chats do not keep the others waiting.
func TestALongChatTakesTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.indexed(400)
	r.work(r.embedding(func(c *recall.VectorsConfig) { c.Turn = time.Nanosecond }))
	r.awaitVectors()
	r.awaitNoEmbeddings()
	if n := len(r.embedded()); n != 400 {
		t.Errorf("%d turns were embedded", n)
	}
	if output := testkit.Ask[string](t, r.pool, "select metadata ->> 'output' from river.river_job where kind = 'embed_turns' limit 1"); !strings.Contains(output, `"turns": `) && !strings.Contains(output, `"turns":`) {
		t.Errorf("the output is %s", output)
	}
}

// 100 edits meet their turns' embedding: in the end each vector is that of the words that are there.
func TestEditsRaceWithEmbeddings(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const races = 100
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
		vectors, err := embedder.Embed(context.Background(), []string{said})
		if err != nil {
			t.Fatal(err)
		}
		cosine := testkit.Ask[float64](t, r.pool, "select -(embedding operator(throughline.<#>) $2::real[]::extensions.halfvec::throughline.embedding) from turn_index where chat_id = $1", chatID, vectors[0])
		if cosine < .99 {
			t.Errorf("chat %d has the vector of other words (cosine %f)", n, cosine)
		}
	}
}

// What is indexed gets its vectors at once, not with the next sweep.
func TestIndexedTurnsDoNotWaitForTheSweep(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*rig, uuid.UUID){
		"fold":        func(r *rig, chatID uuid.UUID) { r.enqueue(chatID) },
		"index_turns": func(r *rig, chatID uuid.UUID) { r.insertJob(IndexTurns{ChatID: chatID}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			chatID := r.chat(7, 10)
			r.work(func(folding *brief.Config, c *WorkerConfig) {
				r.embedding(nil)(folding, c)
				c.SweepInterval = time.Hour
			})
			testkit.Eventually(t, "the first sweep is over", func() bool {
				return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'sweep_briefs' and state = 'completed'") == 1
			})
			ask(r, chatID)
			testkit.Eventually(t, "turns are indexed", func() bool { return testkit.Ask[int](t, r.pool, "select count(*) from turn_index") > 0 })
			r.awaitVectors()
		})
	}
}

func (r *rig) insertJob(args river.JobArgs) {
	r.t.Helper()
	if _, err := r.insert.Insert(r.t.Context(), args, nil); err != nil {
		r.t.Fatal(err)
	}
}
