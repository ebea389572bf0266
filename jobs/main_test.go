package jobs

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// The tests mostly wait for River, so more of them run at once than there are cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // -parallel on the command line still decides
	testkit.Main(m)
}

// smallLimits fold after a few short turns.
var smallLimits = memory.Limits{
	KRawTurns: 2, MinTailTurns: 1, SummaryTokenCap: 200, PromptTokenBudget: 600, BridgeTokenBudget: 600,
	ChunkThreshold: 300, FoldInputTokens: 600,
}

// rig is one database, one offline model and a user, with the workers that a test starts.
type rig struct {
	t      *testing.T
	db     testkit.Database
	dsn    string // for the workers; the database's own unless a pooler stands before it
	limits memory.Limits
	model  *testkit.Model
	pool   *pgxpool.Pool
	user   uuid.UUID
	logs   *testkit.Log
	insert *Client
	// refuses makes it impossible to insert the job that follows another.
	refuses atomic.Bool
}

func newRig(t *testing.T, script testkit.Script) *rig {
	db := testkit.NewDatabase(t)
	r := &rig{t: t, db: db, dsn: db.DSN, limits: smallLimits, model: testkit.NewModel(t, script), user: testkit.NewUser(t, db), logs: &testkit.Log{}}
	r.pool = r.open(20)
	inserter, err := NewInserter(r.pool, r.logs.Logger())
	require.NoError(t, err)
	r.insert = inserter
	return r
}

func (r *rig) open(conns int) *pgxpool.Pool {
	pool, _, err := postgres.Open(r.t.Context(), r.dsn, conns)
	require.NoError(r.t, err)
	r.t.Cleanup(pool.Close)
	return pool
}

// store is what app gives to jobs.
type store struct {
	*postgres.Maintenance
	*postgres.Work
	*postgres.TurnIndex
}

// maintenance is the store of a worker, to change the due work.
func maintenance(config *WorkerConfig) *postgres.Maintenance { return config.Store.(store).Maintenance }

// worker is one running client.
type worker struct {
	*Client
	metrics *metrics.Metrics
	stop    func()
}

// setup alters the configuration of a worker.
type setup = func(*brief.Config, *WorkerConfig)

// work starts a worker.
func (r *rig) work(changes ...setup) *worker {
	pool := r.open(20)
	model := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	folding := brief.Config{
		Store: &postgres.Briefs{Pool: pool, Insert: r.inserting}, Leases: &postgres.Work{Pool: pool}, Summarizer: model,
		Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "small"}, Limits: r.limits, Logger: r.logs.Logger(), Metrics: metrics.New(),
	}
	config := WorkerConfig{
		Store:   store{postgres.NewMaintenance(pool, r.limits), &postgres.Work{Pool: pool}, &postgres.TurnIndex{Pool: pool}},
		Metrics: folding.Metrics, Logger: folding.Logger,
		Concurrency: 8, StopTimeout: time.Second, SweepInterval: time.Hour,
	}
	for _, change := range changes {
		change(&folding, &config)
	}
	config.Folder = brief.New(folding)
	client, err := NewWorker(pool, config)
	require.NoError(r.t, err)
	require.NoError(r.t, client.Start(context.Background()))
	w := &worker{Client: client, metrics: folding.Metrics, stop: sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		assert.NoError(r.t, client.Stop(ctx), "stop")
		model.Close()
	})}
	r.t.Cleanup(w.stop)
	return w
}

// sweeping makes a worker sweep all the time. YoungFold is longer than a busy machine needs to take a lease.
func sweeping(_ *brief.Config, config *WorkerConfig) {
	config.SweepInterval, config.YoungFold = 200*time.Millisecond, 2*time.Second
}

// chat stores a chat with the given number of turns through SQL. Each message begins with its mark.
func (r *rig) chat(turns, words int) uuid.UUID {
	return r.chatOf(r.user, turns, words)
}

func (r *rig) chatOf(user uuid.UUID, turns, words int) uuid.UUID {
	chatID := testkit.Ask[uuid.UUID](r.t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", user)
	r.say(chatID, 1, turns, words)
	return chatID
}

// mark returns the text that only this message contains.
func mark(role string, turn int) string { return fmt.Sprintf("<%s %04d>", role, turn) }

// say adds the turns with the numbers from and to, and those between.
func (r *rig) say(chatID uuid.UUID, from, to, words int) {
	rows := make([][]any, 0, 2*(to-from+1))
	for turn := from; turn <= to; turn++ {
		for _, role := range []string{"user", "assistant"} {
			content := fmt.Sprintf("%s I decided to practise etude %d%s.", mark(role, turn), turn, strings.Repeat(fmt.Sprintf(" slowly%d", turn), words))
			rows = append(rows, []any{chatID, role, content, text.Tokens(content)})
		}
	}
	_, err := r.pool.CopyFrom(r.t.Context(), pgx.Identifier{"messages"}, []string{"chat_id", "role", "content", "token_count"}, pgx.CopyFromRows(rows))
	require.NoError(r.t, err)
}

// enqueue inserts folds as saving a reply does.
func (r *rig) enqueue(chatIDs ...uuid.UUID) {
	r.enqueueAs(work.FoldBrief, work.Now, chatIDs...)
}

func (r *rig) enqueueAs(name string, priority int, chatIDs ...uuid.UUID) {
	for _, chatID := range chatIDs {
		r.insertJob(work.Job{Name: name, ChatID: chatID, Priority: priority})
	}
}

// insertJob inserts a job in a transaction, as those who need it do.
func (r *rig) insertJob(job work.Job) {
	require.NoError(r.t,
		pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error { return Insert(r.insert)(r.t.Context(), tx, job) }))
}

