package topics_test

import (
	"context"
	"fmt"
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

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
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

// rig is one database and a user, with the jobs that were inserted.
type rig struct {
	t       *testing.T
	db      testkit.Database
	pool    *pgxpool.Pool
	user    uuid.UUID
	metrics *metrics.Metrics
	logs    *testkit.Log
	mu      sync.Mutex // several workers may insert jobs at once
	jobs    []work.Job
}

func newRig(t *testing.T) *rig {
	db := testkit.NewDatabase(t)
	pool, _, err := postgres.Open(t.Context(), db.DSN, 10)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &rig{t: t, db: db, pool: pool, user: testkit.NewUser(t, db), metrics: metrics.New(), logs: &testkit.Log{}}
}

func (r *rig) chat() uuid.UUID {
	return testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
}

func (r *rig) index(chatID uuid.UUID) {
	require.NoError(r.t, (&postgres.TurnIndex{Pool: r.pool}).RunIndexTurns(r.t.Context(), chatID, 0))
}

func (r *rig) insert(_ context.Context, _ pgx.Tx, job work.Job) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, job)
	return nil
}

// inserted returns the topics of the inserted jobs of a name.
func (r *rig) inserted(name string) []uuid.UUID {
	var found []uuid.UUID
	for _, job := range r.jobs {
		if job.Name == name {
			found = append(found, job.TopicID)
		}
	}
	return found
}

// assignRig is a rig with an engine that keeps topics.
type assignRig struct {
	*rig
	config topics.Assigner
}

func newAssignRig(t *testing.T, change func(*topics.Assigner)) *assignRig {
	r := &assignRig{rig: newRig(t)}
	r.config = topics.Assigner{Store: &postgres.Assignments{Pool: r.pool, Insert: r.insert}, Settings: topics.Defaults(), Mode: "on",
		Metrics: r.metrics, Logger: r.logs.Logger()}
	r.use("subjects")
	if change != nil {
		change(&r.config)
	}
	return r
}

// use makes the vectors of a model what topics are told apart by.
func (r *assignRig) use(model string) {
	testkit.Exec(r.t, r.pool, `insert into embedding_models (model, dims, unrelated_p50, unrelated_p99, languages, sentences)
		values ('turns of ' || $1, 512, 0.1, 0.5, '', $2), ($1, 512, 0.1, 0.5, '', $2) on conflict do nothing`, model, recall.SentenceList)
	r.config.Model, r.config.Scales = model, recall.NewTurnScales(&postgres.Embeddings{Pool: r.pool}, embedder(model))
}

func (r *assignRig) engine() *topics.Assigner { return &r.config }

// said is when the next turn is said.
var saidAt = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// say adds a turn for each question, a minute apart.
func (r *assignRig) say(chatID uuid.UUID, questions ...string) {
	for _, question := range questions {
		at := testkit.Ask[time.Time](r.t, r.pool, "select coalesce(max(created_at), $2) + interval '1 minute' from messages where chat_id = $1", chatID, saidAt)
		for _, m := range [][2]string{{"user", question}, {"assistant", "I see."}} {
			testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count, created_at) values ($1, $2, $3, $4, $5)",
				chatID, m[0], m[1], text.Tokens(m[1]), at)
		}
	}
}

// embed gives the chat's turns the vectors of the configured model.
func (r *assignRig) embed(chatID uuid.UUID) {
	by := embedder(r.config.Model)
	vectors := &recall.Vectors{
		Things: "turns", Store: &postgres.TurnVectors{Pool: r.pool}, Embedder: by, Logger: r.logs.Logger(),
		Scales: []*recall.Scales{recall.NewScales(&postgres.Embeddings{Pool: r.pool}, by)},
		Rest:   recall.NewRest(0, 0, r.logs.Logger()),
	}
	_, err := vectors.Embed(r.t.Context(), chatID, 1)
	require.NoError(r.t, err)
}

func (r *assignRig) assign(chatID uuid.UUID) topics.AssignReport {
	report, err := r.engine().Assign(r.t.Context(), chatID, work.Attempt{})
	require.NoError(r.t, err)
	return report
}

// talk says what is asked, indexes and embeds it, and assigns it.
func (r *assignRig) talk(chatID uuid.UUID, questions ...string) topics.AssignReport {
	r.say(chatID, questions...)
	r.index(chatID)
	r.embed(chatID)
	return r.assign(chatID)
}

