package jobs

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestLongBacklogIsFoldedPieceByPiece(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.limits.FoldInputTokens = 4000
	const turns = 500
	chatID := r.chat(turns, 10)
	testkit.Exec(t, r.pool, `create table written (what text, by xid8 default pg_current_xact_id())`)
	testkit.Exec(t, r.pool, `create function note() returns trigger language plpgsql security definer as $$ begin insert into public.written values (tg_table_name); return null; end $$`)
	testkit.Exec(t, r.pool, `create trigger note after insert on conversation_brief_revisions for each row execute function note()`)
	testkit.Exec(t, r.pool, `create trigger note after insert on river.river_job for each row when (new.kind = 'fold_brief') execute function note()`)
	r.enqueue(chatID)
	r.work(nil)
	r.awaitIdle()
	r.checkFoldedOnce(chatID, turns)
	folds := testkit.Ask[int](t, r.pool, "select count(*) from conversation_brief_revisions")
	if covered := testkit.Ask[int64](t, r.pool, "select covered_seq from conversation_briefs"); folds < 5 || covered < 2*turns-20 {
		t.Errorf("%d folds cover %d of %d messages", folds, covered, 2*turns)
	}
	// There is one job for each fold; each but the first was inserted by the transaction of the fold before
	// it.
	if jobs := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief'"); jobs != folds {
		t.Errorf("%d jobs for %d folds", jobs, folds)
	}
	if together := testkit.Ask[int](t, r.pool, `select count(*) from written r join written j using (by) where r.what <> 'river_job' and j.what = 'river_job'`); together != folds-1 {
		t.Errorf("%d of %d jobs were inserted in the transaction of the fold before", together, folds-1)
	}
}

// River stores an id as the arguments of a fold, and numbers as its output.
func TestJobShowsNumbersAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(12, 10)
	r.enqueue(chatID)
	r.work(nil)
	r.awaitIdle()
	if got := testkit.Ask[string](t, r.pool, "select string_agg(distinct args::text, '') from river.river_job where kind = 'fold_brief'"); got != `{"chat_id": "`+chatID.String()+`"}` {
		t.Errorf("the arguments are %s", got)
	}
	var output map[string]any
	raw := testkit.Ask[string](t, r.pool, "select metadata ->> 'output' from river.river_job where kind = 'fold_brief' order by id limit 1")
	if err := json.Unmarshal([]byte(raw), &output); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"result": "done", "kind": "fold", "version": 1.0, "seq_from": 1.0, "prompt_ref": "built-in@1", "model": "small"} {
		if output[name] != want {
			t.Errorf("the output says %s is %v, want %v", name, output[name], want)
		}
	}
	if all := testkit.Ask[string](t, r.pool, "select string_agg(j::text, ' ') from river.river_job j"); strings.Contains(all, "practise") {
		t.Errorf("River's table holds somebody's words: %s", all)
	}
}

func TestOurMigrationsAreRivers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Schema: Schema})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := migrator.Validate(t.Context(), nil); err != nil || !got.OK {
		t.Errorf("%+v, %v", got, err)
	}
}

// However many jobs and workers there are for one chat, it is folded once. The jobs bypass the unique key, as
// those of a rescue or an operator may.
func TestDuplicateJobsFoldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chats := make([]uuid.UUID, 200)
	for i := range chats {
		chats[i] = r.chat(7, 10)
	}
	for range 3 {
		testkit.Exec(t, r.pool, `insert into river.river_job (kind, queue, max_attempts, args) select 'fold_brief', 'memory', 2000, jsonb_build_object('chat_id', id) from chats`)
	}
	first, second := r.work(nil), r.work(nil)
	r.awaitIdle()
	if got := testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where version = 1 and lease_token is null"); got != len(chats) {
		t.Errorf("%d of %d chats were folded exactly once", got, len(chats))
	}
	if got := testkit.Ask[int](t, r.pool, "select count(*) from conversation_brief_revisions"); got != len(chats) {
		t.Errorf("%d revisions", got)
	}
	if got := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief' and state <> 'completed'"); got != 0 {
		t.Errorf("%d jobs did not complete", got)
	}
	if a, b := counted(t, first, "fold", "done"), counted(t, second, "fold", "done"); a+b != float64(len(chats)) {
		t.Errorf("the metrics count %v and %v folds", a, b)
	}
}

