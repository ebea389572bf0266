package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// TestMain is also what the roles start: this binary again.
func TestMain(m *testing.M) {
	if isRole(os.Args[1:]) {
		os.Exit(runRole(os.Args[2]))
	}
	testkit.Main(m)
}

// tiny is enough of everything for each row to be produced.
var tiny = sizes{
	messages: 2000, users: 5,
	firstDeltas: 5, stages: []stage{{streams: 5, ramp: 100 * time.Millisecond, steady: 400 * time.Millisecond}},
	atOnce: 8, perSecond: 10, burst: time.Second, burstTokens: 2,
	costChats: 2, costTurns: 6, words: 20, turns: 12,
	cutClients: 8, cutTokens: 20, stopClients: 4, ramp: 100 * time.Millisecond, drain: time.Second,
	record: stage{streams: 4, ramp: 100 * time.Millisecond, steady: 500 * time.Millisecond}, followed: 2,
	folds: 8, pickups: 4,
	recallTurns: []int{80, 120}, otherChats: 2, otherTurns: 20, questions: 5, embedding: time.Millisecond,
}

func TestEveryRowIsMeasured(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	e, err := newEnvironment(t.Context(), database.DSN, database.AdminDSN, "../../..", tiny, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := e.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.against = e.source // the same build twice
	groups, err := measure(t.Context(), e, benchmarks, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := choose("fold,recall")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := measure(t.Context(), e, again, 1); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	for _, g := range groups {
		for _, r := range g.rows {
			if len(r.values) != len(g.columns) {
				t.Errorf("%s, %s: %d values of %d columns", g.name, r.what, len(r.values), len(g.columns))
			}
		}
		if !slices.ContainsFunc(g.rows, func(r row) bool { return r.values[0] > 0 }) {
			t.Errorf("%s has no figure", g.name)
		}
		if err := g.print(t.Output()); err != nil {
			t.Error(err)
		}
	}
	checkShipped(t, groups)
	checkPage(t, groups)
}

// checkShipped looks at what a machine does not change: as shipped questions find memories, and words and vectors turns.
func checkShipped(t *testing.T, groups []group) {
	t.Helper()
	for name, want := range map[string]string{
		"stream": "replies name some", "recall": "receipts, waits for its vector: 6 meaning", "cuts": "8 of 8 replies arrived whole",
	} {
		at := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if at < 0 || !strings.Contains(strings.Join(groups[at].notes, "\n"), want) {
			t.Errorf("%s: no %q in %q", name, want, groups[max(at, 0)].notes)
		}
	}
}

// checkPage writes the tables into a copy of their page, which names no figure that has gone.
func checkPage(t *testing.T, groups []group) {
	t.Helper()
	root := t.TempDir()
	text, err := os.ReadFile(filepath.Join("../../..", page))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Mkdir(filepath.Join(root, "docs"), 0o700), os.WriteFile(filepath.Join(root, page), text, 0o600),
		os.WriteFile(filepath.Join(root, "README.md"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeDocuments(root, []string{"a machine"}, groups); err != nil {
		t.Error(err)
	}
	if written, err := os.ReadFile(filepath.Join(root, page)); err != nil || !bytes.Contains(written, []byte(figures.Mark("fold_rate", "")[:25])) {
		t.Errorf("%s has no figure of folds: %v", page, err)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-only", "nonsense"}, `no benchmark "nonsense"`},
		{[]string{"-runs", "0"}, "wrong arguments"},
		{[]string{"stream"}, "wrong arguments"},
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

func TestChoose(t *testing.T) {
	t.Parallel()
	chosen, err := choose("stream,cuts")
	if err != nil || len(chosen) != 2 || chosen[0].name != "stream" || chosen[1].name != "cuts" {
		t.Errorf("%v, %v", chosen, err)
	}
	all, err := choose("")
	if err != nil || len(all) != len(benchmarks)-1 || slices.ContainsFunc(all, func(b benchmark) bool { return b.byHand }) {
		t.Errorf("by default %v, %v", all, err)
	}
}
