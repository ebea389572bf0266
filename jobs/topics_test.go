package jobs

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/topics"

	"github.com/arcoscribe/throughline/internal/memory/recall"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// keepsTopics makes a worker keep topics in all chats. Without an embedder each chat has one.
func (r *rig) keepsTopics(embedder recall.Embedder) setup {
	model := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	r.t.Cleanup(model.Close)
	return func(_ *brief.Config, c *WorkerConfig) {
		assigning := topics.Assigner{
			Store: &postgres.Assignments{Pool: r.pool, Insert: r.inserting}, Settings: topics.Defaults(), Mode: "on", Metrics: c.Metrics, Logger: c.Logger,
		}
		if embedder != nil {
			store := &postgres.Embeddings{Pool: r.pool}
			assigning.Model, assigning.Scales = embedder.Model(), recall.NewTurnScales(store, embedder)
			c.Embedder = &recall.Vectors{
				Things: "turns", Store: &postgres.TurnVectors{Pool: r.pool}, Embedder: embedder, Logger: c.Logger,
				Scales: []*recall.Scales{recall.NewScales(store, embedder), assigning.Scales},
				Rest:   recall.NewRest(20*time.Millisecond, 100*time.Millisecond, c.Logger),
			}
		}
		c.Topics = &assigning
		maintenance(c).KeepTopics(assigning.Mode, assigning.Model, topics.Defaults().MaxMessages)
		r.compacting(nil)(nil, c)
	}
}

// compacting makes a worker compact topics.
func (r *rig) compacting(change func(*topics.CompactorConfig)) setup {
	model := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	r.t.Cleanup(model.Close)
	pool := r.open(5)
	config := topics.CompactorConfig{
		Store: &postgres.Packs{Pool: pool, Insert: r.inserting}, Leases: &postgres.Work{Pool: pool},
		Summarizer: model, Prompt: brief.PromptConfig{Model: "small"}, InputTokens: 8000,
		Settings: topics.Defaults(), Logger: r.logs.Logger(), Metrics: metrics.New(),
	}
	if change != nil {
		change(&config)
	}
	return func(_ *brief.Config, worker *WorkerConfig) { worker.Compactor = topics.NewCompactor(config) }
}

// topicOf makes a topic of all turns of a chat.
func (r *rig) topicOf(chatID uuid.UUID) uuid.UUID {
	require.NoError(r.t, (&postgres.TurnIndex{Pool: r.pool}).RunIndexTurns(r.t.Context(), chatID, 0))
	id := uuid.New()
	testkit.Exec(r.t, r.pool, `insert into topics (id, chat_id, user_id, number, title, title_seq, created_at, last_active_at, first_seq, last_seq, message_count)
		select $1, c.id, c.user_id, 1, 'Etudes', 1, now(), now(), 1, c.last_seq, c.message_count from chats c where c.id = $2`, id, chatID)
	testkit.Exec(r.t, r.pool, "update turn_index set topic_id = $1, topic_model = '' where chat_id = $2", id, chatID)
	return id
}

// wantReadOnce checks that the model read the first turns of a topic once each.
func (r *rig) wantReadOnce(turns int) {
	var read strings.Builder
	for _, request := range r.model.Asked(offline.KindTopic) {
		read.WriteString(turnsOf(request.Text))
	}
	for turn := 1; turn <= turns; turn++ {
		assert.Equalf(r.t, 1, strings.Count(read.String(), mark("user", turn)), "readings of turn %d", turn)
	}
}

// awaitTopics waits until so many turns of a chat have a topic.
func (r *rig) awaitTopics(chatID uuid.UUID, turns int) {
	testkit.Eventually(r.t, "the turns have topics", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from turn_index where chat_id = $1 and topic_id is not null", chatID) >= turns
	})
}

// wantNoFailures waits until no job of topics is left, and checks that none has failed.
func (r *rig) wantNoFailures() {
	testkit.Await(r.t, r.pool, "no job of topics is left", 0, `select count(*) from river.river_job
		where kind in ('assign_topics', 'compact_topic') and finalized_at is null`)
	failures := testkit.Ask[[]string](r.t, r.pool,
		`select coalesce(array_agg(kind || ': ' || (errors[1] ->> 'error')), '{}') from river.river_job where errors is not null`)
	assert.Truef(r.t, len(failures) == 0, "%q", failures)
}

// What index_turns indexes is assigned. Without an embedder a chat has one topic.
func TestIndexedTurnsGetTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(6, 3)
	r.work(r.keepsTopics(nil))
	r.enqueueAs(work.IndexTurns, work.Repair, chatID)
	r.awaitTopics(chatID, 6)
	testkit.Want(t, r.pool, 0, "select count(*) from turn_index where topic_model is not null")
	r.wantNoFailures()
	testkit.Want(t, r.pool, "6",
		"select metadata -> 'output' ->> 'turns' from river.river_job where kind = 'assign_topics' and state = 'completed' order by id limit 1")
}

