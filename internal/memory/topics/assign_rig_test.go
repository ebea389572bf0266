package topics_test

import (
	"context"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/memory/topics"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// subjects are what the tests talk about. A text with a word of one is near to all others of that.
var subjects = [][]string{{"cello", "rosin", "spiccato", "bow"}, {"walnut", "marzipan", "hazelnut"}, {"telescope", "nebula", "saturn"},
	{"kiln", "glaze", "stoneware"}}

// embedder makes vectors by subject.
type embedder string

func (e embedder) Model() string { return string(e) }

func (embedder) Embed(_ context.Context, _ recall.For, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for n, content := range texts {
		vectors[n] = vectorOf(content)
	}
	return vectors, nil
}

func vectorOf(content string) []float32 {
	vector := make([]float64, recall.VectorSize)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(content))
	vector[100+hash.Sum32()%400] = .3 // texts are not the same
	for n, words := range subjects {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(content, word) }) {
			vector[n]++
		}
	}
	length := 0.
	for _, v := range vector {
		length += v * v
	}
	unit := make([]float32, len(vector))
	for n, v := range vector {
		unit[n] = float32(v / math.Sqrt(length))
	}
	return unit
}

// rig is one database, a user, and an engine that keeps topics.
type assignRig struct {
	t       *testing.T
	db      testkit.Database
	pool    *pgxpool.Pool
	user    uuid.UUID
	config  topics.Assigner
	metrics *metrics.Metrics
	logs    *testkit.Log
	mu      sync.Mutex
	// next and decays count jobs that were inserted, compact are topics that are to be compacted.
	next, decays int
	compact      []uuid.UUID
}

func newAssignRig(t *testing.T, change func(*topics.Assigner)) *assignRig {
	t.Helper()
	db := testkit.NewDatabase(t)
	pool, _, err := postgres.Open(t.Context(), db.DSN, 10)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	r := &assignRig{t: t, db: db, pool: pool, user: testkit.NewUser(t, db), metrics: metrics.New(), logs: &testkit.Log{}}
	r.config = topics.Assigner{Store: postgres.NewAssignments(pool, r.insert), Settings: topics.Defaults(), Mode: "on",
		Metrics: r.metrics, Logger: r.logs.Logger()}
	r.use("subjects")
	if change != nil {
		change(&r.config)
	}
	return r
}

// use makes the vectors of a model what topics are told apart by.
func (r *assignRig) use(model string) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, `insert into embedding_models (model, dims, unrelated_p50, unrelated_p99, languages, sentences)
		values ('turns of ' || $1, 512, 0.1, 0.5, '', $2), ($1, 512, 0.1, 0.5, '', $2) on conflict do nothing`, model, recall.SentenceList)
	r.config.Model, r.config.Scales = model, recall.NewTurnScales(postgres.NewEmbeddings(r.pool, recall.VectorSize), embedder(model))
}

func (r *assignRig) engine() *topics.Assigner { return &r.config }

func (r *assignRig) chat() uuid.UUID {
	r.t.Helper()
	return testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
}

// said is when the next turn is said.
var saidAt = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// say adds a turn for each question, a minute apart.
func (r *assignRig) say(chatID uuid.UUID, questions ...string) {
	r.t.Helper()
	for _, question := range questions {
		at := testkit.Ask[time.Time](r.t, r.pool, "select coalesce(max(created_at), $2) + interval '1 minute' from messages where chat_id = $1", chatID, saidAt)
		for _, m := range [][2]string{{"user", question}, {"assistant", "I see."}} {
			testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count, created_at) values ($1, $2, $3, $4, $5)",
				chatID, m[0], m[1], text.Tokens(m[1]), at)
		}
	}
}

func (r *assignRig) index(chatID uuid.UUID) {
	r.t.Helper()
	require.NoError(r.t, postgres.NewTurnIndex(r.pool).RunIndexTurns(r.t.Context(), chatID, 0))
}

// embed gives the chat's turns the vectors of the configured model.
func (r *assignRig) embed(chatID uuid.UUID) {
	r.t.Helper()
	by := embedder(r.config.Model)
	vectors := recall.NewVectors(recall.VectorsConfig{
		Things: "turns", Store: postgres.NewTurnVectors(r.pool), Embedder: by, Logger: r.logs.Logger(),
		Scales: []*recall.Scales{recall.NewScales(postgres.NewEmbeddings(r.pool, recall.VectorSize), by)},
	})
	_, err := vectors.Embed(r.t.Context(), chatID)
	require.NoError(r.t, err)
}

