package jobs

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// indexedTurns is the number of a chat's turns that recall can find.
func (r *rig) indexedTurns(chatID uuid.UUID) int {
	r.t.Helper()
	return testkit.Ask[int](r.t, r.pool, "select count(*) from turn_index where chat_id = $1", chatID)
}

// The sweep indexes chats that rest. No fold is put off for the index_turns of a dead worker, nor kept from being inserted.
func TestSweepIndexes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rested, busy, due := r.chat(2, 1), r.chat(2, 1), r.chat(7, 10)
	testkit.Exec(t, r.pool, "update chats set last_message_at = now() - interval '2 minutes' where id = $1", rested)
	r.enqueueAs(work.IndexTurns, work.Repair, due)
	testkit.Exec(t, r.pool, `update river.river_job set state = 'running', attempt = max_attempts,
		attempted_at = now() - interval '1 minute', attempted_by = '{dead}'`)
	r.work(sweeping)
	r.awaitVersion(due, 1)
	testkit.Eventually(t, "the chats are indexed", func() bool { return r.indexedTurns(rested) == 2 })
	r.awaitIdle()
	n := r.indexedTurns(busy)
	assert.Truef(t, n == 0, "%d turns of a chat in which somebody talks are indexed", n)
	testkit.Want(t, r.pool, 0, "select count(*) from throughline.work where failures > 0")
	testkit.Eventually(t, "a sweep says what it did", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'sweep_briefs' and metadata -> 'output' ->> 'indexed_chats' = '1'") > 0
	})
}
