package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestDecayDay(t *testing.T) {
	t.Parallel()
	const at = 3 * time.Hour
	for now, want := range map[string]string{
		"2026-11-22T02:59:59Z": "2026-11-21", "2026-11-22T03:00:00Z": "2026-11-22", "2026-11-22T23:59:59Z": "2026-11-22",
		"2026-11-22T03:30:00+01:00": "2026-11-21", "2026-01-01T00:00:00Z": "2025-12-31",
	} {
		moment, err := time.Parse(time.RFC3339, now)
		require.NoError(t, err)
		assert.Equalf(t, want, decayDay(moment, at).Format(time.DateOnly), "%s", now)
	}
	for now, want := range map[string]string{
		"2026-11-22T02:59:59Z": "2026-11-22T03:00:00Z", "2026-11-22T03:00:00Z": "2026-11-23T03:00:00Z", "2026-12-31T22:00:00-02:00": "2027-01-01T03:00:00Z",
	} {
		moment, err := time.Parse(time.RFC3339, now)
		require.NoError(t, err)
		assert.Equalf(t, want, daily(at).Next(moment).Format(time.RFC3339), "after %s", now)
	}
}

// remembering stores a memory that was not used for so many days.
func (r *rig) remembering(content string, days int) {
	testkit.Exec(r.t, r.pool, "insert into memory_users (user_id) values ($1) on conflict do nothing", r.user)
	testkit.Exec(r.t, r.pool, `insert into memories (user_id, content, origin, last_accessed)
		values ($1, $2, 'user', now() - make_interval(days => $3))`, r.user, content, days)
}

func decaying(_ *brief.Config, config *WorkerConfig) { config.Fade = true }

// The job runs when a worker starts, as on the day after a night in which none was there, and once a day.
func TestDecayRunsAtTheStartAndOnceADay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.remembering("Plays the cello.", 40)
	r.work(decaying)
	output := awaitOutput[DecayResult](r, "decay_memories", "decayed")
	assert.Truef(t, output.Decayed == 1 && output.Archived == 0 && output.Day != "", "%+v", output)
	for range 2 {
		// By hand, as the documentation shows it.
		testkit.Exec(t, r.pool, `insert into river.river_job (args, kind, max_attempts, priority, queue, state)
			values ('{}', 'decay_memories', 5, 1, 'maintenance', 'available')`)
	}
	testkit.Await(t, r.pool, "the other runs are done", 3, "select count(*) from river.river_job where kind = 'decay_memories' and state = 'completed'")
	testkit.Want(t, r.pool, .95, "select confidence from memories")
}

// grapherFunc is a Grapher that a function stands for.
type grapherFunc func() (graph.Report, error)

func (f grapherFunc) UpdateGraph(context.Context, time.Duration) (graph.Report, error) { return f() }

// A job whose model fails says so, with what it did until then; the next one runs.
func TestGraphJobTellsWhatItDid(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var mu sync.Mutex
	runs := 0
	r.work(func(_ *brief.Config, config *WorkerConfig) {
		config.Grapher = grapherFunc(func() (graph.Report, error) {
			mu.Lock()
			defer mu.Unlock()
			if runs++; runs == 1 {
				return graph.Report{Users: 1, Failed: 1}, errors.New("the model is away")
			}
			return graph.Report{Users: 1, Memories: 2, Entities: 3}, nil
		})
	})
	testkit.Await(t, r.pool, "the failed job is there", 1,
		"select count(*) from river.river_job where kind = 'update_memory_graph' and state = 'discarded' and metadata -> 'output' ->> 'failed' = '1'")
	r.insertJob(work.Job{Name: work.UpdateMemoryGraph})
	output := awaitOutput[map[string]int](r, "update_memory_graph", "entities")
	assert.Truef(t, output["memories"] == 2 && output["entities"] == 3, "%v", output)
}

