package dialogs

import (
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// grouping is what was measured of all chats.
type grouping struct {
	sentences, turns recall.Scale
	dialogs          []*talk
	rows             []grouped
	asked            guesses
}

// grouped is what one way has made of each chat.
type grouped struct {
	way     string
	figures []figures
}

func (r *grouping) add(d *talk, way string, groups []int) {
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
	r.rows = append(r.rows, grouped{way: way, figures: []figures{found}})
}

// mean returns the mean of a row's figures; topics and sessions are sums.
func (w grouped) mean() (f1 float64, all figures) {
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
func (r *grouping) f1(way string) float64 {
	for _, w := range r.rows {
		if w.way == way {
			f1, _ := w.mean()
			return f1
		}
	}
	return 0
}

func (r *grouping) String() string {
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
	fmt.Fprintf(&text, "The question alone names the later topic of %d of %d turns whose topic there was, and of %d of %d that came back to one; %d "+
		"questions name another.\n",
		a.found, a.existing, a.backFound, a.back, a.other)
	return text.String()
}