// wantWanted holds whether a chat has turns for which topics are to be chosen.
func (r *assignRig) wantWanted(chatID uuid.UUID, want bool, when string) {
	wanted, err := r.engine().Wanted(r.t.Context(), chatID)
	require.NoError(r.t, err)
	assert.Equal(r.t, want, wanted, when)
}

// numbers are the topics' numbers of the chat's turns, in their order; 0 for none.
func (r *assignRig) numbers(chatID uuid.UUID) []int {
	return testkit.Ask[[]int](r.t, r.pool, `select coalesce(array_agg(coalesce(t.number, 0) order by i.seq), '{}')
		from turn_index i left join topics t on t.id = i.topic_id where i.chat_id = $1`, chatID)
}

func (r *assignRig) wantNumbers(chatID uuid.UUID, want ...int) {
	assert.Equal(r.t, want, r.numbers(chatID), "the topics of the turns")
	r.wantSound(chatID)
}

// wantSound checks that topics have what their turns say.
func (r *assignRig) wantSound(chatID uuid.UUID) {
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
	assert.Truef(r.t, len(wrong) == 0, "%q", wrong)
}

// wantTopic compares columns of a topic, with blanks between them.
func (r *assignRig) wantTopic(chatID uuid.UUID, number int, columns, want string) {
	testkit.Want(r.t, r.pool, want, "select concat_ws(' ', "+columns+") from topics where chat_id = $1 and number = $2", chatID, number)
}

func (r *rig) topicID(chatID uuid.UUID, number int) uuid.UUID {
	return testkit.Ask[uuid.UUID](r.t, r.pool, "select id from topics where chat_id = $1 and number = $2", chatID, number)
}

// as returns a connection that acts as the user in a role.
func (r *rig) as(role string) *pgx.Conn {
	conn := testkit.Connect(r.t, r.db.Direct())
	testkit.Exec(r.t, conn, "select set_config('request.jwt.claims', json_build_object('sub', $1::text, 'role', 'authenticated')::text, false), "+
		"set_config('request.jwt.claim.sub', $1::text, false)", r.user)
	testkit.Exec(r.t, conn, "set role "+role)
	return conn
}

// compactRig is a rig with a model and an engine that compacts.
type compactRig struct {
	*rig
	model  *testkit.Model
	engine *topics.Compactor
}

func newCompactRig(t *testing.T, script testkit.Script, change func(*topics.CompactorConfig)) *compactRig {
	r := &compactRig{rig: newRig(t), model: testkit.NewModel(t, script)}
	client := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	t.Cleanup(client.Close)
	config := topics.CompactorConfig{
		Store: &postgres.Packs{Pool: r.pool, Insert: r.insert}, Leases: &postgres.Work{Pool: r.pool}, Summarizer: client, Prompt: brief.PromptConfig{Model: "small"},
		InputTokens: 8000, Settings: topics.Defaults(), Logger: r.logs.Logger(), Metrics: r.metrics,
	}
	if change != nil {
		change(&config)
	}
	r.engine = topics.NewCompactor(config)
	return r
}

// summaries is a script whose summaries count the calls: "Summary 1.", "Summary 2." …
func summaries() testkit.Script {
	n := 0
	return func(*offline.Request) offline.Answer {
		n++
		return offline.Answer{Text: fmt.Sprintf("Summary %d of what was said.", n)}
	}
}

// always is a script with one answer.
func always(text string) testkit.Script {
	return func(*offline.Request) offline.Answer { return offline.Answer{Text: text} }
}

// topic is a topic of a chat.
type topic struct{ chatID, id uuid.UUID }

// topic makes a topic of so many turns in a chat of its own.
func (r *compactRig) topic(turns int) topic {
	return r.topicIn(r.chat(), turns)
}

// topicIn makes a topic of so many turns at the end of a chat.
func (r *compactRig) topicIn(chatID uuid.UUID, turns int) topic {
	made := topic{chatID, uuid.New()}
	testkit.Exec(r.t, r.pool, `insert into topics (id, chat_id, user_id, number, title, title_seq, created_at, last_active_at, first_seq, last_seq)
		select $1, $2, $3, 1 + (select count(*) from topics where chat_id = $2), 'A topic', last_seq + 1, now(), now(), last_seq + 1, last_seq + 1
		from chats where id = $2`, made.id, chatID, r.user)
	r.goOn(made, turns)
	return made
}

