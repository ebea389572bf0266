package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// report is what was measured of all dialogs.
type report struct {
	sentences, turns recall.Scale
	dialogs          []*dialog
	rows             []row
	asked            asked
}

// row is what one way has made of each dialog.
type row struct {
	way     string
	figures []figures
}

func (r *report) add(d *dialog, way string, groups []int) {
	if len(r.dialogs) == 0 || r.dialogs[len(r.dialogs)-1] != d {
		r.dialogs = append(r.dialogs, d)
	}
	found := compare(d, groups)
	for n := range r.rows {
		if r.rows[n].way == way {
			r.rows[n].figures = append(r.rows[n].figures, found)
			return
		}
	}
	r.rows = append(r.rows, row{way: way, figures: []figures{found}})
}

// mean returns the mean of a row's figures; topics and sessions are sums.
func (w row) mean() (f1 float64, all figures) {
	for _, f := range w.figures {
		share := float64(len(w.figures))
		f1 += f.f1() / share
		all.precision += f.precision / share
		all.recall += f.recall / share
		all.topics += f.topics
		all.sessions += f.sessions
	}
	return f1, all
}

// f1 returns the mean B-cubed F1 of a way.
func (r *report) f1(way string) float64 {
	for _, w := range r.rows {
		if w.way == way {
			f1, _ := w.mean()
			return f1
		}
	}
	return 0
}

func (r *report) String() string {
	var text strings.Builder
	text.WriteString("| B³ over users' messages |")
	for _, d := range r.dialogs {
		fmt.Fprintf(&text, " %s |", d.name)
	}
	text.WriteString(" F1 | precision | recall | topics |\n|---|" + strings.Repeat("---|", len(r.dialogs)+4) + "\n")
	for _, w := range r.rows {
		fmt.Fprintf(&text, "| %s |", w.way)
		for _, f := range w.figures {
			fmt.Fprintf(&text, " %.3f |", f.f1())
		}
		f1, all := w.mean()
		fmt.Fprintf(&text, " %.3f | %.3f | %.3f | %d for %d |\n", f1, all.precision, all.recall, all.topics, all.sessions)
	}
	messages, turns := 0, 0
	for _, d := range r.dialogs {
		messages += d.messages
		turns += len(d.turns)
	}
	a := r.asked
	fmt.Fprintf(&text, "\n%d messages, %d turns. Unrelated sentences have a cosine of %.2f (99th percentile %.2f), unrelated turns one of %.2f (%.2f).\n",
		messages, turns, r.sentences.P50, r.sentences.P99, r.turns.P50, r.turns.P99)
	fmt.Fprintf(&text, "The question alone names the later topic of %d of %d turns whose topic there was, and of %d of %d that came back to one; %d questions name another.\n",
		a.found, a.existing, a.backFound, a.back, a.other)
	return text.String()
}

// panels draw how a topic fades, by its number of accesses, with the settings' defaults.
func panels() []kit.Panel {
	const days, day = 90, 24 * time.Hour
	s := topics.Defaults()
	fading := kit.Panel{Title: "how a topic of importance 1 fades", Unit: "priority", X: "days since it was talked about"}
	for _, accesses := range []int{0, 5, 10, 15, 20, 25} {
		line := kit.Line{Name: fmt.Sprint(accesses)}
		if accesses == 0 {
			line.Name = "accesses: 0"
		}
		for quarter := 0; quarter <= 4*days; quarter++ {
			at := time.Duration(quarter) * day / 4
			line.Points = append(line.Points, kit.Point{X: at.Hours() / 24, Y: s.Priority(1, accesses, at)})
		}
		fading.Lines = append(fading.Lines, line)
	}
	consolidation := kit.Panel{Title: "how accesses consolidate it", Unit: "days", X: "accesses"}
	life, survival := kit.Line{Name: "half-life"}, kit.Line{Name: "until its priority is 0.05"}
	for accesses := 0; accesses <= 35; accesses++ {
		for _, x := range []float64{float64(accesses), float64(accesses) + .999} {
			life.Points = append(life.Points, kit.Point{X: x, Y: s.HalfLifeOf(accesses).Hours() / 24})
			survival.Points = append(survival.Points, kit.Point{X: x, Y: s.FadesAfter(1, accesses).Hours() / 24})
		}
	}
	consolidation.Lines = []kit.Line{life, survival}
	return []kit.Panel{fading, consolidation}
}
