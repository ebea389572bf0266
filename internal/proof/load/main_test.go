package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// restless people do in seconds what others do in an hour.
var restless = people.Habits{
	Pause: 300 * time.Millisecond, Away: time.Second, Patience: endless, ChatsAtOnce: 1, TurnsPerChat: 5, Soon: 20,
	Stop: .15, Lose: .3, Twice: .1, Again: .15, Look: .5, Edit: .05, Tend: .1,
}

// Everything is real and nothing is left: the whole command in seconds.
func TestShortLoad(t *testing.T) {
	t.Parallel()
	p, err := parse([]string{"-duration", "4s", "-chats", "12", "-out", t.TempDir(), "-doc"}, io.Discard)
	require.NoError(t, err)
	p.Source, p.habits, p.warmUp, p.every = "../../..", restless, time.Second, 500*time.Millisecond
	p.look, p.Idle, p.NoVector = 300*time.Millisecond, time.Second, true // the embedder may not be installed here
	p.Settings = map[string]string{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "200", "MEMORY_K_RAW_TURNS": "1", "MEMORY_EXTRACT_DELAY": "1s"}
	p.talk.Files.Every, p.talk.SayEvery, p.talk.Summary = 5, 1, 100*time.Millisecond
	p.enough = func(g *people.Gauges) bool {
		happened := g.Counted(people.Turns) > 36
		for _, what := range []int{people.Drops, people.Cancels, people.Repeats, people.Reads} {
			happened = happened && g.Counted(what) > 0
		}
		for _, what := range []int{people.FirstWord, people.WordLag, people.LagElsewhere, people.ResumeGap} {
			times := g.Times(what)
			happened = happened && len(times) > 0
		}
		return happened
	}
	r, err := execute(t.Context(), p, t.Output())
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t,
		errors.Join(os.CopyFS(filepath.Join(root, "docs"), os.DirFS("../../../docs")), os.CopyFS(root, readme)))
	assert.NoError(t, r.deliver(root, t.Output()))
	doc, err := os.ReadFile(filepath.Join(root, "docs/results/load.md"))
	assert.Truef(t, err == nil && strings.Contains(string(doc), "make load DURATION=4s CHATS=12"),
		"the document has not the load of this test: %v\n%s", err, doc)
	checkReport(t, r)
}

// readme names a figure of the load.
var readme = fstest.MapFS{"README.md": {Data: []byte("<!-- figure:load_turns -->0<!-- /figure -->\n")}}

// checkReport holds that people did everything they can do, and that it was measured.
func checkReport(t *testing.T, r report) {
	t.Helper()
	if len(r.checks) != 5 || len(r.samples) == 0 || r.record.Tally().Completed == 0 {
		t.Errorf("%d checks, %d samples, %+v", len(r.checks), len(r.samples), r.record.Tally())
	}
	for _, name := range []string{
		"goroutines of server 1", "heap goal of server 2", "open files of worker 1", "memory of worker 2", "CPU of server 1", "CPU of Postgres",
		"Postgres's memory", "WAL", "folds", "kept",
	} {
		assert.Truef(t, r.after.Values[name] > 0, "%s was not measured", name)
	}
	got := r.after.Values["trigger of public.message_deltas"]
	assert.Truef(t, got == 5000, "message_deltas are vacuumed from %v dead rows on", got)
}