// goOn adds turns to a topic, as an assignment does.
func (r *compactRig) goOn(in topic, turns int) {
	for range turns {
		seq := testkit.Ask[int64](r.t, r.pool, "select last_seq + 1 from chats where id = $1", in.chatID)
		r.say(in.chatID, "user", fmt.Sprintf("Question %d about bows?", seq))
		r.say(in.chatID, "assistant", fmt.Sprintf("Answer %d about rosin.", seq+1))
	}
	r.index(in.chatID)
	testkit.Exec(r.t, r.pool, "update turn_index set topic_id = $2, topic_model = '' where chat_id = $1 and topic_id is null", in.chatID, in.id)
	r.recount(in)
}

// fade archives a topic, as decay_topics does.
func (r *compactRig) fade(of topic) {
	archived, err := (&postgres.Assignments{Pool: r.pool, Insert: r.insert}).Archive(r.t.Context(), of.chatID,
		func([]topics.Topic) ([]uuid.UUID, *time.Time) { return []uuid.UUID{of.id}, nil })
	require.Truef(r.t, err == nil && archived == 1, "%d topics archived, %v", archived, err)
}

func (r *compactRig) recount(in topic) {
	testkit.Exec(r.t, r.pool, `update topics t set last_seq = greatest(t.first_seq, (select max(last_seq) from turn_index where topic_id = t.id)),
		message_count = (select count(*) from throughline.messages_of_topics m where m.topic_id = t.id) where t.id = $1`, in.id)
}

func (r *compactRig) say(chatID uuid.UUID, role, content string) {
	testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4)", chatID, role, content, text.Tokens(content))
}

func (r *compactRig) compact(of topic) (topics.CompactReport, error) {
	return r.engine.Compact(r.t.Context(), of.chatID, of.id, work.Attempt{})
}

// mustCompact fails the test unless something was written.
func (r *compactRig) mustCompact(of topic) topics.CompactReport {
	report, err := r.compact(of)
	require.Truef(r.t, err == nil && report.Result == work.Done, "compact: %+v, %v\n%s", report, err, r.logs)
	r.check(of)
	return report
}

// wantNothing fails the test if a compaction finds anything to do.
func (r *compactRig) wantNothing(of topic) {
	report, err := r.compact(of)
	require.Truef(r.t, err == nil && report.Result == work.Nothing, "compact: %+v, %v", report, err)
	r.check(of)
}

// row is what tests compare of a topic.
type row struct {
	Summary                                 string
	SummarySeq, CompactedSeq                int64
	Archived                                int
	Stale, Rehydrated, Waits, Leased, Faded bool
}

func (r *compactRig) row(of topic) row {
	rows, err := r.pool.Query(r.t.Context(), `select coalesce(summary, ''), summary_seq, compacted_seq, compacted_messages, stale, rehydrated,
		throughline.is_put_off('compact', id), throughline.is_at_work('compact', id), state = 'archived' from topics where id = $1`, of.id)
	require.NoError(r.t, err)
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[row])
	require.NoError(r.t, err)
	return got
}

func (r *compactRig) want(of topic, want row) {
	assert.Equal(r.t, want, r.row(of), "the topic")
}

// check checks that the packed messages are counted, and that the lease was given back.
func (r *compactRig) check(of topic) {
	packed := testkit.Ask[int](r.t, r.pool, `select count(*) from topics t join throughline.messages_of_topics m on m.topic_id = t.id
		where t.id = $1 and m.seq <= t.compacted_seq`, of.id)
	got := r.row(of)
	assert.Truef(r.t, got.Archived == packed && !got.Leased, "%d messages are packed, and the topic is %+v", packed, got)
}

// inputs are what the model read, without the frame around it.
func (r *compactRig) inputs() []string {
	var inputs []string
	for _, request := range r.model.Requests() {
		assert.Equal(r.t, "topic", request.Metadata["purpose"], "a call's purpose")
		inputs = append(inputs, request.Text)
	}
	return inputs
}

// said returns the numbers of the messages that an input shows as new.
func saidNumbers(input string) string {
	_, turns, _ := strings.Cut(input, "=== NEW_TURNS ===")
	var numbers []string
	for line := range strings.SplitSeq(turns, "\n") {
		for _, prefix := range []string{"User: Question ", "Assistant: Answer "} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				number, _, _ := strings.Cut(rest, " ")
				numbers = append(numbers, number)
			}
		}
	}
	return strings.Join(numbers, " ")
}
