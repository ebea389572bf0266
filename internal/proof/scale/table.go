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

// table has a column for each thing that was measured and a row for each figure.
type table struct {
	title   string
	columns []string
	rows    []tableRow
	notes   []string
}

type tableRow struct {
	what, unit string
	values     []float64
}

// addColumn adds the figures of one more thing, in the same order as those of the first.
func (t *table) addColumn(name string, figures []figure) {
	t.columns = append(t.columns, name)
	if t.rows == nil {
		t.rows = make([]tableRow, len(figures))
	}
	for i, f := range figures {
		t.rows[i].what, t.rows[i].unit = f.what, f.unit
		t.rows[i].values = append(t.rows[i].values, f.value)
	}
}

func write(out io.Writer, tables ...table) error {
	for _, t := range tables {
		if _, err := io.WriteString(out, t.text()); err != nil {
			return err
		}
	}
	return nil
}

func (t table) text() string {
	lines := [][]string{append([]string{""}, t.columns...)}
	for _, row := range t.rows {
		line := []string{strings.TrimSuffix(row.what+", "+row.unit, ", ")}
		for _, value := range row.values {
			line = append(line, kit.Number(value))
		}
		lines = append(lines, line)
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n", t.title)
	for _, line := range lines {
		fmt.Fprintf(&text, "  %-*s", widths[0], line[0])
		for i, cell := range line[1:] {
			fmt.Fprintf(&text, "  %*s", widths[i+1], cell)
		}
		text.WriteString("\n")
	}
	for _, note := range t.notes {
		fmt.Fprintf(&text, "    %s\n", note)
	}
	return text.String()
}
