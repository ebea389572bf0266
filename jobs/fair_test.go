package jobs

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// longChat stores a chat whose first message takes several pieces.
func (r *rig) longChat() uuid.UUID {
	r.t.Helper()
	chatID := r.chatOf(r.user, 1, 250)
	r.say(chatID, 2, 4, 1)
	return chatID
}

// enqueueImported inserts folds as an import does.
func (r *rig) enqueueImported(chatIDs ...uuid.UUID) {
	r.t.Helper()
	for _, chatID := range chatIDs {
		err := pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error { return EnqueueImported(r.insert)(r.t.Context(), tx, chatID) })
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// The folds of a user's many long chats, which the model takes its time over, do not hold those of another user, who
// said little, nor those of the user's own chat in which there is talk now.
func TestLongImportDoesNotHoldOthers(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if strings.Contains(request.Text, "slowly1 slowly1") {
			return offline.Answer{Text: "They practised etude 1, and were slow at it all day long.", Gate: slow}
		}
		return offline.Answer{}
	})
	const chats = 21
	other := testkit.NewUser(t, r.db)
	long := make([]uuid.UUID, chats)
	for i := range long {
		long[i] = r.longChat()
	}
	r.enqueueImported(long...)
	r.work(func(f *brief.Config, c *WorkerConfig) { f.FoldsPerUser, c.Concurrency = 3, 4 })
	testkit.Eventually(t, "every job was tried, and two are at work", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where state = 'running' or (metadata ->> 'snoozes')::int > 0") == chats &&
			testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where lease_until > now()") == 2
	})

	ordinary := r.chatOf(other, 20, 0)
	talk := r.chatOf(r.user, 20, 0)
	r.enqueue(ordinary, talk)
	r.awaitVersion(ordinary, 1)
	r.awaitVersion(talk, 1)
	if done := testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where version > 0"); done != 2 {
		t.Errorf("%d chats are folded, want those two alone", done)
	}

	// Then the import goes on, two at a time, and each call is made once.
	close(slow)
	most := 0
	testkit.Eventually(t, "all are folded", func() bool {
		most = max(most, testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where lease_until > now() and chat_id = any($1)", long))
		testkit.Exec(t, r.pool, "update river.river_job set scheduled_at = now(), state = 'available' where state = 'scheduled'") // not to wait for minutes
		return testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where version = 0") == 0
	})
	r.awaitIdle()
	if most > 2 {
		t.Errorf("%d chats of the import were folded at once", most)
	}
	for _, chatID := range long {
		r.checkFoldedOnce(chatID, 4)
	}
	calls := len(r.model.Requests())
	if billed := testkit.Ask[int](t, r.pool, "select sum((details ->> 'calls')::int) from conversation_brief_revisions"); billed != calls {
		t.Errorf("%d calls were made, %d are in the revisions", calls, billed)
	}
}

// newRigStuckAtThirdCall has the job of a long chat, whose third call gets no answer before the test ends.
func newRigStuckAtThirdCall(t *testing.T) (*rig, uuid.UUID) {
	t.Helper()
	never := make(chan struct{})
	var calls atomic.Int64
	r := newRig(t, func(*offline.Request) offline.Answer {
		if calls.Add(1) == 3 {
			return offline.Answer{Text: "The worker never hears this answer.", Gate: never}
		}
		return offline.Answer{}
	})
	t.Cleanup(func() { close(never) })
	chatID := r.longChat()
	r.enqueue(chatID)
	return r, chatID
}

// A worker dies while it folds a long message: the next one goes on at the piece that was not done.
func TestNextWorkerGoesOnAtThePiece(t *testing.T) {
	t.Parallel()
	r, chatID := newRigStuckAtThirdCall(t)
	r.work(func(f *brief.Config, c *WorkerConfig) {
		sweeping(f, c)
		f.Lease, c.Concurrency = time.Hour, 1 // it renews too late, and takes no second job
	})
	testkit.Eventually(t, "the third call", func() bool { return len(r.model.Requests()) == 3 })
	if got := testkit.Ask[string](t, r.pool, "select pieces_done || ' ' || (pieces > 3)::text from inspect.briefs"); got != "2 true" {
		t.Errorf("done are %s", got)
	}
	testkit.Exec(t, r.pool, "update conversation_briefs set lease_until = now() - interval '1 second'") // as if the machine were gone
	r.work(sweeping)
	r.awaitVersion(chatID, 1)
	pieces := testkit.Ask[int](t, r.pool, "select (details ->> 'calls')::int from conversation_brief_revisions where version = 1")
	requests := r.model.Requests()
	if len(requests) < pieces+1 || requests[2].Text != requests[3].Text {
		t.Errorf("%d requests for %d pieces; the second worker began with %.200s", len(requests), pieces, requests[3].Text)
	}
	for i, request := range requests[:pieces+1] {
		for j, earlier := range requests[:i] {
			if request.Text == earlier.Text && (i != 3 || j != 2) {
				t.Errorf("call %d repeats call %d", i, j)
			}
		}
	}
}

// A worker that is stopped during a long fold keeps the pieces that are done, and uses up no attempt.
func TestStoppedWorkerUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	r, chatID := newRigStuckAtThirdCall(t)
	w := r.work(nil)
	testkit.Eventually(t, "the third call", func() bool { return len(r.model.Requests()) == 3 })
	w.stop()
	if got := testkit.Ask[string](t, r.pool, `select concat_ws(' ', j.state, j.attempt, cardinality(j.errors), d.pieces_done, b.lease_token is null)
		from river.river_job j, conversation_brief_drafts d, conversation_briefs b where j.kind = 'fold_brief'`); got != "available 0 2 t" {
		t.Errorf("it left %s", got)
	}
	r.work(nil)
	r.awaitVersion(chatID, 1)
}

