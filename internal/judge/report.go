package judge

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

type count struct {
	cases int
	// wanted is how much was to be remembered, closed or in the brief, kept how much of it was. stored are the memories that would be
	// shown to the model, right those of them that the user said.
	wanted, kept, stored, right int
	calls, input, output        int
}

func (c *count) add(o count) {
	c.cases += o.cases
	c.wanted += o.wanted
	c.kept += o.kept
	c.stored += o.stored
	c.right += o.right
	c.calls += o.calls
	c.input += o.input
	c.output += o.output
}

// Report is what a model is worth.
type Report struct {
	kinds, languages map[string]*count
	all              count
	took             []time.Duration
	wrong            []string
}

func (r *Report) add(one *Case, came result) {
	c, wrong := judge(one, came)
	for _, in := range []struct {
		counts map[string]*count
		name   string
	}{{r.kinds, one.Kind}, {r.languages, one.Language}} {
		if in.counts[in.name] == nil {
			in.counts[in.name] = &count{}
		}
		in.counts[in.name].add(c)
	}
	r.all.add(c)
	r.took = append(r.took, came.took)
	for _, line := range wrong {
		r.wrong = append(r.wrong, fmt.Sprintf("%s, %s: %q: %s", one.Language, one.Kind, one.Said[0].Content, line))
	}
}

func (r *Report) sort() {
	slices.Sort(r.wrong)
	slices.Sort(r.took)
}

// Kept returns how much was kept, and of how much that was to be kept.
func (r *Report) Kept() (kept, of int) { return r.all.kept, r.all.wanted }

// Right returns how many of the stored memories are what the user said, and of how many.
func (r *Report) Right() (right, of int) { return r.all.right, r.all.stored }

// mostWrong is how many lines about wrong results are written, unless all are asked for.
const mostWrong = 20

// Write writes the report as tables; with all, everything that is wrong.
func (r *Report) Write(out io.Writer, all bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "kind\tcases\tkept\trecall\tright\tprecision")
	r.rows(table, r.kinds)
	fmt.Fprintln(table, "\t\t\t\t\t\nlanguage\tcases\tkept\trecall\tright\tprecision")
	r.rows(table, r.languages)
	fmt.Fprintln(table, "\t\t\t\t\t")
	row(table, "all", &r.all)
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d calls, %d input tokens, %d output tokens: %d tokens a case", r.all.calls, r.all.input, r.all.output,
		(r.all.input+r.all.output)/max(r.all.cases, 1))
	if len(r.took) > 0 {
		fmt.Fprintf(out, "; half of the cases took %s or less, the longest %s", round(r.took[len(r.took)/2]), round(r.took[len(r.took)-1]))
	}
	_, err := fmt.Fprintf(out, ".\n%s", r.mistakes(all))
	return err
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

func (r *Report) rows(out io.Writer, counts map[string]*count) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		row(out, name, counts[name])
	}
}

func row(out io.Writer, name string, c *count) {
	fmt.Fprintf(out, "%s\t%d\t%s\t%s\n", name, c.cases, of(c.kept, c.wanted), of(c.right, c.stored))
}

// of writes a part of a whole, and its share.
func of(part, whole int) string {
	if whole == 0 {
		return "–\t–"
	}
	return fmt.Sprintf("%d of %d\t%.0f %%", part, whole, 100*float64(part)/float64(whole))
}

func (r *Report) mistakes(all bool) string {
	if len(r.wrong) == 0 {
		return ""
	}
	shown := r.wrong
	if !all {
		shown = shown[:min(len(shown), mostWrong)]
	}
	text := "\n" + strings.Join(shown, "\n") + "\n"
	if left := len(r.wrong) - len(shown); left > 0 {
		text += fmt.Sprintf("and %d more, with --all.\n", left)
	}
	return text
}