// count returns how many jobs of a kind there are.
func (r *rig) count(kind string) int {
	return testkit.Ask[int](r.t, r.pool, "select count(*) from river.river_job where kind = $1", kind)
}

// awaitRuns waits until a job has run that many more times, at least. A sweep that found nothing stays until the next one.
func (r *rig) awaitRuns(kind string, times int) {
	last := testkit.Ask[int64](r.t, r.pool, "select coalesce(max(id), 0) from river.river_job where kind = $1", kind)
	for range times {
		testkit.Eventually(r.t, kind+" runs", func() bool {
			id := testkit.Ask[int64](r.t, r.pool, "select coalesce(max(id), 0) from river.river_job where kind = $1 and state = 'completed'", kind)
			done := id > last
			last = max(last, id)
			return done
		})
	}
}

// awaitOutput waits for a job of a kind that did something, and reads its output.
func awaitOutput[T any](r *rig, kind, key string) T {
	const done = "kind = $1 and (metadata -> 'output' ->> $2)::int > 0"
	testkit.Await(r.t, r.pool, kind+" says what it did", true, "select exists (select from river.river_job where "+done+")", kind, key)
	return testkit.Ask[T](r.t, r.pool, "select metadata -> 'output' from river.river_job where "+done+" order by id limit 1", kind, key)
}

// awaitVersion waits until a chat's brief has a version.
func (r *rig) awaitVersion(chatID uuid.UUID, version int64) {
	testkit.Eventually(r.t, fmt.Sprintf("version %d of the brief", version), func() bool {
		return testkit.Ask[int64](r.t, r.pool, "select version from conversation_briefs where chat_id = $1", chatID) >= version
	})
}

// awaitIdle waits until there is no unfinished fold.
func (r *rig) awaitIdle() {
	testkit.Await(r.t, r.pool, "all jobs are done", 0, "select count(*) from river.river_job where finalized_at is null and queue = 'memory'")
}

// turnsOf returns the part of a fold's input that holds the new turns, or "" for another call.
func turnsOf(input string) string {
	_, turns, _ := strings.Cut(input, "=== NEW_TURNS ===")
	return turns
}

// checkFoldedOnce checks that the marks of a chat's covered messages are in exactly one fold's input each, in
// order, and the others in none, and that the revisions' ranges follow each other.
func (r *rig) checkFoldedOnce(chatID uuid.UUID, turns int) {
	r.t.Helper()
	var inputs []string
	for _, request := range r.model.Requests() {
		if request.PromptCacheKey == chatID.String() {
			inputs = append(inputs, turnsOf(request.Text))
		}
	}
	all := strings.Join(inputs, "")
	covered := testkit.Ask[int64](r.t, r.pool, "select covered_seq from conversation_briefs where chat_id = $1", chatID)
	at := -1
	for turn := 1; turn <= turns; turn++ {
		for half, role := range []string{"user", "assistant"} {
			want := 0
			if int64(2*turn-1+half) <= covered {
				want = 1
			}
			assert.Equalf(r.t, want, strings.Count(all, mark(role, turn)), "how often %s was folded", mark(role, turn))
			if place := strings.Index(all, mark(role, turn)); want == 1 && place < at {
				r.t.Errorf("%s was folded out of order", mark(role, turn))
			} else if want == 1 {
				at = place
			}
		}
	}
	r.checkRanges(chatID)
}

func (r *rig) checkRanges(chatID uuid.UUID) {
	wrong := testkit.Ask[int](r.t, r.pool, `select count(*) from (select version, seq_from, seq_to,
		lag(seq_to, 1, 0::bigint) over w as before, row_number() over w as n
		from conversation_brief_revisions where chat_id = $1 and kind = 'fold' window w as (order by version)) r
		where seq_from <> before + 1 or n <> version`, chatID)
	reached := testkit.Ask[bool](r.t, r.pool, `select coalesce(max(r.seq_to), 0) = b.covered_seq from conversation_briefs b
		left join conversation_brief_revisions r on r.chat_id = b.chat_id where b.chat_id = $1 group by b.covered_seq`, chatID)
	assert.Truef(r.t, wrong == 0 && reached, "%d revisions do not continue the one before; they reach the brief's place: %v", wrong, reached)
}