// A reply raises its chat's job before those of imports; one that waits because it failed still waits.
func TestReplyRaisesTheWaitingJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(7, 10)
	const job = "select concat_ws(' ', priority, state, scheduled_at <= now()) from river.river_job"
	r.enqueueImported(chatID)
	if got := testkit.Ask[string](t, r.pool, job); got != "3 available t" {
		t.Errorf("an import's job is %s", got)
	}
	for state, want := range map[string]string{"available": "1 available f", "scheduled": "1 available t", "retryable": "1 retryable f", "running": "1 running f"} {
		testkit.Exec(t, r.pool, "update river.river_job set priority = 3, state = $1::river.river_job_state, scheduled_at = now() + interval '1 hour'", state)
		r.enqueueImported(chatID)
		if got := testkit.Ask[string](t, r.pool, job); got != "3 "+state+" f" {
			t.Errorf("after another import the job that was %s is %s", state, got)
		}
		r.enqueue(chatID)
		if got := testkit.Ask[string](t, r.pool, job); got != want {
			t.Errorf("after a reply the job that was %s is %s, want %s", state, got, want)
		}
	}
}

// Jobs without a place ask as often as they have waited, so that thousands of them are no load; one that somebody is
// waiting for asks every few seconds.
func TestJobsWithoutAPlaceAskSeldom(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		priority           int
		age, least, atMost time.Duration
	}{
		{priorityNow, -time.Minute, time.Second / 2, 1500 * time.Millisecond},
		{priorityNow, 2 * time.Second, time.Second, 3 * time.Second},
		{priorityNow, time.Hour, 2 * time.Second, 8 * time.Second},
		{priorityLater, 0, time.Second / 2, 1500 * time.Millisecond},
		{priorityLater, time.Minute, 30 * time.Second, 90 * time.Second},
		{priorityLater, 24 * time.Hour, 150 * time.Second, 450 * time.Second},
	} {
		row := &rivertype.JobRow{Priority: c.priority, CreatedAt: now.Add(-c.age)}
		for range 100 {
			if wait := untilTurn(row, now); wait < c.least || wait > c.atMost {
				t.Fatalf("priority %d, after %s: it waits %s", c.priority, c.age, wait)
			}
		}
	}
}

// A job whose workers die until it has no attempt left ends, and its chat is left alone for a while.
func TestChatThatKillsItsWorkersIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(7, 10)
	r.enqueue(chatID)
	testkit.Exec(t, r.pool, `update river.river_job set state = 'running', attempt = max_attempts, attempted_at = now() - interval '1 minute', attempted_by = '{dead}'`)
	r.work(sweeping)
	testkit.Eventually(t, "the chat is put off", func() bool {
		return testkit.Ask[bool](t, r.pool, "select fold_failure = 'worker died' and retry_at > now() + interval '59 minutes' from conversation_briefs where fold_failures = 1 union all select false limit 1")
	})
	r.awaitSweep()
	if got := testkit.Ask[string](t, r.pool, "select string_agg(state::text, ' ') from river.river_job where kind = 'fold_brief'"); got != "discarded" || len(r.model.Requests()) != 0 {
		t.Errorf("the jobs are %s, the model was asked %d times", got, len(r.model.Requests()))
	}
	testkit.Exec(t, r.pool, "update conversation_briefs set retry_at = now()")
	r.awaitVersion(chatID, 1)
}

// A job whose model fails until it has no attempt left is discarded, and the sweep does not insert the next one at once.
func TestDiscardedJobIsNotInsertedAtOnce(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	r := newRig(t, func(*offline.Request) offline.Answer {
		if up.Load() {
			return offline.Answer{}
		}
		return offline.Answer{Fault: offline.Fault401}
	})
	chatID := r.chat(7, 10)
	r.enqueue(chatID)
	testkit.Exec(t, r.pool, "update river.river_job set attempt = max_attempts - 1")
	r.work(sweeping)
	testkit.Eventually(t, "the job is discarded", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief' and state = 'discarded'") == 1
	})
	asked := len(r.model.Requests())
	r.awaitSweep()
	r.awaitSweep()
	if n := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief'"); n != 1 || len(r.model.Requests()) != asked {
		t.Errorf("%d jobs, %d more calls", n, len(r.model.Requests())-asked)
	}
	up.Store(true)
	testkit.Exec(t, r.pool, "update conversation_briefs set retry_at = now()")
	r.awaitVersion(chatID, 1)
}

// Chats that are due by their counters and have nothing to fold get one job each, not one with every sweep; a message
// makes them due again.
func TestNothingToFoldIsSettled(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const chats = 20
	ids := make([]uuid.UUID, chats)
	for i := range ids {
		ids[i] = r.chat(1, 1)
	}
	testkit.Exec(t, r.pool, "update conversation_briefs set pending_tokens = 9999, pending_turns = 50") // wrong
	w := r.work(sweeping)
	testkit.Eventually(t, "all are settled", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where settled_turns = 1 and pending_turns = 1") == chats
	})
	testkit.Exec(t, r.pool, `update conversation_briefs set pending_turns = 50, settled_turns = 50, pending_tokens = 9999, settled_tokens = 9999`) // due, and nothing changed since
	r.awaitSweep()
	r.awaitSweep()
	if n := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief'"); n != chats || counted(t, w, "fold", "nothing") != chats {
		t.Errorf("%d jobs for %d chats, %v found nothing", n, chats, counted(t, w, "fold", "nothing"))
	}
	r.say(ids[0], 2, 9, 10)
	r.awaitVersion(ids[0], 1)
}
