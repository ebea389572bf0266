package jobs

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// What lacks a job is found: chats that are due by their size or by their limit of turns, whether they have expired or not,
// and briefs that were damaged by hand. Chats that are not due are left alone, and nothing is found again once it is done.
func TestSweepFindsWhatLacksAJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	due, expired, over := r.chat(7, 10), r.chat(7, 10), r.chat(4, 0)
	within, short, oneTurn, damaged := r.chat(4, 0), r.chat(2, 1), r.chat(1, 200), r.chat(1, 1)
	r.expire(expired, "1 minute")
	testkit.Exec(t, r.pool, "update chats set max_turns = case when id = $1 then 3 else 4 end where id in ($1, $2)", over, within)
	testkit.Exec(t, r.pool, "alter table conversation_briefs drop constraint conversation_briefs_valid")
	testkit.Exec(t, r.pool, `update conversation_briefs set brief = '{"global_summary": ["rubbish"]}' where chat_id = $1`, damaged)
	r.work(sweeping)
	for _, chatID := range []uuid.UUID{due, expired, over, damaged} {
		r.awaitVersion(chatID, 1)
	}
	r.awaitIdle()
	r.awaitRuns("sweep_briefs", 2)
	r.checkFoldedOnce(over, 4)
	testkit.Want(t, r.pool, r.limits.KRawTurns, "select pending_turns from conversation_briefs where chat_id = $1", over)
	testkit.Want(t, r.pool, true, "select bool_and(readable) from conversation_briefs")
	testkit.Want(t, r.pool, 0, "select count(*) from conversation_briefs where version > 0 and chat_id = any($1)", []uuid.UUID{within, short, oneTurn})
	assert.Equal(t, 3, r.count("fold_brief"), "folds")
	output := awaitOutput[map[string]any](r, "sweep_briefs", "inserted_folds")
	assert.Truef(t, output["inserted_folds"] == 3.0 && output["restored_briefs"] == 1.0, "the sweep says %v", output)
	testkit.Want(t, r.pool, "{}", "select string_agg(distinct args::text, '') from river.river_job where kind = 'sweep_briefs'")
	r.awaitRuns("sweep_briefs", 4)
	testkit.Await(t, r.pool, "the sweeps before are deleted", true, `select count(*) <= 2 from river.river_job
		where kind = 'sweep_briefs' and state = 'completed' and (metadata #>> '{output,inserted_folds}')::int = 0`)
}

// A reply whose server died is interrupted with the text of its deltas, and those of replies that are gone are deleted.
// Replies of living servers are left alone.
func TestSweepEndsAbandonedReplies(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	reply := func(lease string) uuid.UUID {
		id := testkit.Ask[uuid.UUID](t, r.pool, `insert into messages (chat_id, role, status, content, lease_until)
			values ($1, 'assistant', 'streaming', '', now() + $2::interval) returning id`, r.chat(1, 1), lease)
		r.record(id, "so ", "far, ", "Ägypten 👩‍👩‍👧.")
		return id
	}
	dead, alive := reply("-1 second"), reply("1 hour")
	r.record(uuid.New(), "some ", "words")
	w := r.work(sweeping)
	testkit.Await(t, r.pool, "the reply is interrupted", "interrupted so far, Ägypten 👩‍👩‍👧.",
		"select status || ' ' || content from messages where id = $1", dead)
	testkit.Want(t, r.pool, "streaming", "select status from messages where id = $1", alive)
	testkit.Await(t, r.pool, "the strays are gone", alive.String(), "select string_agg(distinct message_id::text, ' ') from message_deltas")
	testkit.Eventually(t, "the metric counts them", func() bool { return swept(t, w, "message") == 1 && swept(t, w, "delta") == 2 })
}

// record stores deltas of a running reply as its server does.
func (r *rig) record(messageID uuid.UUID, pieces ...string) {
	place := 0
	for _, piece := range pieces {
		testkit.Exec(r.t, r.pool, "insert into message_deltas (message_id, user_id, start_char, delta) values ($1, $2, $3, $4)", messageID, r.user, place, piece)
		place += len([]rune(piece))
	}
}

func swept(t *testing.T, w *worker, what string) float64 {
	return testkit.Measured(t, w.metrics.Swept.WithLabelValues(what))
}

// A long fold renews its lease, and the sweep leaves it alone.
func TestSweepLeavesLongFoldAlone(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, func(*offline.Request) offline.Answer {
		return offline.Answer{Text: "A summary that took its time.", Gate: gate}
	})
	chatID := r.chat(7, 10)
	r.enqueue(chatID)
	w := r.work(func(f *brief.Config, c *WorkerConfig) {
		sweeping(f, c)
		f.Lease, c.YoungFold = 10*time.Second, 10*time.Second // a busy machine renews the one and takes the other in time
	})
	r.model.AwaitRequest(t, "the fold asks", func(offline.Request) bool { return true })
	first := testkit.Ask[time.Time](t, r.pool, "select lease_until from throughline.work")
	testkit.Eventually(t, "the lease was renewed for longer than it first was", func() bool {
		return testkit.Ask[time.Time](t, r.pool, "select lease_until from throughline.work").Sub(first) > 10*time.Second
	})
	close(gate)
	r.awaitVersion(chatID, 1)
	r.awaitIdle()
	if n := len(r.model.Requests()); n != 1 || swept(t, w, "job") != 0 || swept(t, w, "lease") != 0 {
		t.Errorf("the model was asked %d times, %v jobs revived, %v leases cleared", n, swept(t, w, "job"), swept(t, w, "lease"))
	}
}
