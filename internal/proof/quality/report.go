package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// figure is a result beside its target.
type figure struct {
	what  string
	value float64
	of    int    // what it is counted of; 0 for a figure that is no count
	unit  string // "%", or "" for a count
	// least and most are the target; both 0 with free for what only informs.
	least, most float64
	free        bool
	known       string // what others were found to do
	// detail are examples of what went wrong, without which a miss cannot be understood.
	detail []string
}

// exactly is a count that must be all of them.
func exactly(what string, got, of int, known string, detail ...string) figure {
	return figure{what: what, value: float64(got), of: of, least: float64(of), most: float64(of), known: known, detail: detail}
}

// none is a count that must be 0.
func none(what string, got int, known string, detail ...string) figure {
	return figure{what: what, value: float64(got), known: known, detail: detail}
}

// atMost is a figure with an upper bound.
func atMost(what string, value, most float64, unit, known string, detail ...string) figure {
	return figure{what: what, value: value, unit: unit, least: math.Inf(-1), most: most, known: known, detail: detail}
}

// below is a share in percent, of a number of things, with an upper bound that it may not reach.
func below(what string, part, of int, most float64, known string, detail ...string) figure {
	return figure{
		what:   what,
		value:  100 * float64(part) / float64(max(1, of)),
		unit:   "%",
		least:  math.Inf(-1),
		most:   math.Nextafter(most, 0),
		known:  known,
		detail: detail,
	}
}

// informs is a figure without a target.
func informs(what string, value float64) figure {
	return figure{what: what, value: value, free: true}
}

func (f figure) reached() bool { return f.free || f.value >= f.least && f.value <= f.most }

func (f figure) text() string {
	text := kit.Number(f.value) + unit(f.unit)
	if f.of > 0 {
		text += fmt.Sprintf(" of %d", f.of)
	}
	return text
}

func (f figure) target() string {
	switch {
	case f.free:
		return ""
	case f.least == f.most:
		return kit.Number(f.least) + unit(f.unit)
	case f.most < math.Round(f.most): // below it, not at it
		return "< " + kit.Number(math.Round(f.most)) + unit(f.unit)
	}
	return "≤ " + kit.Number(f.most) + unit(f.unit)
}

func unit(u string) string {
	if u == "" {
		return ""
	}
	return " " + u
}

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

func (r *report) add(s suite, figures []figure, took time.Duration) {
	r.suites = append(r.suites, played{s, figures, took})
}

// missed returns an error that names the targets that were missed.
func (r *report) missed() error {
	var all []string
	for _, s := range r.suites {
		for _, f := range s.figures {
			if !f.reached() {
				all = append(all, fmt.Sprintf("%s: %s is %s, not %s", s.name, f.what, f.text(), f.target()))
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
	var text strings.Builder
	text.WriteString("| suite | figure | result | target | best known |\n|---|---|---|---|---|\n")
	for _, s := range r.suites {
		for _, f := range s.figures {
			verdict := ""
			if !f.reached() {
				verdict = " **missed**"
			}
			fmt.Fprintf(&text, "| %s | %s | %s%s | %s | %s |\n", s.name, f.what, f.text(), verdict, f.target(), f.known)
		}
	}
	var took time.Duration
	for _, s := range r.suites {
		took += s.took
	}
	fmt.Fprintf(&text, "\n%s. %.0f s.\n", strings.Join(r.host, "; "), took.Seconds())
	_, err := io.WriteString(out, text.String()+r.details())
	if err == nil && doc != "" {
		err = kit.ReplaceInDocument(doc, "memories", text.String())
	}
	return err
}

func (r *report) details() string {
	var text strings.Builder
	for _, s := range r.suites {
		for _, f := range s.figures {
			for n, one := range f.detail {
				const most = 20
				if f.reached() && !f.free || n == most {
					break
				}
				fmt.Fprintf(&text, "%s: %s: %s\n", s.name, f.what, one)
			}
		}
	}
	return text.String()
}
