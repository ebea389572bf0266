package jobs

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// keepsTopics makes a worker keep topics in all chats. Without an embedder each chat has one.
func (r *rig) keepsTopics(embedder recall.Embedder) func(*brief.Config, *WorkerConfig) {
	r.t.Helper()
	model := llm.New(llm.Config{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	r.t.Cleanup(model.Close)
	return func(_ *brief.Config, c *WorkerConfig) {
		assigning := assign.Config{
			Store: postgres.NewAssignments(r.pool), Settings: topics.Defaults(), Mode: "on", Metrics: c.Metrics, Logger: c.Logger,
		}
		if embedder != nil {
			store := postgres.NewEmbeddings(r.pool, recall.VectorSize)
			assigning.Model, assigning.Scales = embedder.Model(), recall.NewTurnScales(store, embedder)
			c.Embedder = recall.NewVectors(recall.VectorsConfig{
				Store: store, Embedder: embedder, Logger: c.Logger, Metrics: c.Metrics, Topics: true,
				Rest: recall.NewRest(20*time.Millisecond, 100*time.Millisecond, c.Logger),
			})
		}
		c.Topics, c.TopicSweep = assign.New(assigning), postgres.NewTopicSweep(r.pool, assigning.Mode, assigning.Model, topics.Defaults().MaxMessages)
		c.Compactor = pack.New(pack.Config{
			Store: postgres.NewPacks(r.pool), Summarizer: model, Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "small"},
			InputTokens: 4000, Settings: topics.Defaults(), Logger: c.Logger, Metrics: c.Metrics,
		})
	}
}

// awaitTopics waits until so many turns of a chat have a topic.
func (r *rig) awaitTopics(chatID uuid.UUID, turns int) {
	r.t.Helper()
	testkit.Eventually(r.t, "the turns have topics", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from turn_index where chat_id = $1 and topic_id is not null", chatID) >= turns
	})
}

// wantNoFailures waits until no job of topics is left, and checks that none has failed.
func (r *rig) wantNoFailures() {
	r.t.Helper()
	testkit.Eventually(r.t, "no job of topics is left", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from river.river_job where queue = 'topics' and finalized_at is null") == 0
	})
	failures := testkit.Ask[[]string](r.t, r.pool, `select coalesce(array_agg(kind || ': ' || (errors[1] ->> 'error')), '{}') from river.river_job where errors is not null`)
	if len(failures) > 0 {
		r.t.Errorf("%q", failures)
	}
}

// What index_turns indexes is assigned; where there is an embedder, after it has its vectors.
func TestIndexedTurnsGetTopics(t *testing.T) {
	t.Parallel()
	for name, withVectors := range map[string]bool{"without vectors": false, "with vectors": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			var embedder recall.Embedder
			if withVectors {
				embedder = r.embedder()
			}
			chatID := r.chat(6, 3)
			r.work(r.keepsTopics(embedder))
			err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error { return EnqueueIndex(r.insert)(t.Context(), tx, chatID) })
			if err != nil {
				t.Fatal(err)
			}
			r.awaitTopics(chatID, 6)
			want := 0
			if withVectors {
				want = 6 // at once, or a moment later if the first sweep met the turns before their vectors came
			}
			testkit.Eventually(t, "the turns have topics by their vectors", func() bool {
				return testkit.Ask[int](t, r.pool, "select count(*) from turn_index where topic_model is not null") == want
			})
			r.wantNoFailures()
			output := testkit.Ask[string](t, r.pool, "select metadata -> 'output' ->> 'turns' from river.river_job where kind = 'assign_topics' and state = 'completed' order by id limit 1")
			if output != "6" {
				t.Errorf("the output says %q turns", output)
			}
		})
	}
}

