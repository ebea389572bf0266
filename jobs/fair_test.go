package jobs

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// longChat stores a chat whose first message takes several pieces.
func (r *rig) longChat() uuid.UUID {
	chatID := r.chatOf(r.user, 1, 250)
	r.say(chatID, 2, 4, 1)
	return chatID
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
	const chats = 8
	other := testkit.NewUser(t, r.db)
	long := make([]uuid.UUID, chats)
	for i := range long {
		long[i] = r.longChat()
	}
	r.enqueueAs(work.FoldBrief, work.Later, long...)
	r.work(func(f *brief.Config, c *WorkerConfig) { f.FoldsPerUser, c.Concurrency = 3, 4 })
	testkit.Eventually(t, "every job was tried, and two are at work", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where state = 'running' or (metadata ->> 'snoozes')::int > 0") == chats &&
			testkit.Ask[int](t, r.pool, "select count(*) from throughline.work where lease_until > now()") == 2
	})

	ordinary := r.chatOf(other, 20, 0)
	talk := r.chatOf(r.user, 20, 0)
	r.enqueue(ordinary, talk)
	r.awaitVersion(ordinary, 1)
	r.awaitVersion(talk, 1)
	testkit.Want(t, r.pool, 2, "select count(*) from conversation_briefs where version > 0")

	// Then the import goes on, two at a time, and each call is made once.
	close(slow)
	most := 0
	testkit.Eventually(t, "all are folded", func() bool {
		most = max(most, testkit.Ask[int](t, r.pool, "select count(*) from throughline.work where lease_until > now() and key = any($1)", long))
		testkit.Exec(t, r.pool, "update river.river_job set scheduled_at = now(), state = 'available' where state = 'scheduled'") // not to wait for minutes
		return testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where version = 0") == 0
	})
	r.awaitIdle()
	assert.Truef(t, most <= 2, "%d chats of the import were folded at once", most)
	for _, chatID := range long {
		r.checkFoldedOnce(chatID, 4)
	}
	calls := len(r.model.Requests())
	testkit.Want(t, r.pool, calls, "select sum((details ->> 'calls')::int) from conversation_brief_revisions")
}

// A worker that is stopped during a long fold keeps the pieces that are done, and uses up no attempt. The next one goes on at
// the piece that was not.
func TestStoppedWorkerUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	defer close(never)
	held := testkit.InOrder(offline.Answer{}, offline.Answer{}, offline.Answer{Text: "The worker never hears this answer.", Gate: never}, offline.Answer{})
	r := newRig(t, held)
	chatID := r.longChat()
	r.enqueue(chatID)
	w := r.work()
	testkit.Eventually(t, "the third call", func() bool { return len(r.model.Requests()) == 3 })
	w.stop()
	testkit.Want(t, r.pool, "available 0 2 t", `select concat_ws(' ', j.state, j.attempt, cardinality(j.errors), d.pieces_done,
		not exists (select from throughline.work))
		from river.river_job j, conversation_brief_drafts d where j.kind = 'fold_brief'`)
	r.work()
	r.awaitVersion(chatID, 1)
	seen := map[string]int{}
	for n, request := range r.model.Requests() {
		earlier, again := seen[request.Text]
		assert.Truef(t, !again || (n == 3 && earlier == 2), "call %d repeats call %d", n, earlier)
		seen[request.Text] = n
	}
	requests := r.model.Requests()
	assert.Truef(t, requests[2].Text == requests[3].Text, "the second worker began with %.200s", requests[3].Text)
}

// A reply raises its chat's job before those of imports; one that waits because it failed still waits.
func TestReplyRaisesTheWaitingJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(7, 10)
	const job = "select concat_ws(' ', priority, state, scheduled_at <= now()) from river.river_job"
	r.enqueueAs(work.FoldBrief, work.Later, chatID)
	testkit.Want(t, r.pool, "3 available t", job)
	for state, want := range map[string]string{"available": "1 available f", "scheduled": "1 available t", "retryable": "1 retryable f",
		"running": "1 running f"} {
		testkit.Exec(t, r.pool, "update river.river_job set priority = 3, state = $1::river.river_job_state, scheduled_at = now() + interval '1 hour'", state)
		r.enqueueAs(work.FoldBrief, work.Later, chatID)
		testkit.Want(t, r.pool, "3 "+state+" f", job)
		r.enqueue(chatID)
		testkit.Want(t, r.pool, want, job)
	}
}