// Jobs that are left of a time with an embedder, topics or long-term memory end without doing anything, and none are inserted.
func TestJobsOfWhatIsOffEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.limits.ChunkThreshold = 6000 // no fold is due
	r.remembering("Plays the cello.", 400)
	chatID := r.indexed(8)
	left := []work.Job{
		{Name: work.EmbedTurns, ChatID: chatID}, {Name: work.EmbedMemories, UserID: r.user}, {Name: work.Reembed}, {Name: work.ExtractMemories, ChatID: chatID},
		{Name: work.UpdateMemoryGraph}, {Name: work.DecayMemories}, {Name: work.AssignTopics, ChatID: chatID},
		{Name: work.CompactTopic, ChatID: chatID, TopicID: r.topicOf(chatID)}, {Name: work.DecayTopics}, {Name: work.MergeTopics},
	}
	for _, job := range left {
		r.insertJob(job)
	}
	testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = now()")
	r.work(sweeping)
	r.awaitRuns("sweep_briefs", 2)
	testkit.Await(t, r.pool, "all are done", len(left),
		"select count(*) from river.river_job where state = 'completed' and kind not in ('sweep_briefs', 'expire_chats')")
	testkit.Want(t, r.pool, "1 active", "select confidence || ' ' || status from memories")
	testkit.Want(t, r.pool, true, "select compacted_seq = 0 and summary is null from topics")
	assert.Empty(t, r.model.Requests(), "calls")
}

// expiring makes a worker look for expired chats all the time.
func expiring(days int) setup {
	return func(_ *brief.Config, config *WorkerConfig) {
		config.ExpireInterval, config.ExpiredDays = 200*time.Millisecond, days
	}
}

// expire makes a chat expired for the given time.
func (r *rig) expire(chatID uuid.UUID, ago string) {
	testkit.Exec(r.t, r.pool, `update chats set ttl_hours = 1, created_at = now() - $2::interval - interval '1 hour',
		last_message_at = now() - $2::interval - interval '1 hour'
		where id = $1`, chatID, ago)
}

// chats returns the ids of the chats that are left.
func (r *rig) chats() []uuid.UUID {
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
		assert.Equalf(t, 1, awaitOutput[map[string]int](r, kind, "deleted_chats")["deleted_chats"], "%s says", kind)
	}
	got = r.chats()
	assert.Truef(t, slices.Equal(got, []uuid.UUID{active}), "left are %v", got)
	logs := r.logs.String()
	assert.Truef(t, strings.Count(logs, `"deleted_chats":1`) == 2 && !strings.Contains(logs, "practise"),
		"the log is %s", logs)
}

// indexedTurns is the number of a chat's turns that recall can find.
func (r *rig) indexedTurns(chatID uuid.UUID) int {
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
	assert.Equal(t, 0, r.indexedTurns(busy), "turns of a chat in which somebody talks are indexed")
	testkit.Want(t, r.pool, 0, "select count(*) from throughline.work where failures > 0")
	testkit.Eventually(t, "a sweep says what it did", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'sweep_briefs' and metadata -> 'output' ->> 'indexed_chats' = '1'") > 0
	})
}

// A server that is stopped logs no error, because nothing is wrong.
func TestQuietAtTheEnd(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	logger := quiet(slog.New(slog.NewJSONHandler(&log, nil))).With("a", 1)
	ended, end := context.WithCancel(t.Context())
	end()
	logger.InfoContext(t.Context(), "maintenance.JobCleaner: fine")
	logger.ErrorContext(ended, "maintenance.PeriodicJobEnqueuer: Error starting transaction", "error", "context canceled")
	logger.WarnContext(ended, "jobexecutor.JobExecutor: Job errored")
	logger.ErrorContext(t.Context(), "maintenance.PeriodicJobEnqueuer: Error starting transaction", "error", "too many clients")
	got := log.String()
	assert.Truef(t, strings.Count(got, "\n") == 2 && strings.Contains(got, "Job errored") && strings.Contains(got, "too many clients"), "logged %s", got)
}

// Arguments are read from a table that people may change by hand. Anything but a chat's id is an error.
func FuzzArgs(f *testing.F) {
	id := uuid.New().String()
	for _, args := range []string{
		`{"chat_id":"` + id + `"}`, `{"chat_id":"` + id + `","content":"x"}`, `{"chat_id":null}`, `{"chat_id":7}`, `{"chat_id":"urn:uuid:` +
			id + `"}`, `{}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(args))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var args Args
		if json.Unmarshal(raw, &args) != nil {
			return
		}
		written, err := json.Marshal(Args{work.Job{Name: work.FoldBrief, ChatID: args.ChatID, Priority: work.Later, At: time.Now()}})
		want := `{}` // which is no chat
		if args.ChatID != uuid.Nil {
			want = `{"chat_id":"` + args.ChatID.String() + `"}`
		}
		require.Truef(t, err == nil && string(written) == want, "%q became %s, %v", raw, written, err)
	})
}
