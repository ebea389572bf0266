package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// brokenModel answers with some tokens and no end.
func brokenModel(t *testing.T) endpoint {
	t.Helper()
	base, stop, err := serveReply(t.Context(), []byte(`data: {"delta":"`+stamped(0)+` "}`+"\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	self, err := startRole(context.WithoutCancel(t.Context()), role{Kind: roleModel}) // whose usage is asked for
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := self.Stop(); err != nil {
			t.Error(err)
		}
	})
	self.Address = base
	return endpoint{Helper: self, name: "broken"}
}

func TestStreamsThatBreakAreCountedWhereTheyMay(t *testing.T) {
	t.Parallel()
	e := &environment{sizes: sizes{users: 1, messages: 20}}
	e.owners = make([]owner, 1)
	at := stage{streams: 3, ramp: 50 * time.Millisecond, steady: 100 * time.Millisecond}
	p := brokenModel(t)
	if _, err := e.load(t.Context(), p, at); err == nil || !strings.Contains(err.Error(), "no terminal event") {
		t.Errorf("where they may not: %v", err)
	}
	p.mayBreak = true
	found, err := e.load(t.Context(), p, at)
	if err != nil || found.broken != at.streams {
		t.Errorf("%d of %d streams broke: %v", found.broken, at.streams, err)
	}
}

func TestUsageOfAnotherProcess(t *testing.T) {
	t.Parallel()
	helper, err := startRole(t.Context(), role{Kind: roleModel})
	if err != nil {
		t.Fatal(err)
	}
	p := endpoint{Helper: helper}
	own, err := p.usage()
	if err != nil {
		t.Fatal(err)
	}
	p.foreign = true
	seen, err := p.usage()
	if err != nil || seen.RSS < own.RSS/2 || seen.RSS > 2*own.RSS {
		t.Errorf("from outside %d bytes, %d by its own account: %v", seen.RSS, own.RSS, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := p.usage(); err == nil {
		t.Error("a process that is gone uses something")
	}
}

func TestScriptThatCannotStart(t *testing.T) {
	t.Parallel()
	p, err := startNode(t.Context(), t.TempDir(), nil, "--eval", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitAddress("http://"); err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("got %v", err)
	}
	if _, err := versionOf(t.TempDir(), "none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the version of nothing: %v", err)
	}
}

func TestWhatRunsByHandIsNotInTheDefaultSet(t *testing.T) {
	t.Parallel()
	chosen, err := choose("")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range chosen {
		if b.byHand {
			t.Errorf("%s is", b.name)
		}
	}
	named, err := choose("peers,memorycost")
	if err != nil || len(named) != 2 || len(chosen)+2 != len(benchmarks) {
		t.Errorf("by name %v: %v", named, err)
	}
}

func compared() group {
	g := group{Name: "x", Title: "y", Columns: []string{"one", "two"}, panels: peersPanels}
	for _, streams := range []string{"100", "1000"} {
		for _, what := range []string{"token lag, p99", "first delta, p50", "memory", "CPU per token"} {
			g.add(row{What: streams + " streams: " + what, Unit: "ms", Of: "one", Value: 1.5}, row{What: streams + " streams: " + what, Unit: "ms", Of: "two", Value: 0})
		}
	}
	return g
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	g := compared()
	g.Rows = g.Rows[:2]
	var table bytes.Buffer
	if err := writeTable(&table, []string{"a machine"}, []group{g}); err != nil {
		t.Fatal(err)
	}
	const want = "a machine\n\nx: y\n" +
		"                                                                 one              two\n" +
		"  100 streams: token lag, p99                                1.50 ms             0 ms\n"
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTableInADocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "doc.md")
	const before, after = "# Figures\n\n<!-- peers:begin -->\n", "<!-- peers:end -->\n\nThe end.\n"
	if err := os.WriteFile(path, []byte(before+"those of before\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	g := group{Name: "x", Title: "y", Columns: []string{"one"}}
	if err := writeDocument(path, []benchmark{{byHand: true}}, []string{"a machine"}, []group{g}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rest, isBefore := strings.CutPrefix(string(written), before)
	table, isAfter := strings.CutSuffix(rest, after)
	if !isBefore || !isAfter || !strings.HasPrefix(table, "```\na machine\n") || strings.Contains(table, "of before") {
		t.Errorf("written: %s", written)
	}
	if err := writeDocument(path, []benchmark{{}}, nil, nil); err == nil || !strings.Contains(err.Error(), "bench:begin") {
		t.Errorf("a document without the lines: %v", err)
	}
}

func TestChartOfWhatWasMeasured(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := writeCharts(folder, []group{{Name: "none"}, compared()}); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(filepath.Join(folder, "x.svg"))
	if err != nil {
		t.Fatal(err)
	}
	text := textOf(t, drawn)
	for _, want := range []string{"Token lag", "streams at once", "1000", "two", "ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the chart", want)
		}
	}
	if found, err := os.ReadDir(folder); err != nil || len(found) != 1 {
		t.Errorf("%d files: %v", len(found), err)
	}
}

// textOf is what one can read of a drawing.
func textOf(t *testing.T, svg []byte) string {
	t.Helper()
	text := ""
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return text
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok {
			text += string(data) + "\n"
		}
	}
}
