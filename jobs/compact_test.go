package jobs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// compacting makes a worker compact topics.
func (r *rig) compacting(change func(*pack.Config)) setup {
	r.t.Helper()
	model := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	r.t.Cleanup(model.Close)
	pool := r.open(5)
	config := pack.Config{
		Store: postgres.NewPacks(pool), Leases: postgres.NewWork(pool), Summarizer: model, Prompt: brief.PromptConfig{Model: "small"}, InputTokens: 8000,
		Settings: topics.Defaults(), Logger: r.logs.Logger(), Metrics: metrics.New(),
	}
	if change != nil {
		change(&config)
	}
	return func(_ *brief.Config, worker *WorkerConfig) { worker.Compactor = pack.New(config) }
}

// topicOf makes a topic of all turns of a chat.
func (r *rig) topicOf(chatID uuid.UUID) uuid.UUID {
	r.t.Helper()
	if err := postgres.NewTurnIndex(r.pool).RunIndexTurns(r.t.Context(), chatID, 0); err != nil {
		r.t.Fatal(err)
	}
	id := uuid.New()
	testkit.Exec(r.t, r.pool, `insert into topics (id, chat_id, user_id, number, title, title_seq, created_at, last_active_at, first_seq, last_seq, message_count)
		select $1, c.id, c.user_id, 1, 'Etudes', 1, now(), now(), 1, c.last_seq, c.message_count from chats c where c.id = $2`, id, chatID)
	testkit.Exec(r.t, r.pool, "update turn_index set topic_id = $1, topic_model = '' where chat_id = $2", id, chatID)
	return id
}

// insertCompact inserts the job as an assignment does; with one attempt unless it is 0.
func (r *rig) insertCompact(chatID, topicID uuid.UUID, attempts int) int64 {
	r.t.Helper()
	if attempts == 0 {
		err := pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error { return EnqueueCompact(r.insert)(r.t.Context(), tx, chatID, topicID) })
		if err != nil {
			r.t.Fatal(err)
		}
		return testkit.Ask[int64](r.t, r.pool, "select max(id) from river.river_job where kind = 'compact_topic'")
	}
	inserted, err := r.insert.Insert(r.t.Context(), CompactTopic{ChatID: chatID, TopicID: topicID}, &river.InsertOpts{MaxAttempts: attempts})
	if err != nil {
		r.t.Fatal(err)
	}
	return inserted.Job.ID
}

func (r *rig) awaitState(jobID int64, state string) {
	r.t.Helper()
	testkit.Await(r.t, r.pool, "the job is "+state, state, "select state from river.river_job where id = $1", jobID)
}

func (r *rig) outputOf(jobID int64) (report pack.Report) {
	r.t.Helper()
	output := testkit.Ask[string](r.t, r.pool, "select coalesce(metadata -> 'output', '{}')::text from river.river_job where id = $1", jobID)
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		r.t.Fatal(err)
	}
	if strings.Contains(output, "etude") {
		r.t.Errorf("the output holds what was said: %s", output)
	}
	return report
}

// A topic has one job, which inserts the next one as long as there is more to read. Each message is read once.
func TestTopicIsCompactedByItsJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "They practised."} })
	chatID := r.chat(30, 3)
	topicID := r.topicOf(chatID)
	job := r.insertCompact(chatID, topicID, 0)
	if again := r.insertCompact(chatID, topicID, 0); again != job {
		t.Error("a topic has two jobs")
	}
	r.work(r.compacting(func(c *pack.Config) { c.InputTokens, c.Turn = 600, 1 }))
	testkit.Await(t, r.pool, "the topic is packed", true, `select compacted_seq >= 48 and summary = 'They practised.'
		and not exists (select from river.river_job where kind = 'compact_topic' and finalized_at is null) from topics where id = $1`, topicID)
	if report := r.outputOf(job); report.Result != work.Done || report.Packed == 0 || report.Calls != 1 {
		t.Errorf("the output is %+v", report)
	}
	if n := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'compact_topic' and state = 'completed'"); n < 3 {
		t.Errorf("%d jobs", n)
	}
	var read strings.Builder
	for _, request := range r.model.Asked(offline.KindTopic) {
		read.WriteString(turnsOf(request.Text))
	}
	for turn := 1; turn <= 24; turn++ {
		if n := strings.Count(read.String(), mark("user", turn)); n != 1 {
			t.Errorf("turn %d was read %d times", turn, n)
		}
	}
	again := r.insertCompact(chatID, topicID, 0)
	r.awaitState(again, "completed")
	if report := r.outputOf(again); report.Result != work.Nothing {
		t.Errorf("once more: %+v", report)
	}
}

// The last attempt of a topic whose summaries are refused packs it without one. One whose model is away waits unpacked.
func TestTopicsWithoutASummaryArePutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer offline.Answer
		state  string
		packed int
	}{
		"refused": {offline.Answer{Text: "I can't help with that."}, "completed", 12},
		"away":    {offline.Answer{Fault: offline.FaultFailed}, "cancelled", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testkit.InOrder(c.answer))
			chatID := r.chat(8, 3)
			topicID := r.topicOf(chatID)
			job := r.insertCompact(chatID, topicID, 1)
			r.work(r.compacting(nil))
			r.awaitState(job, c.state)
			if report := r.outputOf(job); report.WithoutSummary != (c.packed > 0) || report.Packed != c.packed {
				t.Errorf("the output is %+v", report)
			}
			testkit.Want(t, r.pool, true, `select t.summary is null and t.compacted_seq = $2 and w.retry_at > now() and w.lease_token is null
				from topics t join throughline.work w on w.kind = 'compact' and w.key = t.id where t.id = $1`, topicID, c.packed)
		})
	}
}

// A worker was killed while the model worked: its lease runs out, and the sweep revives its job.
func TestCompactionOfAKilledWorkerIsDoneByAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "They practised."} })
	chatID := r.chat(8, 3)
	topicID := r.topicOf(chatID)
	job := r.insertCompact(chatID, topicID, 0)
	testkit.Exec(t, r.pool, `update river.river_job set state = 'running', attempt = 1, attempted_at = now() - interval '1 minute',
		attempted_by = '{killed}' where id = $1`, job)
	testkit.Lease(t, r.pool, "compact", topicID, r.user, "1 second")
	r.work(r.keepsTopics(nil), sweeping)
	r.awaitState(job, "completed")
	testkit.Want(t, r.pool, true, `select summary = 'They practised.' and compacted_seq = 12 and not exists (select from throughline.work)
		from topics where id = $1`, topicID)
	if n := len(r.model.Asked(offline.KindTopic)); n != 1 {
		t.Errorf("%d calls", n)
	}
}