// What a fold indexes is assigned, and what is long is compacted.
func TestFoldedTurnsGetTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(14, 20)
	r.work(r.keepsTopics(nil))
	r.enqueue(chatID)
	r.awaitTopics(chatID, 8)
	testkit.Eventually(t, "the topic is compacted", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from topics where summary is not null and compacted_messages > 0") == 1
	})
	r.wantNoFailures()
	if len(r.model.Asked(offline.KindTopic)) == 0 {
		t.Error("no model was asked for the summary")
	}
}

// While the embedder is away turns follow each other, and are chosen again when it is back.
func TestTopicsWithoutTheEmbedderAndAfterwards(t *testing.T) {
	t.Parallel()
	back := make(chan struct{})
	r := newRig(t, func(*offline.Request) offline.Answer {
		select {
		case <-back:
			return offline.Answer{}
		default:
			return offline.Answer{Fault: offline.Fault503}
		}
	})
	chatID := r.indexed(5)
	r.work(func(b *brief.Config, c *WorkerConfig) {
		r.keepsTopics(r.embedder())(b, c)
		sweeping(b, c)
	})
	r.awaitTopics(chatID, 5)
	if bare := r.bare(embeddingModel); bare != 5 {
		t.Errorf("%d turns have no vector", bare)
	}
	close(back)
	testkit.Eventually(t, "the topics are chosen again", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from turn_index where topic_model is not null") == 5
	})
}

// The sweep inserts jobs that a crash has lost, and takes those of dead workers over.
func TestTheSweepFindsWhatTopicsLack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	lost, dead := r.indexed(3), r.indexed(3)
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error { return EnqueueAssign(r.insert)(t.Context(), tx, dead) })
	if err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, r.pool, "update river.river_job set state = 'running', attempt = 1, attempted_at = now() - interval '20 seconds', attempted_by = '{gone}' where kind = 'assign_topics'")
	w := r.work(func(b *brief.Config, c *WorkerConfig) {
		r.keepsTopics(nil)(b, c)
		sweeping(b, c)
	})
	r.awaitTopics(lost, 3)
	r.awaitTopics(dead, 3)
	// A sweep stores its output after its work. River itself
	// rescues those of minutes ago.
	for _, output := range []string{"inserted_assignments", "revived_jobs"} {
		testkit.Eventually(t, output, func() bool {
			return testkit.Ask[int](t, r.pool, "select coalesce(sum((metadata -> 'output' ->> $1)::int), 0) from river.river_job where kind = 'sweep_briefs'", output) >= 1
		})
	}
	w.stop()

	// A stale topic, and one with too many messages, without a job.
	testkit.Exec(t, r.pool, "update topics set stale = true where chat_id = $1", lost)
	r.say(dead, 4, 12, 3)
	r.index(dead)
	r.work(func(b *brief.Config, c *WorkerConfig) {
		r.keepsTopics(nil)(b, c)
		sweeping(b, c)
	})
	testkit.Eventually(t, "both are compacted", func() bool {
		return testkit.Ask[bool](t, r.pool, `select not (select stale from topics where chat_id = $1) and exists (select from topics where chat_id = $2 and compacted_messages = 20)`, lost, dead)
	})
}

