package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// figure is one measured or computed value.
type figure struct {
	what  string
	unit  string
	value float64
}

// table has a column for each thing that was measured. All columns have the same figures in the same order.
type table struct {
	title   string
	names   []string // of the columns
	columns [][]figure
	notes   []string
}

func (t *table) addColumn(name string, figures []figure) {
	t.names, t.columns = append(t.names, name), append(t.columns, figures)
}

func (t *table) write(out io.Writer) error {
	lines := []string{""}
	for _, f := range t.columns[0] {
		lines = append(lines, strings.TrimSuffix(f.what+", "+f.unit, ", "))
	}
	labels := longest(lines)
	for i, label := range lines {
		lines[i] = fmt.Sprintf("  %-*s", labels, label)
	}
	for n, column := range t.columns {
		cells := []string{t.names[n]}
		for _, f := range column {
			cells = append(cells, kit.Number(f.value))
		}
		width := longest(cells)
		for i, cell := range cells {
			lines[i] += fmt.Sprintf("  %*s", width, cell)
		}
	}
	for _, note := range t.notes {
		lines = append(lines, "    "+note)
	}
	_, err := fmt.Fprintf(out, "\n%s\n%s\n", t.title, strings.Join(lines, "\n"))
	return err
}

func longest(texts []string) (length int) {
	for _, text := range texts {
		length = max(length, utf8.RuneCountInString(text))
	}
	return length
}
