package jobs

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestDecayDay(t *testing.T) {
	t.Parallel()
	const at = 3 * time.Hour
	for now, want := range map[string]string{
		"2026-11-22T02:59:59Z": "2026-11-21", "2026-11-22T03:00:00Z": "2026-11-22", "2026-11-22T23:59:59Z": "2026-11-22",
		"2026-11-22T03:30:00+01:00": "2026-11-21", "2026-01-01T00:00:00Z": "2025-12-31",
	} {
		moment, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := decayDay(moment, at).Format(time.DateOnly); got != want {
			t.Errorf("%s: %s, want %s", now, got, want)
		}
	}
	for now, want := range map[string]string{
		"2026-11-22T02:59:59Z": "2026-11-22T03:00:00Z", "2026-11-22T03:00:00Z": "2026-11-23T03:00:00Z", "2026-12-31T22:00:00-02:00": "2027-01-01T03:00:00Z",
	} {
		moment, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := daily(at).Next(moment).Format(time.RFC3339); got != want {
			t.Errorf("after %s: %s, want %s", now, got, want)
		}
	}
}

// remembering stores a memory that was not used for so many days.
func (r *rig) remembering(content string, days int) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, "insert into memory_users (user_id) values ($1) on conflict do nothing", r.user)
	testkit.Exec(r.t, r.pool, "insert into memories (user_id, content, origin, last_accessed) values ($1, $2, 'user', now() - make_interval(days => $3))", r.user, content, days)
}

func decaying(_ *brief.Config, config *WorkerConfig) {
	config.Decayer = config.Maintenance.(*postgres.Maintenance)
}

// The job runs when a worker starts, as on the day after a night in which none was there, and once a day.
func TestDecayRunsAtTheStartAndOnceADay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.remembering("Plays the cello.", 40)
	r.work(decaying)
	output := r.awaitJob("decay_memories", "decayed")
	if output.Decayed != 1 || output.Archived != 0 || output.Day == "" {
		t.Errorf("%+v", output)
	}
	for range 2 {
		// By hand, as the documentation shows it.
		testkit.Exec(t, r.pool, "insert into river.river_job (args, kind, max_attempts, priority, queue, state) values ('{}', 'decay_memories', 5, 1, 'maintenance', 'available')")
	}
	testkit.Eventually(t, "the other runs are done", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'decay_memories' and state = 'completed'") == 3
	})
	if confidence := testkit.Ask[float64](t, r.pool, "select confidence from memories"); confidence != .95 {
		t.Errorf("confidence %v", confidence)
	}
}

// awaitJob waits for a job of a kind that did something.
func (r *rig) awaitJob(kind, key string) DecayResult {
	r.t.Helper()
	const done = "kind = $1 and (metadata -> 'output' ->> $2)::int > 0"
	testkit.Eventually(r.t, kind+" says what it did", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from river.river_job where "+done, kind, key) > 0
	})
	return testkit.Ask[DecayResult](r.t, r.pool, "select metadata -> 'output' from river.river_job where "+done+" limit 1", kind, key)
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
	w := r.work(func(_ *brief.Config, config *WorkerConfig) {
		config.Grapher = grapherFunc(func() (graph.Report, error) {
			mu.Lock()
			defer mu.Unlock()
			if runs++; runs == 1 {
				return graph.Report{Users: 1, Failed: 1}, errors.New("the model is away")
			}
			return graph.Report{Users: 1, Memories: 2, Entities: 3}, nil
		})
	})
	testkit.Eventually(t, "the failed job is there", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'update_memory_graph' and state = 'discarded' and metadata -> 'output' ->> 'failed' = '1'") == 1
	})
	if _, err := w.Insert(t.Context(), UpdateMemoryGraph{}, nil); err != nil {
		t.Fatal(err)
	}
	if output := r.awaitOutput("update_memory_graph", "entities"); output["memories"] != 2 || output["entities"] != 3 {
		t.Errorf("%v", output)
	}
}

// Jobs that are left of a time with long-term memory end without doing anything.
func TestUpkeepWithoutLongTermMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.remembering("Plays the cello.", 400)
	w := r.work(nil)
	for _, job := range []river.JobArgs{DecayMemories{}, UpdateMemoryGraph{}} {
		if _, err := w.Insert(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "both are done", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind in ('decay_memories', 'update_memory_graph') and state = 'completed'") == 2
	})
	if state := testkit.Ask[string](t, r.pool, "select confidence || ' ' || status from memories"); state != "1 active" {
		t.Errorf("%s", state)
	}
}
