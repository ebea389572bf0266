package jobs

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// A long backlog is folded piece by piece. River stores an id as the arguments of a fold, and numbers as its output.
func TestLongBacklogIsFoldedPieceByPiece(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.limits.FoldInputTokens = 1500
	const turns = 150
	chatID := r.chat(turns, 10)
	testkit.Exec(t, r.pool, `create table written (what text, by xid8 default pg_current_xact_id())`)
	testkit.Exec(t, r.pool, `create function note() returns trigger language plpgsql security definer as $$ begin insert into public.written
		values (tg_table_name); return null; end $$`)
	testkit.Exec(t, r.pool, `create trigger note after insert on conversation_brief_revisions for each row execute function note()`)
	testkit.Exec(t, r.pool, `create trigger note after insert on river.river_job for each row when (new.kind = 'fold_brief') execute function note()`)
	r.enqueue(chatID)
	r.work()
	r.awaitIdle()
	r.checkFoldedOnce(chatID, turns)
	folds := testkit.Ask[int](t, r.pool, "select count(*) from conversation_brief_revisions")
	covered := testkit.Ask[int64](t, r.pool, "select covered_seq from conversation_briefs")
	assert.Truef(t, folds >= 5 && covered >= 2*turns-20, "%d folds cover %d of %d messages", folds, covered, 2*turns)
	testkit.Want(t, r.pool, `{"chat_id": "`+chatID.String()+`"}`, "select string_agg(distinct args::text, '') from river.river_job where kind = 'fold_brief'")
	output := testkit.Ask[map[string]any](t, r.pool, "select metadata -> 'output' from river.river_job where kind = 'fold_brief' order by id limit 1")
	for name, want := range map[string]any{"result": "done", "version": 1.0, "seq_from": 1.0, "prompt_ref": "built-in@1", "model": "small"} {
		assert.Truef(t, output[name] == want, "the output says %s is %v, want %v", name, output[name], want)
	}
	testkit.Want(t, r.pool, false, "select bool_or(j::text like '%practise%') from river.river_job j")
	// There is one job for each fold; each but the first was inserted by the transaction of the fold before
	// it.
	testkit.Want(t, r.pool, folds, "select count(*) from river.river_job where kind = 'fold_brief'")
	testkit.Want(t, r.pool, folds-1, `select count(*) from written r join written j using (by) where r.what <> 'river_job' and j.what = 'river_job'`)
}

func TestOurMigrationsAreRivers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Schema: Schema})
	require.NoError(t, err)
	got, err := migrator.Validate(t.Context(), nil)
	assert.Truef(t, err == nil && got.OK, "%+v, %v", got, err)
}

// The chat of a job that ends without a summary is put off: until it is time neither the sweep nor a reply nor another job
// brings the model a call. A summary that was refused before ends the job at once, a model that fails ends
// it at the last attempt.
func TestChatOfAFailedJobIsPutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault                   offline.Fault
		attempt, before         int
		state, failure, message string
	}{
		"refused again":  {offline.FaultNone, 0, 2, "cancelled", "refused: none", "refused twice: none"},
		"a model's fail": {offline.Fault401, maxAttempts - 1, 0, "discarded", "failed", "key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var up atomic.Bool
			r := newRig(t, func(*offline.Request) offline.Answer {
				if up.Load() {
					return offline.Answer{}
				}
				return offline.Answer{Fault: c.fault}
			})
			chatID := r.chat(7, 10)
			r.enqueue(chatID)
			testkit.Exec(t, r.pool, "update river.river_job set attempt = $1", c.attempt)
			testkit.Exec(t, r.pool, `insert into throughline.work (kind, key, user_id, failures, failure, failing_since, retry_at)
				select 'fold', $2, $3, $1, 'x', now(), now() where $1 > 0`, c.before, chatID, r.user)
			r.work(sweeping)
			testkit.Await(t, r.pool, "the job ends", 1,
				"select count(*) from river.river_job where kind = 'fold_brief' and state = $1::river.river_job_state and errors::text like '%' || $2 || '%'",
				c.state, c.message)
			testkit.Want(t, r.pool, strconv.Itoa(c.before+1)+c.failure,
				"select failures || failure from throughline.work where retry_at > now() + interval '4 minutes'")
			testkit.Want(t, r.pool, true, `select version = 0 and covered_seq = 0
				and not exists (select from throughline.work where lease_token is not null) from conversation_briefs`)
			calls := len(r.model.Requests())
			up.Store(true)
			r.say(chatID, 8, 8, 10)
			r.awaitRuns("sweep_briefs", 2)
			n := r.count("fold_brief")
			assert.Truef(t, n == 1, "%d jobs", n)
			r.enqueue(chatID)
			r.awaitIdle()
			n = len(r.model.Requests())
			assert.Equalf(t, calls, n, "the model was asked %d times too soon", n-calls)
			testkit.Exec(t, r.pool, "update throughline.work set retry_at = now()")
			r.awaitVersion(chatID, 1)
			r.checkRanges(chatID)
		})
	}
}

func TestNextRetryIsCapped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempt int
		least   time.Duration
	}{{0, time.Second}, {1, time.Second}, {2, 2 * time.Second}, {3, 4 * time.Second}, {6, 32 * time.Second}, {7, time.Minute}, {64,
		time.Minute}, {maxAttempts, time.Minute}} {
		seen := map[time.Duration]bool{}
		for range 100 {
			before := time.Now()
			wait := nextRetry(c.attempt).Sub(before)
			require.Truef(t, wait >= c.least && wait <= c.least+c.least/4+time.Second,
				"after attempt %d it waits %s, want %s and at most a quarter more", c.attempt, wait, c.least)
			seen[wait] = true
		}
		assert.Truef(t, len(seen) >= 2, "after attempt %d all wait the same", c.attempt)
	}
}

// Through a transaction pooler there are no notifications, and each transaction may run on another
// connection: jobs are found by polling, and the folds are the same.
func TestFoldsThroughTransactionPooler(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(20, 10)
	r.enqueue(chatID)
	r.dsn = testkit.NewTransactionPooler(t, r.db)
	r.work(func(_ *brief.Config, c *WorkerConfig) {
		c.PollOnly, c.SweepInterval = true, 200*time.Millisecond
	})
	r.awaitVersion(chatID, 1)
	r.awaitIdle()
	r.checkFoldedOnce(chatID, 20)
	later := r.chat(10, 10) // found by the sweep
	r.awaitVersion(later, 1)
}
