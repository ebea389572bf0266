package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// TestMain is also what the roles of the streaming benchmark start: this binary again.
func TestMain(m *testing.M) {
	if isRole(os.Args[1:]) {
		os.Exit(runRole(os.Args[2]))
	}
	testkit.Main(m)
}

// tiny is enough of everything for each row to be produced.
var tiny = sizes{
	messages: 2000, longChats: 1, longTurns: 100, users: 5,
	samples: 20, window: 50 * time.Millisecond, microTime: 2 * time.Millisecond,
	folds: 20, pickups: 8, turns: 110,
	firstDeltas: 5,
	stages:      []stage{{streams: 5, ramp: 100 * time.Millisecond, steady: 400 * time.Millisecond}},
	cost:        costing{chats: 3, blocks: 2, words: 5, pause: time.Millisecond, ramp: 10 * time.Millisecond},
	burst:       bursting{atOnce: 8, perSec: 10, steady: time.Second, tokens: 2},
	cuts:        cutting{clients: 8, tokens: 20, ramp: 100 * time.Millisecond},
	slow:        slowness{readers: 2, tokens: 100, others: stage{streams: 3, ramp: 100 * time.Millisecond, steady: 400 * time.Millisecond}},
	stop:        stopping{clients: 4, ramp: 100 * time.Millisecond, drain: time.Second},
	remember:    remembering{turns: 28, summaryTime: 2 * time.Millisecond, embeddingTime: time.Millisecond},
	recall:      recalling{turns: []int{40, 80}, others: 3, otherTurns: 20, asked: 1, askedTurns: 80, samples: 5, firstDeltas: 3, commits: 5, embedding: time.Millisecond},
	known:       knowing{memories: []int{5, 10, 20}, samples: 5, firstDeltas: 3, embedding: time.Millisecond},
	wandering:   wandering{turns: 32, stay: 8, summary: 2 * time.Millisecond},
	record:      recording{followed: 2, stage: stage{streams: 4, ramp: 100 * time.Millisecond, steady: 500 * time.Millisecond}, intervals: []int{100}},
}

func TestEveryRowIsMeasured(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	e, err := newEnvironment(t.Context(), addresses{server: database.DSN, admin: database.AdminDSN}, tiny, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	e.source, e.against = "../../..", "../../.." // the same build twice
	host, err := describe(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := measure(t.Context(), e, benchmarks, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := choose("prompt,turn,fold,delta,auth,stream,recall,remembered")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := measure(t.Context(), e, again, 1); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	if len(groups) != len(benchmarks) {
		t.Fatalf("%d groups of %d benchmarks", len(groups), len(benchmarks))
	}
	for _, g := range groups {
		if g.Name == "" || g.Title == "" || !slices.ContainsFunc(g.Rows, func(r row) bool { return r.Value > 0 }) {
			t.Errorf("a group without a figure: %+v", g)
		}
		for _, r := range g.Rows {
			checkRow(t, g.Name, r)
			checkCompared(t, r)
		}
	}
	checkTable(t, host, groups)
}

// checkRow takes any figure that a machine can have: one that is starved measures nothing in a short window. Only a
// difference may be below 0.
func checkRow(t *testing.T, name string, r row) {
	t.Helper()
	difference := strings.Contains(r.What, "added") || strings.Contains(r.What, "to the full history's")
	for _, value := range []float64{r.Value, r.Baseline, r.ratio()} {
		if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 && !difference {
			t.Errorf("%s: %s: %+v", name, r.What, r)
		}
	}
}

// checkCompared looks at the figures that are not a machine's: nobody's streams break at this size, the whole
// history holds every fact, and who searches its memories finds most of them.
func checkCompared(t *testing.T, r row) {
	t.Helper()
	least := 0.0
	switch {
	case strings.HasSuffix(r.What, "streams that broke") && r.Value != 0:
		t.Errorf("%s: %v of %s", r.What, r.Value, r.Of)
	case !strings.HasPrefix(r.What, "known: in the prompt of"):
	case r.Of == "full history":
		least = 99.9
	case strings.HasPrefix(r.Of, "mem0"):
		least = 60
	}
	if least > 0 && r.Value < least { // a difference may be below 0
		t.Errorf("%s: %v %% with %s", r.What, r.Value, r.Of)
	}
}

func checkTable(t *testing.T, host []string, groups []group) {
	t.Helper()
	var table, document bytes.Buffer
	if err := writeTable(&table, host, groups); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if width := len([]rune(strings.TrimSuffix(line, "\n"))); width > 120 {
			t.Errorf("a line of %d characters: %s", width, line)
		}
	}
	if err := writeJSON(&document, host, groups); err != nil || !json.Valid(document.Bytes()) {
		t.Errorf("JSON: %v", err)
	}
	t.Log(table.String())
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-only", "nonsense"}, `no benchmark "nonsense"`},
		{[]string{"-runs", "0"}, "wrong arguments"},
		{[]string{"quick"}, "wrong arguments"},
		{[]string{"-fast"}, "not defined"},
	} {
		err := run(t.Context(), c.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if err := run(t.Context(), []string{"-help"}, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: %v", err)
	}
}

func TestChooseKeepsTheOrderThatWasAskedFor(t *testing.T) {
	t.Parallel()
	chosen, err := choose("stream,prompt")
	if err != nil || len(chosen) != 2 || chosen[0].name != "stream" || chosen[1].name != "prompt" {
		t.Errorf("%v, %v", chosen, err)
	}
}

func TestRoleThatCannotStart(t *testing.T) {
	t.Parallel()
	_, err := startRole(t.Context(), role{Kind: roleServer, Database: "postgres://nobody@127.0.0.1:bad/none", Model: "http://127.0.0.1:1"})
	if err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("got %v", err)
	}
}