// counted returns throughline_folds_total of a worker.
func counted(t *testing.T, w *worker, kind, result string) float64 {
	t.Helper()
	return testkit.Measured(t, w.metrics.Folds.WithLabelValues(kind, result))
}

// A second job is not inserted for a chat while the first is unfinished.
func TestOneUnfinishedJobPerChat(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(7, 10)
	r.enqueue(chatID, chatID, chatID)
	if got := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job"); got != 1 {
		t.Errorf("%d jobs", got)
	}
	r.work(nil)
	r.awaitVersion(chatID, 1)
	r.awaitIdle()
	r.enqueue(chatID)
	if got := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief'"); got != 2 {
		t.Errorf("%d jobs, want a second one after the first completed", got)
	}
}

// The job of a chat that another fold has locked runs again soon, and uses up no attempt.
func TestBusyChatIsSnoozed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(7, 10)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select pg_advisory_xact_lock(hashtextextended('brief:' || $1::text, 0))", chatID); err != nil {
		t.Fatal(err)
	}
	r.enqueue(chatID)
	w := r.work(nil)
	events, cancel := w.Subscribe(river.EventKindJobSnoozed, river.EventKindJobCompleted, river.EventKindJobFailed)
	defer cancel()
	if event := testkit.Receive(t, "an event of River", events); event.Kind != river.EventKindJobSnoozed || event.Job.Attempt != 0 {
		t.Errorf("the job was %s after attempt %d", event.Kind, event.Job.Attempt)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitVersion(chatID, 1)
}

// A rescued job folds while its first worker still runs, as after a pause of the whole machine. The first
// worker's summary comes too late and is discarded.
func TestRescuedJobWhileTheFirstStillRuns(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var calls atomic.Int64
	r := newRig(t, func(*offline.Request) offline.Answer {
		if calls.Add(1) == 1 {
			return offline.Answer{Text: "The first worker wrote this summary of all the turns.", Gate: gate}
		}
		return offline.Answer{}
	})
	chatID := r.chat(7, 10)
	r.enqueue(chatID)
	paused := r.work(func(f *brief.Config, c *WorkerConfig) {
		sweeping(f, c)
		f.Lease, c.Concurrency = time.Hour, 1 // it renews too late, and takes no second job
	})
	r.model.AwaitRequest(t, "the first worker asks", func(offline.Request) bool { return true })
	second := r.work(sweeping)
	testkit.Exec(t, r.pool, "update conversation_briefs set lease_until = now() - interval '1 second'")
	r.awaitVersion(chatID, 1)
	close(gate)
	testkit.Eventually(t, "the first worker is through", func() bool { return counted(t, paused, "fold", "lost") == 1 })
	r.awaitIdle()
	if got := testkit.Ask[int64](t, r.pool, "select version from conversation_briefs"); got != 1 {
		t.Errorf("version %d", got)
	}
	if got := testkit.Ask[string](t, r.pool, "select brief ->> 'global_summary' from conversation_briefs"); strings.Contains(got, "first worker") {
		t.Error("the late summary was kept")
	}
	if counted(t, second, "fold", "done") != 1 {
		t.Error("the second worker did not fold")
	}
	r.checkRanges(chatID)
}

// While the summarizer is down no job runs out of attempts; once it is back, the backlog is folded.
func TestSummarizerDownAndBack(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	r := newRig(t, func(*offline.Request) offline.Answer {
		if up.Load() {
			return offline.Answer{}
		}
		return offline.Answer{Fault: offline.Fault401}
	})
	chats := []uuid.UUID{r.chat(7, 10), r.chat(20, 10), r.chat(7, 10)}
	r.enqueue(chats...)
	r.work(nil)
	testkit.Eventually(t, "each fold failed twice", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief' and cardinality(errors) >= 2") == len(chats)
	})
	if got := testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where version > 0 or covered_seq > 0"); got != 0 {
		t.Errorf("%d briefs changed without a summary", got)
	}
	r.say(chats[0], 8, 9, 10) // life goes on
	up.Store(true)
	r.awaitIdle()
	for _, chatID := range chats {
		r.awaitVersion(chatID, 1)
		r.checkRanges(chatID)
	}
	if got := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief' and (state <> 'completed' or attempt >= max_attempts)"); got != 0 {
		t.Errorf("%d jobs gave up", got)
	}
}