func (r *assignRig) assign(chatID uuid.UUID) topics.AssignReport {
	r.t.Helper()
	report, err := r.engine().Assign(r.t.Context(), chatID, work.Attempt{})
	require.NoError(r.t, err)
	return report
}

// insert notes the jobs that are inserted; several workers may do so at once.
func (r *assignRig) insert(_ context.Context, _ pgx.Tx, job work.Job) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch job.Name {
	case work.AssignTopics:
		r.next++
	case work.CompactTopic:
		r.compact = append(r.compact, job.TopicID)
	case work.DecayTopics:
		r.decays++
	}
	return nil
}

// talk says what is asked, indexes and embeds it, and assigns it.
func (r *assignRig) talk(chatID uuid.UUID, questions ...string) topics.AssignReport {
	r.t.Helper()
	r.say(chatID, questions...)
	r.index(chatID)
	r.embed(chatID)
	return r.assign(chatID)
}

// numbers are the topics' numbers of the chat's turns, in their order; 0 for none.
func (r *assignRig) numbers(chatID uuid.UUID) []int {
	r.t.Helper()
	return testkit.Ask[[]int](r.t, r.pool, `select coalesce(array_agg(coalesce(t.number, 0) order by i.seq), '{}')
		from turn_index i left join topics t on t.id = i.topic_id where i.chat_id = $1`, chatID)
}

func (r *assignRig) wantNumbers(chatID uuid.UUID, want ...int) {
	r.t.Helper()
	got := r.numbers(chatID)
	assert.Truef(r.t, slices.Equal(got, want), "the turns' topics are %v, want %v", got, want)
	r.wantSound(chatID)
}

// wantSound checks that topics have what their turns say.
func (r *assignRig) wantSound(chatID uuid.UUID) {
	r.t.Helper()
	wrong := testkit.Ask[[]string](r.t, r.pool, `select coalesce(array_agg(w.what), '{}') from (
		select format('topic %s has %s messages, not %s', t.number, t.message_count, m.messages) as what
		  from topics t cross join lateral (select count(*) as messages from throughline.messages_of_topics x where x.topic_id = t.id and x.chat_id = t.chat_id) m
		 where t.chat_id = $1 and t.state <> 'merged' and (t.message_count <> m.messages or m.messages = 0)
		union all
		select format('topic %s is from %s to %s, not from %s to %s', t.number, t.first_seq, t.last_seq, i.first, i.last) as what
		  from topics t cross join lateral (select min(x.seq) as first, max(x.last_seq) as last from turn_index x where x.topic_id = t.id) i
		 where t.chat_id = $1 and t.state <> 'merged' and (t.first_seq, t.last_seq) is distinct from (i.first, i.last)
		union all
		select format('topic %s has %s vectors in its centroid, not %s', t.number, t.centroid_turns, i.turns)
		  from topics t cross join lateral (select count(*) as turns from turn_index x where x.topic_id = t.id and x.topic_model <> '' and x.embedding is not null) i
		 where t.chat_id = $1 and t.state = 'active' and t.centroid is not null and t.centroid_turns <> i.turns
		   and not exists (select from turn_index x where x.topic_id = t.id and x.embedding is null)
		union all
		select format('turn %s has a topic of another chat, or a merged one', x.seq)
		  from turn_index x where x.chat_id = $1 and x.topic_id is not null
		   and not exists (select from topics t where t.id = x.topic_id and t.chat_id = x.chat_id and t.state <> 'merged')) w`, chatID)
	assert.Truef(r.t, len(wrong) <= 0, "%q", wrong)
}

// topic reads one column of a topic, as text.
func (r *assignRig) topic(chatID uuid.UUID, number int, column string) string {
	r.t.Helper()
	return testkit.Ask[string](r.t, r.pool, "select coalesce("+column+"::text, '') from topics t where chat_id = $1 and number = $2", chatID, number)
}

func (r *assignRig) topicID(chatID uuid.UUID, number int) uuid.UUID {
	r.t.Helper()
	return testkit.Ask[uuid.UUID](r.t, r.pool, "select id from topics where chat_id = $1 and number = $2", chatID, number)
}

// as returns a connection that acts as the user in a role.
func (r *assignRig) as(role string) *pgx.Conn {
	r.t.Helper()
	conn := testkit.Connect(r.t, r.db.Direct())
	testkit.Exec(r.t, conn, "select set_config('request.jwt.claims', json_build_object('sub', $1::text, 'role', 'authenticated')::text, false), "+
		"set_config('request.jwt.claim.sub', $1::text, false)", r.user)
	testkit.Exec(r.t, conn, "set role "+role)
	return conn
}
