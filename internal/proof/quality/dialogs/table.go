package dialogs

import (
	"fmt"
	"slices"
	"strings"
	"time"
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

// text returns all tables, and the machine that they were measured on.
func (b *bench) text() string {
	var text strings.Builder
	for _, t := range b.tables {
		t.write(&text)
	}
	text.WriteString(b.memories.String())
	fmt.Fprintf(&text, "%s.\n", strings.Join(b.host, "; "))
	return text.String()
}

// figures are the shares of messages among the first ten, in percent.
func (t *table) figures() map[string]string {
	const firstTen = 1 // of inMessages
	all := map[string]string{}
	for _, r := range t.rows {
		for name, of := range map[string]string{"recall_ts_rank": "`ts_rank`", "recall_bm25": "BM25, message", "recall_ours": "**recall, words"} {
			if strings.HasPrefix(r.way, of) { // the last one of recall's is with vectors, where there are any
				all[name] = fmt.Sprintf("%.0f", 100*r.messages[firstTen]/float64(r.asked))
			}
		}
	}
	return all
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
