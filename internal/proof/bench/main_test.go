package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, b.end(0))
	}()
	b.against = b.source // the same build twice
	tables, err := b.measure(t.Context(), parts, 1)
	require.NoError(t, err)
	again, err := choose("fold,recall")
	require.NoError(t, err)
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
		assert.Truef(t, slices.ContainsFunc(table.rows, func(r row) bool { return r.value(0) > 0 }),
			"%s has no figure", table.name)
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
	require.NoError(t, err)
	assert.NoError(t, publish(root, []string{"a machine"}, tables))
	if written, err := os.ReadFile(filepath.Join(root, page)); err != nil || !bytes.Contains(written, []byte(figures.Mark("fold_rate", "")[:25])) {
		t.Errorf("%s has no figure of folds: %v", page, err)
	}
}
