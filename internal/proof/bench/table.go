package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// The columns of most tables: the program with the settings that a user gets, and with as much as possible switched off.
const (
	shipped  = "as shipped"
	stripped = "stripped"
)

// table is that of one part. Targets are about the first column; the others stand beside it.
type table struct {
	name    string
	columns []string
	rows    []row
	notes   []string // what else must be known to read the rows
}

// row is one figure, with its values for each column: one value of each run.
type row struct {
	what, unit string
	measured   [][]float64
	target     *target
	// figure is the name under which documents quote the first column; a stripped server's has _stripped behind it.
	figure string
}

// target is what the first column is meant to reach: by itself, or against another column as a ratio or a difference.
type target struct {
	limit   float64
	atLeast bool
	against string
	added   bool // the difference counts
}

func atMost(limit float64) *target  { return &target{limit: limit} }
func atLeast(limit float64) *target { return &target{limit: limit, atLeast: true} }

func (r row) value(column int) float64 { return kit.Percentile(r.measured[column], .5) }

// put adds a value of a row in a column. The first value makes the row.
func (t *table) put(column string, r row, value float64) {
	at := slices.IndexFunc(t.rows, func(known row) bool { return known.what == r.what })
	if at < 0 {
		at, r.measured = len(t.rows), make([][]float64, len(t.columns))
		t.rows = append(t.rows, r)
	}
	of := &t.rows[at].measured[slices.Index(t.columns, column)]
	*of = append(*of, value)
}

// times puts percentiles of what took time. The figure is the beginning of their names, "" for none, and the targets are
// in their order, none or one for each.
func (t *table) times(column, what, figure string, took kit.Times, targets ...*target) {
	for n, q := range []float64{.5, .99} {
		name := fmt.Sprintf("p%.0f", 100*q)
		r := row{what: what + ", " + name, unit: "ms"}
		if figure != "" {
			r.figure = figure + name
		}
		if targets != nil {
			r.target = targets[n]
		}
		t.put(column, r, took.MS(q))
	}
}

func (t *table) note(f string, a ...any) { t.notes = append(t.notes, fmt.Sprintf(f, a...)) }

// verdict says what a row is meant to reach, and whether it does.
func (t *table) verdict(r row) string {
	if r.target == nil {
		return ""
	}
	goal, value, text := r.target, r.value(0), strings.TrimSpace(kit.Number(r.target.limit)+" "+r.unit)
	if at := slices.Index(t.columns, goal.against); at >= 0 && goal.added {
		value, text = value-r.value(at), text+" over "+goal.against
	} else if at >= 0 {
		value, text = value/r.value(at), kit.Number(goal.limit)+" × "+goal.against
	}
	sign, reached := "≤ ", value <= goal.limit
	if goal.atLeast {
		sign, reached = "≥ ", value >= goal.limit
	}
	return sign + text + map[bool]string{true: ": reached", false: ": missed"}[reached]
}

func (t *table) figure(r row, column int) string {
	switch {
	case column == 0:
		return r.figure
	case r.figure != "" && t.columns[column] == stripped:
		return r.figure + "_stripped"
	}
	return ""
}

// markdown returns the table with the names of its figures, and below it the notes and lines about the host.
func (t *table) markdown(host []string) string {
	head, rule := append([]string{""}, t.columns...), "|---|"+strings.Repeat("--:|", len(t.columns))
	targets := slices.ContainsFunc(t.rows, func(r row) bool { return r.target != nil })
	if targets {
		head, rule = append(head, "target"), rule+"---|"
	}
	lines := []string{"| " + strings.Join(head, " | ") + " |", rule}
	for _, r := range t.rows {
		cells := []string{r.what}
		for i := range t.columns {
			cells = append(cells, strings.TrimSpace(figures.Mark(t.figure(r, i), kit.Number(r.value(i)))+" "+r.unit))
		}
		if targets {
			cells = append(cells, t.verdict(r))
		}
		lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
	}
	lines = append(lines, "")
	for _, note := range slices.Concat(t.notes, host) {
		lines = append(lines, note+".")
	}
	return strings.Join(lines, "\n") + "\n"
}
