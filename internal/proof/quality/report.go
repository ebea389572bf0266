package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// figure is a result beside its target.
type figure struct {
	what   string
	value  float64
	text   string
	target string // "" for what only informs
	// least and most are the target as numbers.
	least, most float64
	known       string // what others were found to do
	// detail are examples of what went wrong, without which a miss cannot be understood.
	detail []string
}

// exactly is a count that must be all of them.
func exactly(what string, got, of int, known string, detail ...string) figure {
	all := float64(of)
	return figure{what, float64(got), fmt.Sprintf("%d of %d", got, of), kit.Number(all), all, all, known, detail}
}

// none counts what must not be.
func none(what, known string, found ...string) figure {
	return figure{what, float64(len(found)), kit.Number(float64(len(found))), "0", 0, 0, known, found}
}

// atMost is a figure with an upper bound.
func atMost(what string, value, most float64, unit, known string, detail ...string) figure {
	return figure{what, value, with(unit, value), "≤ " + with(unit, most), math.Inf(-1), most, known, detail}
}

// below is a share in percent, of a number of things, with an upper bound that it may not reach.
func below(what string, part, of int, most float64, known string, detail ...string) figure {
	share := 100 * float64(part) / float64(max(1, of))
	return figure{what, share, with("%", share), "< " + with("%", most), math.Inf(-1), math.Nextafter(most, 0), known, detail}
}

// informs is a figure without a target.
func informs(what string, value float64) figure {
	return figure{what: what, value: value, text: kit.Number(value), least: math.Inf(-1), most: math.Inf(1)}
}

func with(unit string, value float64) string {
	return strings.TrimSpace(kit.Number(value) + " " + unit)
}

func (f figure) reached() bool { return f.value >= f.least && f.value <= f.most }

// report is the table of a run.
type report struct {
	host   []string
	suites []played
}

type played struct {
	suite
	figures []figure
	took    time.Duration
}

// missed returns an error that names the targets that were missed.
func (r *report) missed() error {
	var all []string
	for _, s := range r.suites {
		for _, f := range s.figures {
			if !f.reached() {
				all = append(all, fmt.Sprintf("%s: %s is %s, not %s", s.name, f.what, f.text, f.target))
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("missed: %s", strings.Join(all, "; "))
}

// write prints the table, with examples of what missed its target, and puts it into a document unless that is "".
func (r *report) write(out io.Writer, doc string) error {
	var text, details strings.Builder
	var took time.Duration
	text.WriteString("| suite | figure | result | target | best known |\n|---|---|---|---|---|\n")
	for _, s := range r.suites {
		took += s.took
		for _, f := range s.figures {
			verdict := ""
			if !f.reached() {
				verdict = " **missed**"
				const most = 20
				for _, one := range f.detail[:min(most, len(f.detail))] {
					fmt.Fprintf(&details, "%s: %s: %s\n", s.name, f.what, one)
				}
			}
			fmt.Fprintf(&text, "| %s | %s | %s%s | %s | %s |\n", s.name, f.what, f.text, verdict, f.target, f.known)
		}
	}
	fmt.Fprintf(&text, "\n%s. %.0f s.\n", strings.Join(r.host, "; "), took.Seconds())
	_, err := io.WriteString(out, text.String()+details.String())
	if err == nil && doc != "" {
		err = figures.Replace(doc, "memories", text.String())
	}
	return err
}