// An old chat that is imported has so many topics that most fade before they are compacted. They are archived at once, and
// what was too much of them is summarized nevertheless, once.
func TestFadedTopicsOfAnOldChatAreSummarized(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(25*7, 3)
	r.index(chatID)
	testkit.Exec(t, r.pool, `insert into topics (chat_id, user_id, number, title, title_seq, created_at, last_active_at, first_seq, last_seq, message_count)
		select $1, $2, n, 'A topic', 14 * n - 13, now(), now() - interval '300 days', 14 * n - 13, 14 * n, 14 from generate_series(1, 25) n`, chatID, r.user)
	testkit.Exec(t, r.pool, "update turn_index i set topic_id = t.id, topic_model = '' from topics t where t.chat_id = i.chat_id and i.seq between t.first_seq and t.last_seq")
	testkit.Exec(t, r.pool, "update conversation_briefs set assigned_seq = indexed_seq where chat_id = $1", chatID)
	keeper := assign.New(assign.Config{Store: postgres.NewAssignments(r.pool), Settings: topics.Defaults(), Mode: "on", Metrics: metrics.New(), Logger: slog.New(slog.DiscardHandler)})
	if done, err := keeper.Decay(t.Context(), testkit.Patience); err != nil || done.Archived != 24 {
		t.Fatalf("%+v, %v", done, err)
	}
	r.work(func(b *brief.Config, c *WorkerConfig) {
		r.keepsTopics(nil)(b, c)
		sweeping(b, c)
	})
	testkit.Eventually(t, "all are summarized", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from topics where summary is not null and summary_seq = compacted_seq and (state = 'archived') = (number < 25)") == 25
	})
	r.awaitSweeps(2)
	compactions := r.count("compact_topic")
	r.awaitSweeps(2)
	if again := r.count("compact_topic") - compactions; again != 0 || len(r.model.Asked(offline.KindTopic)) != 25 {
		t.Errorf("%d jobs more, and %d calls", again, len(r.model.Asked(offline.KindTopic)))
	}
	r.wantNoFailures()
}

// count returns how many jobs of a kind there are.
func (r *rig) count(kind string) int {
	r.t.Helper()
	return testkit.Ask[int](r.t, r.pool, "select count(*) from river.river_job where kind = $1", kind)
}

// awaitSweeps waits for so many sweeps from now on.
func (r *rig) awaitSweeps(sweeps int) {
	r.t.Helper()
	before := r.count("sweep_briefs")
	testkit.Eventually(r.t, "it is swept again", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from river.river_job where kind = 'sweep_briefs' and state = 'completed'") >= before+sweeps
	})
}

// The hourly jobs work with the arguments {}, by hand as well.
func TestTopicsDecayAndMergeByHand(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.work(r.keepsTopics(nil))
	testkit.Eventually(t, "the first ones are done", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind in ('decay_topics', 'merge_topics') and state = 'completed'") == 2
	})
	for _, kind := range []string{"decay_topics", "merge_topics"} {
		testkit.Exec(t, r.pool, "insert into river.river_job (args, kind, max_attempts, priority, queue, state) values ('{}', $1, 5, 1, 'maintenance', 'available')", kind)
	}
	testkit.Eventually(t, "they are done again", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind in ('decay_topics', 'merge_topics') and state = 'completed' and metadata ? 'output'") == 4
	})
	r.wantNoFailures()
}

// Jobs that are left of a time with topics end; nothing is inserted.
func TestWithoutTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.indexed(5)
	for _, job := range []func(tx pgx.Tx) error{
		func(tx pgx.Tx) error { return EnqueueAssign(r.insert)(t.Context(), tx, chatID) },
		func(tx pgx.Tx) error { return EnqueueCompact(r.insert)(t.Context(), tx, chatID, uuid.New()) },
		func(tx pgx.Tx) error {
			_, errDecay := r.insert.InsertTx(t.Context(), tx, DecayTopics{}, nil)
			_, errMerge := r.insert.InsertTx(t.Context(), tx, MergeTopics{}, nil)
			return errors.Join(errDecay, errMerge)
		},
	} {
		if err := pgx.BeginFunc(t.Context(), r.pool, job); err != nil {
			t.Fatal(err)
		}
	}
	r.work(sweeping)
	testkit.Eventually(t, "the jobs ended", func() bool {
		return testkit.Ask[int](t, r.pool, `select count(*) from river.river_job where state = 'completed'
			and kind in ('assign_topics', 'compact_topic', 'decay_topics', 'merge_topics')`) == 4
	})
	if rows := testkit.Ask[int](t, r.pool, "select count(*) from topics"); rows != 0 {
		t.Errorf("%d topics", rows)
	}
	r.wantNoFailures()
}
