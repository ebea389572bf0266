package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// expiring makes a worker look for expired chats all the time.
func expiring(days int) setup {
	return func(_ *brief.Config, config *WorkerConfig) {
		config.ExpireInterval, config.ExpiredDays = 200*time.Millisecond, days
	}
}

// expire makes a chat expired for the given time.
func (r *rig) expire(chatID uuid.UUID, ago string) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, `update chats set ttl_hours = 1, created_at = now() - $2::interval - interval '1 hour',
		last_message_at = now() - $2::interval - interval '1 hour'
		where id = $1`, chatID, ago)
}

// chats returns the ids of the chats that are left.
func (r *rig) chats() []uuid.UUID {
	r.t.Helper()
	return testkit.Ask[[]uuid.UUID](r.t, r.pool, "select coalesce(array_agg(id), '{}') from chats")
}

// Expired and idle chats are deleted after so many days, and never where no number is set, even if the job was inserted by
// hand.
func TestOldChatsAreDeletedWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	active, old, idle := r.chat(1, 1), r.chat(1, 1), r.chat(1, 1)
	r.expire(old, "31 days")
	testkit.Exec(t, r.pool, "update chats set created_at = now() - interval '11 days', last_message_at = now() - interval '11 days' where id = $1", idle)
	unasked := r.work(expiring(0))
	r.insertJob(work.Job{Name: work.PruneChats})
	r.awaitRuns("expire_chats", 1)
	testkit.Await(t, r.pool, "nothing was pruned", 1,
		"select count(*) from river.river_job where kind = 'prune_chats' and metadata -> 'output' ->> 'deleted_chats' = '0'")
	unasked.stop()
	got := r.chats()
	require.Truef(t, len(got) == 3, "without any days to keep them %d of 3 chats are left", len(got))
	r.work(expiring(30), func(_ *brief.Config, c *WorkerConfig) { c.PruneDays = 10 })
	for _, kind := range []string{"expire_chats", "prune_chats"} {
		got := awaitOutput[map[string]int](r, kind, "deleted_chats")
		assert.Equalf(t, 1, got["deleted_chats"], "%s says %v", kind, got)
	}
	got = r.chats()
	assert.Truef(t, slices.Equal(got, []uuid.UUID{active}), "left are %v", got)
	logs := r.logs.String()
	assert.Truef(t, strings.Count(logs, `"deleted_chats":1`) == 2 && !strings.Contains(logs, "practise"),
		"the log is %s", logs)
}
