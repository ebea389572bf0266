package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// TestMain is also what the model's process is: this binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleModel {
		if err := runModel(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.Main(m)
}

// restless people do in seconds what others do in an hour.
var restless = habits{
	pause: 300 * time.Millisecond, turnsPerChat: 5, article: .2, files: .2,
	drop: .3, cancel: .15, impatient: .15, again: .15, lookBack: .5,
}

const document = "# Load\n\n<!-- load:begin -->\nfigures of before\n<!-- load:end -->\n\nThe end.\n"

// Everything is real and nothing is left: the whole command in seconds.
func TestShortLoad(t *testing.T) {
	t.Parallel()
	o := options{duration: 4 * time.Second, chats: 12, out: t.TempDir(), doc: filepath.Join(t.TempDir(), "load.md")}
	if err := os.WriteFile(o.doc, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	p := o.plan()
	p.source, p.habits, p.warmUp, p.every = "../../..", restless, time.Second, 500*time.Millisecond
	p.look, p.idle = 300*time.Millisecond, time.Second
	p.env = map[string]string{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "200", "MEMORY_K_RAW_TURNS": "1"}
	p.enough = func(t totals) bool {
		happened := t.counts[turnCount] > 36
		for _, c := range []counter{dropCount, cancelCount, repeatCount, readCount, fileCount} {
			happened = happened && t.counts[c] > 0
		}
		for _, which := range []timing{firstWord, wordLag, lagElsewhere, resumeGap} {
			happened = happened && t.times[which].total() > 0
		}
		return happened
	}
	r, err := execute(t.Context(), p, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := deliver(r, o, &said); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
	checkReport(t, r)
	checkFiles(t, o, r)
}

// checkReport holds that people did everything they can do, and that it was measured.
func checkReport(t *testing.T, r report) {
	t.Helper()
	if len(r.checks) != 6 {
		t.Errorf("%d checks: %+v", len(r.checks), r.checks)
	}
	whole := 0
	for _, one := range r.turns {
		if one.whole() {
			whole++
		}
	}
	h := r.totals
	for what, count := range map[string]int64{
		"turns": h.counts[turnCount], "words": h.counts[wordCount], "drops": h.counts[dropCount], "cancels": h.counts[cancelCount],
		"repeats": h.counts[repeatCount], "reads": h.counts[readCount], "files": h.counts[fileCount], "memory": h.counts[memoryTokens],
		"replies heard whole": int64(whole), "samples": int64(len(r.samples)), "folds": r.after.Postgres.FoldsDone,
		"times of first words": h.times[firstWord].total(), "lags": h.times[wordLag].total(), "lags elsewhere": h.times[lagElsewhere].total(), "gaps": h.times[resumeGap].total(), "times of reads": h.times[readTime].total(),
	} {
		if count == 0 {
			t.Errorf("no %s", what)
		}
	}
	for _, p := range append(r.after.Parts, r.baseline.Parts...) {
		if p.Goroutines == 0 || p.Goal == 0 || p.Files == 0 || p.RSS == 0 || p.CPU == 0 {
			t.Errorf("not measured: %+v", p)
		}
	}
	if d := r.after.Postgres; d.RSS == 0 || d.CPU == 0 || d.WAL == 0 || d.Size == 0 || d.Tables["public.messages"].Live == 0 || d.Tables["public.message_deltas"].Trigger != 5000 {
		t.Errorf("not measured: %+v", d)
	}
}

func checkFiles(t *testing.T, o options, r report) {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	doc := string(read(o.doc))
	if !strings.HasPrefix(doc, "# Load\n") || !strings.HasSuffix(doc, "\n\nThe end.\n") || strings.Contains(doc, "of before") ||
		!strings.Contains(doc, "make load DURATION=4s CHATS=12") || !strings.Contains(doc, "WAL per turn") || !strings.Contains(doc, "charts/load-people.svg") {
		t.Errorf("the document:\n%s", doc)
	}
	for _, page := range charts(r.samples) {
		chart := read(filepath.Join(filepath.Dir(o.doc), "charts", page.name+".svg"))
		for _, panel := range page.panels {
			if !bytes.Contains(chart, []byte(panel.Title)) {
				t.Errorf("%s has no %q", page.name, panel.Title)
			}
		}
		read(filepath.Join(o.out, page.name+".svg"))
	}
	rows, err := csv.NewReader(bytes.NewReader(read(filepath.Join(o.out, "samples.csv")))).ReadAll()
	if err != nil || len(rows) != len(r.samples)+1 || len(rows[0]) < 30 {
		t.Errorf("the samples: %d rows, %v", len(rows), err)
	}
	var found struct {
		Figures []figures
		Checks  []check
		Samples []sample
	}
	if err := json.Unmarshal(read(filepath.Join(o.out, "load.json")), &found); err != nil || len(found.Figures) != 6 || len(found.Samples) != len(r.samples) || len(found.Checks) != len(r.checks) {
		t.Errorf("the JSON: %v", err)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	bare := filepath.Join(t.TempDir(), "bare.md")
	if err := os.WriteFile(bare, []byte("no markers"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-duration", "0s"}, "less than a second"},
		{[]string{"-duration", "long"}, "invalid value"},
		{[]string{"-chats", "0"}, "nobody"},
		{[]string{"5m"}, `unexpected argument "5m"`},
		{[]string{"-doc", bare}, "has no lines"},
		{[]string{"-doc", bare + "x"}, "no such file"},
	} {
		if err := run(t.Context(), c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if err := run(t.Context(), []string{"-help"}, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: %v", err)
	}
}

// A program that does not start ends the run, with its reason, and leaves nothing.
func TestLoadWithoutAProgram(t *testing.T) {
	t.Parallel()
	_, err := execute(t.Context(), plan{source: t.TempDir(), out: t.TempDir()}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "build") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := execute(ctx, plan{source: "../../..", out: t.TempDir()}, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
