package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// group is one benchmark's part of the table.
type group struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Notes are what else must be known to read the rows.
	Notes []string `json:"notes,omitempty"`
	Rows  []row    `json:"rows"`
	// Columns are the programs compared, where there are several: each row is then of one of them.
	Columns []string `json:"columns,omitempty"`
	// panels draw the chart of the rows; nil for none.
	panels func([]row) []kit.Panel
}

// row is one figure.
type row struct {
	What  string  `json:"what"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	// Of is the column that the figure belongs to, "" in a group without columns.
	Of string `json:"of,omitempty"`
	// Baseline is the same figure of Against, in the same unit and of the same run; 0 for none.
	Baseline float64 `json:"baseline,omitempty"`
	Against  string  `json:"against,omitempty"`
	// Ratio is Value to Baseline; of several runs, their median.
	Ratio  float64 `json:"ratio,omitempty"`
	Target *target `json:"target,omitempty"`
}

// target is what the figure, or its ratio to the baseline, is meant to reach.
type target struct {
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least,omitempty"`
	OfRatio bool    `json:"of_ratio,omitempty"`
}

func atMost(limit float64) *target       { return &target{Limit: limit} }
func atLeast(limit float64) *target      { return &target{Limit: limit, AtLeast: true} }
func ratioAtMost(limit float64) *target  { return &target{Limit: limit, OfRatio: true} }
func (g *group) add(rows ...row)         { g.Rows = append(g.Rows, rows...) }
func (g *group) note(f string, a ...any) { g.Notes = append(g.Notes, fmt.Sprintf(f, a...)) }

func (r row) ratio() float64 {
	if r.Ratio != 0 {
		return r.Ratio
	}
	if r.Baseline == 0 {
		return 0
	}
	return r.Value / r.Baseline
}

func (t *target) text(unit string) string {
	sign := "≤ "
	if t.AtLeast {
		sign = "≥ "
	}
	if t.OfRatio {
		return sign + kit.Number(t.Limit) + "×"
	}
	return sign + kit.Number(t.Limit) + " " + unit
}

func (t *target) reached(r row) bool {
	value := r.Value
	if t.OfRatio {
		value = r.ratio()
	}
	if t.AtLeast {
		return value >= t.Limit
	}
	return value <= t.Limit
}

// mediansOf makes one group of each benchmark's runs. Benchmarks without a run are left out.
func mediansOf(results [][]group) []group {
	var all []group
	for _, runs := range results {
		if len(runs) > 0 {
			all = append(all, medianOf(runs))
		}
	}
	return all
}

func medianOf(runs []group) group {
	middle := runs[len(runs)-1]
	middle.Rows = slices.Clone(middle.Rows)
	for i := range middle.Rows {
		var values, baselines, ratios []float64
		for _, run := range runs {
			values = append(values, run.Rows[i].Value)
			baselines = append(baselines, run.Rows[i].Baseline)
			ratios = append(ratios, run.Rows[i].ratio())
		}
		r := &middle.Rows[i]
		r.Value, r.Baseline, r.Ratio = kit.Percentile(values, 0.5), kit.Percentile(baselines, 0.5), kit.Percentile(ratios, 0.5)
	}
	return middle
}

func writeJSON(out io.Writer, host []string, groups []group) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{"machine": host, "groups": groups})
}

func writeTable(out io.Writer, host []string, groups []group) error {
	var b strings.Builder
	for _, line := range host {
		b.WriteString(line + "\n")
	}
	if slices.ContainsFunc(groups, func(g group) bool { return len(g.Columns) == 0 }) {
		b.WriteString("\n" + line("", "measured", "baseline", "which", "ratio", "target", ""))
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s: %s\n", g.Name, g.Title)
		b.WriteString(g.lines())
		for _, note := range g.Notes {
			b.WriteString("    " + note + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (g group) lines() string {
	if len(g.Columns) > 0 {
		return g.sideBySide()
	}
	var b strings.Builder
	for _, r := range g.Rows {
		b.WriteString(r.line())
	}
	return b.String()
}

// sideBySide writes rows of the same figure as one line, with a column for each program compared.
func (g group) sideBySide() string {
	const label, column = "\n  %-49s", "%17s"
	var b strings.Builder
	fmt.Fprintf(&b, label[1:], "")
	for _, name := range g.Columns {
		fmt.Fprintf(&b, column, name)
	}
	for i, r := range g.Rows {
		if i == 0 || r.What != g.Rows[i-1].What {
			fmt.Fprintf(&b, label, r.What)
		}
		fmt.Fprintf(&b, column, strings.TrimSpace(kit.Number(r.Value)+" "+r.Unit))
	}
	return b.String() + "\n"
}

func (r row) line() string {
	baseline, ratio, goal, verdict := "", "", "", ""
	if r.Against != "" {
		baseline, ratio = kit.Number(r.Baseline)+" "+r.Unit, kit.Number(r.ratio())
	}
	if r.Target != nil {
		goal, verdict = r.Target.text(r.Unit), "missed"
		if r.Target.reached(r) {
			verdict = "reached"
		}
	}
	return line(r.What, kit.Number(r.Value)+" "+r.Unit, baseline, r.Against, ratio, goal, verdict)
}

// line formats one line of at most 119 characters.
func line(what, value, baseline, against, ratio, goal, verdict string) string {
	text := fmt.Sprintf("  %-39s %13s %13s  %-19s %6s  %11s %s", what, value, baseline, against, ratio, goal, verdict)
	return strings.TrimRight(text, " ") + "\n"
}

// writeDocument puts the table into a document, in the place of an earlier run's: benchmarks that run by hand
// have a place of their own.
func writeDocument(path string, chosen []benchmark, host []string, groups []group) error {
	var table strings.Builder
	if err := writeTable(&table, host, groups); err != nil {
		return err
	}
	name := "bench"
	if slices.ContainsFunc(chosen, func(b benchmark) bool { return b.byHand }) {
		name = "peers"
	}
	return kit.ReplaceInDocument(path, name, "```\n"+table.String()+"```\n")
}

// writeCharts writes an SVG for each group that has a chart, by the group's name.
func writeCharts(folder string, groups []group) error {
	var errs []error
	for _, g := range groups {
		if g.panels != nil {
			errs = append(errs, kit.WriteChart(filepath.Join(folder, g.Name+".svg"), g.panels(g.Rows)))
		}
	}
	return errors.Join(errs...)
}
