package topics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/memory/topics"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// rig is one database, one model, a user, and an engine that compacts.
type compactRig struct {
	t       *testing.T
	db      testkit.Database
	pool    *pgxpool.Pool
	model   *testkit.Model
	user    uuid.UUID
	config  topics.CompactorConfig
	engine  *topics.Compactor
	metrics *metrics.Metrics
	logs    *testkit.Log
	// next is how many jobs were inserted.
	next int
}

func newCompactRig(t *testing.T, script testkit.Script, change func(*topics.CompactorConfig)) *compactRig {
	t.Helper()
	db := testkit.NewDatabase(t)
	model := testkit.NewModel(t, script)
	pool, _, err := postgres.Open(t.Context(), db.DSN, 10)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	client := llm.New(llm.Settings{APIKey: "offline", BaseURL: model.BaseURL(), IdleTimeout: time.Minute})
	t.Cleanup(client.Close)
	r := &compactRig{t: t, db: db, pool: pool, model: model, user: testkit.NewUser(t, db), metrics: metrics.New(), logs: &testkit.Log{}}
	r.config = topics.CompactorConfig{
		Store: postgres.NewPacks(pool, r.insert), Leases: postgres.NewWork(pool), Summarizer: client, Prompt: brief.PromptConfig{Model: "small"},
		InputTokens: 8000, Settings: topics.Defaults(), Logger: r.logs.Logger(), Metrics: r.metrics,
	}
	if change != nil {
		change(&r.config)
	}
	r.engine = topics.NewCompactor(r.config)
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
	r.t.Helper()
	return r.topicIn(testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user), turns)
}

// topicIn makes a topic of so many turns at the end of a chat.
func (r *compactRig) topicIn(chatID uuid.UUID, turns int) topic {
	r.t.Helper()
	made := topic{chatID, uuid.New()}
	testkit.Exec(r.t, r.pool, `insert into topics (id, chat_id, user_id, number, title, title_seq, created_at, last_active_at, first_seq, last_seq)
		select $1, $2, $3, 1 + (select count(*) from topics where chat_id = $2), 'A topic', last_seq + 1, now(), now(), last_seq + 1, last_seq + 1
		from chats where id = $2`, made.id, chatID, r.user)
	r.goOn(made, turns)
	return made
}

// goOn adds turns to a topic, as an assignment does.
func (r *compactRig) goOn(in topic, turns int) {
	r.t.Helper()
	for range turns {
		seq := testkit.Ask[int64](r.t, r.pool, "select last_seq + 1 from chats where id = $1", in.chatID)
		r.say(in.chatID, "user", fmt.Sprintf("Question %d about bows?", seq))
		r.say(in.chatID, "assistant", fmt.Sprintf("Answer %d about rosin.", seq+1))
	}
	require.NoError(r.t, postgres.NewTurnIndex(r.pool).RunIndexTurns(r.t.Context(), in.chatID, 0))
	testkit.Exec(r.t, r.pool, "update turn_index set topic_id = $2, topic_model = '' where chat_id = $1 and topic_id is null", in.chatID, in.id)
	r.recount(in)
}

// fade archives a topic, as decay_topics does.
func (r *compactRig) fade(of topic) {
	r.t.Helper()
	archived, err := postgres.NewAssignments(r.pool, r.insert).Archive(r.t.Context(), of.chatID,
		func([]topics.Topic) ([]uuid.UUID, *time.Time) { return []uuid.UUID{of.id}, nil })
	require.Truef(r.t, err == nil && archived == 1, "%d topics archived, %v", archived, err)
}

func (r *compactRig) recount(in topic) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, `update topics t set last_seq = greatest(t.first_seq, (select max(last_seq) from turn_index where topic_id = t.id)),
		message_count = (select count(*) from throughline.messages_of_topics m where m.topic_id = t.id) where t.id = $1`, in.id)
}

func (r *compactRig) say(chatID uuid.UUID, role, content string) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4)", chatID, role, content, text.Tokens(content))
}

func (r *compactRig) compact(of topic) (topics.CompactReport, error) {
	return r.engine.Compact(r.t.Context(), of.chatID, of.id, work.Attempt{})
}

func (r *compactRig) insert(context.Context, pgx.Tx, work.Job) error {
	r.next++
	return nil
}

// mustCompact fails the test unless something was written.
func (r *compactRig) mustCompact(of topic) topics.CompactReport {
	r.t.Helper()
	report, err := r.compact(of)
	require.Truef(r.t, err == nil && report.Result == work.Done, "compact: %+v, %v\n%s", report, err, r.logs)
	r.check(of)
	return report
}

// wantNothing fails the test if a compaction finds anything to do.
func (r *compactRig) wantNothing(of topic) {
	r.t.Helper()
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
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), `select coalesce(summary, ''), summary_seq, compacted_seq, compacted_messages, stale, rehydrated,
		throughline.is_put_off('compact', id), throughline.is_at_work('compact', id), state = 'archived' from topics where id = $1`, of.id)
	require.NoError(r.t, err)
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[row])
	require.NoError(r.t, err)
	return got
}

func (r *compactRig) want(of topic, want row) {
	r.t.Helper()
	assert.Equal(r.t, "", cmp.Diff(want, r.row(of)), "the topic: (-want +got)\n")
}

// check checks that the packed messages are counted, and that the lease was given back.
func (r *compactRig) check(of topic) {
	r.t.Helper()
	packed := testkit.Ask[int](r.t, r.pool, `select count(*) from topics t join throughline.messages_of_topics m on m.topic_id = t.id
		where t.id = $1 and m.seq <= t.compacted_seq`, of.id)
	got := r.row(of)
	assert.Truef(r.t, got.Archived == packed && !got.Leased, "%d messages are packed, and the topic is %+v", packed, got)
}

// inputs are what the model read, without the frame around it.
func (r *compactRig) inputs() []string {
	r.t.Helper()
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
