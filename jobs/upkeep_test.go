package jobs

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

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
	r.t.Helper()
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
	n := len(r.model.Requests())
	assert.Truef(t, n == 0, "%d calls", n)
}
