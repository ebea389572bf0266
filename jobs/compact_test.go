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
	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// compacting makes a worker compact topics.
func (r *rig) compacting(change func(*pack.Config)) func(*brief.Config, *WorkerConfig) {
	r.t.Helper()
	model := llm.New(llm.Config{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	r.t.Cleanup(model.Close)
	config := pack.Config{
		Store: postgres.NewPacks(r.open(5)), Summarizer: model, Prompt: brief.PromptConfig{Model: "small"}, InputTokens: 8000,
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
	if err := postgres.NewTurnIndex(r.pool).IndexTurns(r.t.Context(), chatID); err != nil {
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

// topicCalls is how often the model was asked for a topic's summary. Folds ask it, too.
func (r *rig) topicCalls() (calls int) {
	for _, request := range r.model.Requests() {
		if request.Metadata["purpose"] == "topic" {
			calls++
		}
	}
	return calls
}

func (r *rig) awaitState(jobID int64, state string) {
	r.t.Helper()
	testkit.Eventually(r.t, "the job is "+state, func() bool {
		return testkit.Ask[string](r.t, r.pool, "select state from river.river_job where id = $1", jobID) == state
	})
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

func TestTopicIsCompactedByItsJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "They practised."} })
	chatID := r.chat(8, 3)
	topicID := r.topicOf(chatID)
	job := r.insertCompact(chatID, topicID, 0)
	if again := r.insertCompact(chatID, topicID, 0); again != job {
		t.Error("a topic has two jobs")
	}
	r.work(r.compacting(nil))
	r.awaitState(job, "completed")
	if report := r.outputOf(job); report.Result != lease.Done || report.Packed != 12 || report.Active != 4 || report.Calls != 1 {
		t.Errorf("the output is %+v", report)
	}
	if got := testkit.Ask[string](t, r.pool, "select summary || compacted_seq from topics where id = $1", topicID); got != "They practised.12" {
		t.Errorf("the topic is %s", got)
	}
	again := r.insertCompact(chatID, topicID, 0)
	r.awaitState(again, "completed")
	if report := r.outputOf(again); report.Result != lease.Nothing {
		t.Errorf("once more: %+v", report)
	}
}

func TestLongTopicHasOneJobAfterAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "They practised."} })
	chatID := r.chat(30, 3)
	topicID := r.topicOf(chatID)
	r.insertCompact(chatID, topicID, 0)
	r.work(r.compacting(func(c *pack.Config) { c.InputTokens, c.Turn = 600, 1 }))
	testkit.Eventually(t, "the topic is packed", func() bool {
		return testkit.Ask[bool](t, r.pool, `select compacted_seq >= 48 and not exists (select from river.river_job where kind = 'compact_topic' and finalized_at is null)
			from topics where id = $1`, topicID)
	})
	if n := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'compact_topic' and state = 'completed'"); n < 3 {
		t.Errorf("%d jobs", n)
	}
	var read strings.Builder
	for _, request := range r.model.Requests() {
		if request.Metadata["purpose"] == "topic" {
			read.WriteString(turnsOf(request.Text))
		}
	}
	for turn := 1; turn <= 24; turn++ {
		if n := strings.Count(read.String(), mark("user", turn)); n != 1 {
			t.Errorf("turn %d was read %d times", turn, n)
		}
	}
}

func TestTopicOfARefusingModelIsPackedWithoutSummary(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "I can't help with that."} })
	chatID := r.chat(8, 3)
	topicID := r.topicOf(chatID)
	job := r.insertCompact(chatID, topicID, 1)
	r.work(r.compacting(nil))
	r.awaitState(job, "completed")
	if report := r.outputOf(job); !report.WithoutSummary || report.Packed != 12 || len(report.Refusals) != 2 {
		t.Errorf("the output is %+v", report)
	}
	if !testkit.Ask[bool](t, r.pool, "select summary is null and compacted_messages = 12 and retry_at > now() + interval '5 hours' and lease_token is null from topics where id = $1", topicID) {
		t.Error("the topic is not packed, or not put off")
	}
}

func TestTopicOfAModelThatIsAwayIsPutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Fault: offline.FaultFailed} })
	chatID := r.chat(8, 3)
	topicID := r.topicOf(chatID)
	job := r.insertCompact(chatID, topicID, 1)
	r.work(r.compacting(nil))
	r.awaitState(job, "cancelled")
	if !testkit.Ask[bool](t, r.pool, "select archive is null and retry_at > now() and lease_token is null from topics where id = $1", topicID) {
		t.Error("the topic is packed, or not put off")
	}
}

// Two workers meet at a topic: one compacts it, the other comes back later.
func TestTopicIsCompactedByOneWorkerAtATime(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "They practised.", Gate: gate} })
	chatID := r.chat(8, 3)
	topicID := r.topicOf(chatID)
	first := r.insertCompact(chatID, topicID, 0)
	r.work(r.compacting(nil))
	r.work(r.compacting(nil))
	testkit.Eventually(t, "the model is asked", func() bool { return r.topicCalls() == 1 })
	// As after a rescue of a job whose worker lives.
	testkit.Exec(t, r.pool, "update river.river_job set state = 'available', unique_states = null where id = $1", first)
	testkit.Eventually(t, "the second worker finds the topic taken", func() bool {
		return testkit.Ask[bool](t, r.pool, "select coalesce((metadata ->> 'snoozes')::int, 0) >= 1 from river.river_job where id = $1", first)
	})
	close(gate)
	testkit.Eventually(t, "the topic is packed", func() bool {
		return testkit.Ask[bool](t, r.pool, "select compacted_seq = 12 and lease_token is null from topics where id = $1", topicID)
	})
	if n := r.topicCalls(); n != 1 {
		t.Errorf("%d calls\n%s", n, r.logs)
	}
}

func TestCompactionWithoutTopicsDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(8, 3)
	job := r.insertCompact(chatID, r.topicOf(chatID), 0)
	r.work(nil)
	r.awaitState(job, "completed")
	if n := r.topicCalls(); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// A worker was killed: before it took the lease, or while the model worked.
func TestCompactionOfAKilledWorkerIsDoneByAnother(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]string{
		"before its lease": "lease_token = null, lease_until = null",
		"with its lease":   "lease_token = gen_random_uuid(), lease_until = now() + interval '1 second'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Text: "They practised."} })
			chatID := r.chat(8, 3)
			topicID := r.topicOf(chatID)
			job := r.insertCompact(chatID, topicID, 0)
			testkit.Exec(t, r.pool, "update river.river_job set state = 'running', attempt = 1, attempted_at = now() - interval '1 minute', attempted_by = '{killed}' where id = $1", job)
			testkit.Exec(t, r.pool, "update topics set "+lease+" where id = $1", topicID)
			compacting := r.compacting(nil)
			r.work(func(folding *brief.Config, config *WorkerConfig) {
				compacting(folding, config)
				sweeping(folding, config)
				assigning := assign.Config{Store: postgres.NewAssignments(r.pool), Settings: topics.Defaults(), Mode: "on", Metrics: metrics.New(), Logger: r.logs.Logger()}
				config.Topics, config.TopicSweep = assign.New(assigning), postgres.NewTopicSweep(r.pool, "on", "", topics.Defaults().MaxMessages)
			})
			r.awaitState(job, "completed")
			if !testkit.Ask[bool](t, r.pool, "select summary = 'They practised.' and compacted_seq = 12 and lease_token is null from topics where id = $1", topicID) {
				t.Error("the topic is not compacted")
			}
			if n := r.topicCalls(); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}
