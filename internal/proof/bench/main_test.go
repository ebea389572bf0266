package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// TestMain is also what the roles start: this binary again.
func TestMain(m *testing.M) {
	if !playRole(os.Args[1:]) {
		testkit.Main(m)
	}
}

// tiny is the scale with which there is enough of everything for each row to be produced.
const tiny = 40

func TestEveryRowIsMeasured(t *testing.T) {
	t.Parallel()
	b, err := open(t.Context(), "../../..", tiny, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.end(0); err != nil {
			t.Error(err)
		}
	}()
	b.against = b.source // the same build twice
	tables, err := b.measure(t.Context(), parts, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := choose("fold,recall")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.measure(t.Context(), again, 1); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	for _, table := range tables {
		for _, r := range table.rows {
			for column, measured := range r.measured {
				if len(measured) != 1 {
					t.Errorf("%s, %s: %d values of %s", table.name, r.what, len(measured), table.columns[column])
				}
			}
		}
		if !slices.ContainsFunc(table.rows, func(r row) bool { return r.value(0) > 0 }) {
			t.Errorf("%s has no figure", table.name)
		}
		t.Logf("%s\n%s", table.name, figures.Plain(table.markdown(nil)))
	}
	checkShipped(t, tables)
	checkPage(t, tables)
}

// checkShipped looks at what a machine does not change: as shipped questions find memories, and words and vectors turns.
func checkShipped(t *testing.T, tables []*table) {
	t.Helper()
	for name, want := range map[string]string{
		"stream": "replies that name some: ", "recall": "receipts, waits for its vector: 2 meaning", "cuts": "5 of 5 replies arrived whole",
	} {
		at := slices.IndexFunc(tables, func(t *table) bool { return t.name == name })
		if at < 0 || !strings.Contains(strings.Join(tables[at].notes, "\n"), want) {
			t.Errorf("%s: no %q in %q", name, want, tables[max(at, 0)].notes)
		}
	}
}

// checkPage writes the tables into a copy of their page, which names no figure that has gone.
func checkPage(t *testing.T, tables []*table) {
	t.Helper()
	root := t.TempDir()
	err := errors.Join(os.CopyFS(filepath.Join(root, "docs"), os.DirFS("../../../docs")), os.WriteFile(filepath.Join(root, "README.md"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := publish(root, []string{"a machine"}, tables); err != nil {
		t.Error(err)
	}
	if written, err := os.ReadFile(filepath.Join(root, page)); err != nil || !bytes.Contains(written, []byte(figures.Mark("fold_rate", "")[:25])) {
		t.Errorf("%s has no figure of folds: %v", page, err)
	}
}