// The turns that a fold indexes are assigned, and long topics are compacted.
func TestFoldedTurnsGetTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(14, 20)
	r.work(r.keepsTopics(nil))
	r.enqueue(chatID)
	r.awaitTopics(chatID, 8)
	testkit.Await(t, r.pool, "the topic is compacted", 1, "select count(*) from topics where summary is not null and compacted_seq > 0")
	r.wantNoFailures()
	assert.True(t, len(r.model.Asked(offline.KindTopic)) != 0, "no model was asked for the summary")
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
	r.work(r.keepsTopics(r.embedder()), sweeping)
	r.awaitTopics(chatID, 5)
	assert.Equal(t, 5, r.bare(embeddingModel), "turns have no vector")
	close(back)
	testkit.Await(t, r.pool, "the topics are chosen again", 5, "select count(*) from turn_index where topic_model is not null")
}

// The sweep finds a topic that is stale, and one with too many messages.
func TestTheSweepFindsWhatTopicsLack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	stale, long := r.indexed(3), r.indexed(3)
	w := r.work(r.keepsTopics(nil), sweeping)
	r.awaitTopics(stale, 3)
	r.awaitTopics(long, 3)
	awaitOutput[map[string]int](r, work.SweepBriefs, "inserted_assignments")
	w.stop()
	testkit.Exec(t, r.pool, "update topics set stale = true where chat_id = $1", stale)
	r.say(long, 4, 12, 3)
	r.index(long)
	r.work(r.keepsTopics(nil), sweeping)
	testkit.Await(t, r.pool, "both are compacted", true,
		`select not (select stale from topics where chat_id = $1) and exists (select from topics where chat_id = $2 and compacted_seq = 20)`, stale, long)
}

// The topics of an old chat that is imported may fade before they are compacted. They are archived at once, and the excess
// of them is summarized nevertheless, once.
func TestFadedTopicsOfAnOldChatAreSummarized(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const many = 3
	chatID := r.chat(many*7, 3)
	r.index(chatID)
	testkit.Exec(t, r.pool, `insert into topics (chat_id, user_id, number, title, title_seq, created_at, last_active_at, first_seq, last_seq, message_count)
		select $1, $2, n, 'A topic', 14 * n - 13, now(), now() - interval '300 days', 14 * n - 13, 14 * n, 14 from generate_series(1, $3::int) n`,
		chatID, r.user, many)
	testkit.Exec(t, r.pool, `update turn_index i set topic_id = t.id, topic_model = ''
		from topics t where t.chat_id = i.chat_id and i.seq between t.first_seq and t.last_seq`)
	testkit.Exec(t, r.pool, "update conversation_briefs set assigned_seq = indexed_seq where chat_id = $1", chatID)
	settings := topics.Defaults()
	settings.Max = 1
	keeper := &topics.Assigner{
		Store:    &postgres.Assignments{Pool: r.pool, Insert: r.inserting},
		Settings: settings, Mode: "on", Metrics: metrics.New(), Logger: slog.New(slog.DiscardHandler),
	}
	done, err := keeper.Decay(t.Context(), testkit.Patience)
	require.Truef(t, err == nil && done.Archived == many-1, "%+v, %v", done, err)
	r.work(r.keepsTopics(nil), sweeping)
	testkit.Await(t, r.pool, "all are summarized", many,
		"select count(*) from topics where summary is not null and summary_seq = compacted_seq and (state = 'archived') = (number < $1)", many)
	r.awaitRuns("sweep_briefs", 2)
	compactions := r.count("compact_topic")
	r.awaitRuns("sweep_briefs", 2)
	if again := r.count("compact_topic") - compactions; again != 0 || len(r.model.Asked(offline.KindTopic)) != many {
		t.Errorf("%d jobs more, and %d calls", again, len(r.model.Asked(offline.KindTopic)))
	}
	r.wantNoFailures()
}

// The hourly jobs work with the arguments {}, by hand as well.
func TestTopicsDecayAndMergeByHand(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.work(r.keepsTopics(nil))
	testkit.Await(t, r.pool, "the first ones are done", 2,
		"select count(*) from river.river_job where kind in ('decay_topics', 'merge_topics') and state = 'completed'")
	for _, kind := range []string{"decay_topics", "merge_topics"} {
		testkit.Exec(t, r.pool, `insert into river.river_job (args, kind, max_attempts, priority, queue, state)
			values ('{}', $1, 5, 1, 'maintenance', 'available')`, kind)
	}
	testkit.Await(t, r.pool, "they are done again", 4,
		"select count(*) from river.river_job where kind in ('decay_topics', 'merge_topics') and state = 'completed' and metadata ? 'output'")
	r.wantNoFailures()
}
