package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
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

// addColumn adds the figures of one more thing; they are the same, in the same order, as the first one's.
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
		line := []string{row.label()}
		for _, value := range row.values {
			line = append(line, number(value))
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

func (r tableRow) label() string {
	if r.unit == "" {
		return r.what
	}
	return r.what + ", " + r.unit
}

// number has three digits that mean something, and all digits of what is greater.
func number(value float64) string {
	switch size := math.Abs(value); {
	case math.IsInf(value, 0) || math.IsNaN(value):
		return "-"
	case size >= 100 || value == math.Trunc(value):
		return fmt.Sprintf("%.0f", value)
	case size >= 10:
		return fmt.Sprintf("%.1f", value)
	case size >= 1:
		return fmt.Sprintf("%.2f", value)
	default:
		return fmt.Sprintf("%.3f", value)
	}
}
