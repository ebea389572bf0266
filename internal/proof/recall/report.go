package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Recall is measured in the first so many messages, and in the first so many sessions.
var (
	inMessages = []int{5, 10, 25, 50}
	inSessions = []int{5, 10}
)

type table struct {
	name                string
	messages, questions int
	rows                []row
}

// row is what a way has found of all questions.
type row struct {
	way      string
	short    string    // in the chart
	messages []float64 // sums of the share that was found, by inMessages
	asked    int       // questions whose messages are known
	sessions []float64 // by inSessions
	all      int
	took     []time.Duration
}

// add counts the answer to a question: the share of its messages, and of their sessions, that is among the first.
func (r *row) add(d *dialog, q question, found []int64, took time.Duration) {
	if r.messages == nil {
		r.messages, r.sessions = make([]float64, len(inMessages)), make([]float64, len(inSessions))
	}
	var ids, sessions []string
	sessionOf := map[string]string{}
	for _, m := range d.messages {
		sessionOf[m.id] = m.session
	}
	for _, seq := range found {
		m := d.messages[seq-1]
		ids = append(ids, m.id)
		if !slices.Contains(sessions, m.session) {
			sessions = append(sessions, m.session)
		}
	}
	wanted := q.sessions
	for _, id := range q.messages {
		if !slices.Contains(wanted, sessionOf[id]) {
			wanted = append(wanted, sessionOf[id])
		}
	}
	if len(q.messages) > 0 {
		r.asked++
		for n, most := range inMessages {
			r.messages[n] += shareFound(ids, q.messages, most)
		}
	}
	r.all++
	for n, most := range inSessions {
		r.sessions[n] += shareFound(sessions, wanted, most)
	}
	r.took = append(r.took, took)
}

func shareFound(found, wanted []string, most int) float64 {
	hits := 0
	for _, id := range found[:min(most, len(found))] {
		if slices.Contains(wanted, id) {
			hits++
		}
	}
	return float64(hits) / float64(len(wanted))
}

func (b *bench) report(o options, out io.Writer) error {
	var text strings.Builder
	for _, t := range b.tables {
		t.write(&text)
	}
	text.WriteString(b.memories.String())
	fmt.Fprintf(&text, "%s.\n", strings.Join(b.host, "; "))
	_, err := io.WriteString(out, text.String())
	if o.doc != "" {
		err = errors.Join(err, kit.ReplaceInDocument(o.doc, "recall", text.String()))
	}
	if o.charts != "" {
		err = errors.Join(err, kit.WriteChart(filepath.Join(o.charts, "recall.svg"), b.panels()))
	}
	return err
}

func (t *table) write(text *strings.Builder) {
	fmt.Fprintf(text, "%s: %d messages, %d questions\n\n", t.name, t.messages, t.questions)
	text.WriteString("| recall, % | @5 | @10 | @25 | @50 | sessions @5 | @10 | p50 / p95 ms |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range t.rows {
		fmt.Fprintf(text, "| %s |", r.way)
		for _, sum := range r.messages {
			if r.asked == 0 {
				text.WriteString(" – |")
			} else {
				fmt.Fprintf(text, " %.1f |", 100*sum/float64(r.asked))
			}
		}
		for _, sum := range r.sessions {
			fmt.Fprintf(text, " %.1f |", 100*sum/float64(r.all))
		}
		slices.Sort(r.took)
		ms := func(share float64) float64 {
			return r.took[int(share*float64(len(r.took)-1))].Seconds() * 1000
		}
		fmt.Fprintf(text, " %.1f / %.1f |\n", ms(.5), ms(.95))
	}
	text.WriteString("\n")
}

// panels draw the recall of messages of each set that knows them.
func (b *bench) panels() []kit.Panel {
	var panels []kit.Panel
	for _, t := range b.tables {
		p := kit.Panel{Title: t.name, Unit: "recall, %", X: "first messages", Places: []string{"5", "10", "25", "50"}}
		for _, r := range slices.Backward(t.rows) {
			line := kit.Line{Name: r.short}
			for n, sum := range r.messages {
				if r.asked > 0 {
					line.Points = append(line.Points, kit.Point{X: float64(n), Y: 100 * sum / float64(r.asked)})
				}
			}
			p.Lines = append(p.Lines, line)
		}
		if t.rows[0].asked > 0 {
			panels = append(panels, p)
		}
	}
	return panels
}