// A summary that is refused twice leaves the brief unchanged and ends the job. The chat is put off: until it is time
// neither the sweep nor a reply nor another job brings the model a call.
func TestSummaryRefusedTwice(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	r := newRig(t, func(*offline.Request) offline.Answer {
		if down.Load() {
			return offline.Answer{Fault: offline.FaultNone}
		}
		return offline.Answer{}
	})
	chatID := r.chat(7, 10)
	r.enqueue(chatID)
	w := r.work(sweeping)
	r.awaitVersion(chatID, 1)
	r.awaitIdle()
	const whole = "select brief::text || version || '/' || covered_seq from conversation_briefs"
	before := testkit.Ask[string](t, r.pool, whole)

	down.Store(true)
	events, cancel := w.Subscribe(river.EventKindJobCancelled)
	defer cancel()
	r.say(chatID, 8, 14, 10) // the sweep finds it
	event := testkit.Receive(t, "an event of River", events)
	if last := event.Job.Errors[len(event.Job.Errors)-1].Error; !strings.Contains(last, "refused twice: none") {
		t.Errorf("the job's error is %q", last)
	}
	if got := testkit.Ask[string](t, r.pool, whole); got != before || testkit.Ask[bool](t, r.pool, "select lease_token is not null from conversation_briefs") {
		t.Errorf("the brief was %s and is %s", before, got)
	}
	if got := testkit.Ask[string](t, r.pool, "select fold_failures || fold_failure from conversation_briefs where retry_at > now() + interval '4 minutes'"); got != "1refused: none" {
		t.Errorf("the chat is put off as %q", got)
	}
	down.Store(false)
	calls := len(r.model.Requests())
	r.say(chatID, 15, 15, 10)
	r.enqueue(chatID)
	r.awaitIdle()
	r.awaitSweep()
	if n := len(r.model.Requests()); n != calls || testkit.Ask[int64](t, r.pool, "select version from conversation_briefs") != 1 {
		t.Errorf("the model was asked %d times too soon", n-calls)
	}
	testkit.Exec(t, r.pool, "update conversation_briefs set retry_at = now()")
	r.awaitVersion(chatID, 2)
	if got := testkit.Ask[int](t, r.pool, "select fold_failures from conversation_briefs where retry_at is null"); got != 0 {
		t.Errorf("%d failures are left after a fold that succeeded", got)
	}
}

// awaitSweep waits until a sweep has begun and ended.
func (r *rig) awaitSweep() {
	r.t.Helper()
	since := testkit.Ask[time.Time](r.t, r.pool, "select clock_timestamp()")
	testkit.Eventually(r.t, "a sweep", func() bool {
		return testkit.Ask[bool](r.t, r.pool, "select exists (select from river.river_job where kind = 'sweep_briefs' and state = 'completed' and attempted_at > $1)", since)
	})
}

func TestNextRetryIsCapped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempt int
		least   time.Duration
	}{{0, time.Second}, {1, time.Second}, {2, 2 * time.Second}, {3, 4 * time.Second}, {6, 32 * time.Second}, {7, time.Minute}, {64, time.Minute}, {maxAttempts, time.Minute}} {
		seen := map[time.Duration]bool{}
		for range 100 {
			before := time.Now()
			wait := nextRetry(c.attempt).Sub(before)
			if wait < c.least || wait > c.least+c.least/4+time.Second {
				t.Fatalf("after attempt %d it waits %s, want %s and at most a quarter more", c.attempt, wait, c.least)
			}
			seen[wait] = true
		}
		if len(seen) < 2 {
			t.Errorf("after attempt %d all wait the same", c.attempt)
		}
	}
}

// Through a transaction pooler there are no notifications, and each transaction may run on another
// connection: jobs are found by polling, and the folds are the same.
func TestFoldsThroughTransactionPooler(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(60, 10)
	r.enqueue(chatID)
	r.dsn = testkit.NewTransactionPooler(t, r.db)
	r.work(func(_ *brief.Config, c *WorkerConfig) {
		c.PollOnly, c.SweepInterval = true, 200*time.Millisecond
	})
	r.awaitVersion(chatID, 1)
	r.awaitIdle()
	r.checkFoldedOnce(chatID, 60)
	later := r.chat(10, 10) // found by the sweep
	r.awaitVersion(later, 1)
}
