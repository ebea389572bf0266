package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// The columns of most tables: the program with the settings that a user gets, and with as much as possible switched off.
const (
	shipped  = "as shipped"
	stripped = "stripped"
)

// group is the table of one part. Targets are about the first column; the others stand beside it.
type group struct {
	name, title string
	columns     []string
	rows        []row
	notes       []string // what else must be known to read the rows
}

// row is one figure, with a value for each column.
type row struct {
	what, unit string
	values     []float64
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

func (g *group) add(rows ...row) { g.rows = append(g.rows, rows...) }

// percentiles are those of most rows.
var percentiles = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p99", .99}}

// times adds a row for each percentile of what the columns took, with a target each, nil for none.
func (g *group) times(what, figure string, targets []*target, took ...kit.Times) {
	for n, p := range percentiles {
		r := row{what: what + ", " + p.name, unit: "ms"}
		if figure != "" {
			r.figure = figure + p.name
		}
		if targets != nil {
			r.target = targets[n]
		}
		for _, t := range took {
			r.values = append(r.values, t.MS(p.q))
		}
		g.add(r)
	}
}

func (g *group) note(f string, a ...any) { g.notes = append(g.notes, fmt.Sprintf(f, a...)) }

// verdict says what a row is meant to reach, and whether it does.
func (g *group) verdict(r row) string {
	if r.target == nil {
		return ""
	}
	t, value, text := r.target, r.values[0], kit.Number(r.target.limit)+unit(r.unit)
	if at := slices.Index(g.columns, t.against); at >= 0 && t.added {
		value, text = value-r.values[at], text+" over "+t.against
	} else if at >= 0 {
		value, text = value/r.values[at], kit.Number(t.limit)+" × "+t.against
	}
	sign, reached := "≤ ", value <= t.limit
	if t.atLeast {
		sign, reached = "≥ ", value >= t.limit
	}
	return sign + text + map[bool]string{true: ": reached", false: ": missed"}[reached]
}

func unit(of string) string {
	if of == "" {
		return ""
	}
	return " " + of
}

// figuresOf returns the figures that documents quote, by their names.
func (g *group) figuresOf() map[string]string {
	all := map[string]string{}
	for _, r := range g.rows {
		for i, value := range r.values {
			if name := g.figure(r, i); name != "" {
				all[name] = kit.Number(value)
			}
		}
	}
	return all
}

func (g *group) figure(r row, column int) string {
	switch {
	case column == 0:
		return r.figure
	case r.figure != "" && g.columns[column] == stripped:
		return r.figure + "_stripped"
	}
	return ""
}

// cells returns the table, with the names of figures.
func (g *group) cells() [][]string {
	targets := slices.ContainsFunc(g.rows, func(r row) bool { return r.target != nil })
	all := [][]string{append([]string{""}, g.columns...)}
	if targets {
		all[0] = append(all[0], "target")
	}
	for _, r := range g.rows {
		line := []string{r.what}
		for i, value := range r.values {
			line = append(line, figures.Mark(g.figure(r, i), kit.Number(value))+unit(r.unit))
		}
		if targets {
			line = append(line, g.verdict(r))
		}
		all = append(all, line)
	}
	return all
}

// print writes the table for a terminal.
func (g *group) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s: %s\n", g.name, g.title)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range g.cells() {
		fmt.Fprintln(table, "  "+figures.Plain(strings.Join(line, "\t")))
	}
	err := table.Flush()
	for _, note := range g.notes {
		fmt.Fprintln(out, "    "+note)
	}
	return err
}

// markdown returns the table for a document.
func (g *group) markdown(host []string) string {
	var b strings.Builder
	for n, line := range g.cells() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if n == 0 {
			b.WriteString("|---|" + strings.Repeat("--:|", len(g.columns)) + strings.Repeat("---|", len(line)-1-len(g.columns)) + "\n")
		}
	}
	fmt.Fprintf(&b, "\n%s.\n", strings.Join(append(slices.Clone(g.notes), host...), ".\n"))
	return b.String()
}

// writeDocuments puts the tables into their page, and their figures wherever a document of the repository quotes them.
func writeDocuments(root string, host []string, groups []group) error {
	quoted := map[string]string{}
	for _, g := range groups {
		if err := figures.Replace(filepath.Join(root, page), g.name, g.markdown(host)); err != nil {
			return err
		}
		maps.Copy(quoted, g.figuresOf())
	}
	return figures.Write(root, quoted)
}

// mediansOf makes one group of each part's runs. Parts without a run are left out.
func mediansOf(results [][]group) (all []group) {
	for _, runs := range results {
		if len(runs) == 0 {
			continue
		}
		middle := runs[len(runs)-1]
		middle.rows = slices.Clone(middle.rows) // those of the run stay
		for i, r := range middle.rows {
			medians := make([]float64, len(r.values))
			for column := range medians {
				var values []float64
				for _, run := range runs {
					values = append(values, run.rows[i].values[column])
				}
				medians[column] = kit.Percentile(values, .5)
			}
			middle.rows[i].values = medians
		}
		all = append(all, middle)
	}
	return all
}
