package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// figure is one line of the summary.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// figures of one kind.
type figures struct {
	Title string   `json:"title"`
	Rows  []figure `json:"rows"`
}

func (f *figures) add(name string, value float64, unit string) {
	f.Rows = append(f.Rows, figure{name, orZero(value), unit})
}

// addPercentiles adds the median and the 99th percentile.
func (f *figures) addPercentiles(name string, c counts) {
	f.add(name+", p50", c.ms(.5), "ms")
	f.add(name+", p99", c.ms(.99), "ms")
}

// summarize returns the figures of a run.
func summarize(r report) []figures {
	if len(r.samples) < 2 {
		return nil
	}
	s := spanOf(r.samples)
	return []figures{r.people(s), r.waits(), r.memoryWork(s), r.costs(s), r.rows(s), r.machineUse(s)}
}

// span is from the first sample to the last, and what was done in between.
type span struct {
	first, last sample
	seconds     float64
	turns       float64
	words       float64
	folds       float64
}

func spanOf(samples []sample) span {
	s := span{first: samples[0], last: samples[len(samples)-1]}
	s.seconds = (s.last.At - s.first.At).Seconds()
	for _, one := range samples[1:] { // the first one counts what was before it
		s.turns += float64(one.Heard.Turns)
		s.words += float64(one.Heard.Words)
	}
	s.folds = float64(s.last.Postgres.FoldsDone - s.first.Postgres.FoldsDone)
	return s
}

func (r report) people(s span) figures {
	f := figures{Title: "people"}
	f.add("chats at once", float64(r.chats), "")
	f.add("time", r.duration.Minutes(), "min")
	f.add("turns", float64(r.totals.counts[turnCount]), "")
	f.add("turns per second", s.turns/s.seconds, "/s")
	f.add("words per second", s.words/s.seconds, "/s")
	f.add("streams open, at most", most(r.samples, func(s sample) float64 { return float64(s.Heard.Open) }), "")
	f.add("gone in mid stream, resumed on the other replica", float64(r.totals.counts[dropCount]), "")
	f.add("cancelled", float64(r.totals.counts[cancelCount]), "")
	f.add("sent again by client_message_id", float64(r.totals.counts[repeatCount]), "")
	f.add("with files", float64(r.totals.counts[fileCount]), "")
	f.add("reads of history, memory, chats, search", float64(r.totals.counts[readCount]), "")
	f.add("errors", float64(sum(r.totals.errors)), "")
	return f
}

func (r report) waits() figures {
	f := figures{Title: "waiting, without the model's own time"}
	f.addPercentiles("first word", r.totals.times[firstWord])
	f.addPercentiles("a word behind the model's pace", r.totals.times[wordLag])
	f.addPercentiles("the same, read from the other replica", r.totals.times[lagElsewhere])
	f.addPercentiles("rest of a reply after resuming", r.totals.times[resumeGap])
	f.addPercentiles("a read", r.totals.times[readTime])
	f.addPercentiles("a whole turn, the model's time included", r.totals.times[turnTime])
	return f
}

func (r report) memoryWork(s span) figures {
	f := figures{Title: "memory"}
	f.add("brief, bridge and tail per turn", float64(r.totals.counts[memoryTokens])/float64(max(r.totals.counts[turnCount], 1)), "tokens")
	f.add("turns in neither brief nor prompt", float64(r.totals.counts[droppedTurns]), "")
	f.add("folds", s.folds, "")
	f.add("pick-up of a fold, p50", r.pickUp50, "ms")
	f.add("pick-up of a fold, p99", r.pickUp99, "ms")
	f.add("folds waiting or running, at most", most(r.samples, func(s sample) float64 { return float64(waiting(s.Postgres.Jobs)) }), "")
	f.add("a chat was due to be folded for, at most", most(r.samples, func(s sample) float64 { return s.Postgres.Late }), "s")
	return f
}

// costs are what one turn takes, and one fold.
func (r report) costs(s span) figures {
	f := figures{Title: "costs"}
	var servers, workers time.Duration
	for n, p := range s.last.Parts {
		used := p.CPU - s.first.Parts[n].CPU
		if n < replicas {
			servers += used
		} else {
			workers += used
		}
	}
	postgres := s.last.Postgres.CPU - s.first.Postgres.CPU
	f.add("words per turn", s.words/s.turns, "")
	f.add("replicas' CPU per turn", kit.Milliseconds(servers)/s.turns, "ms")
	f.add("Postgres's CPU per turn", kit.Milliseconds(postgres)/s.turns, "ms")
	f.add("workers' CPU per fold", kit.Milliseconds(workers)/s.folds, "ms")
	f.add("workers' CPU per turn", kit.Milliseconds(workers)/s.turns, "ms")
	f.add("turns per fold", s.turns/s.folds, "")
	f.add("WAL per turn", float64(s.last.Postgres.WAL-s.first.Postgres.WAL)/s.turns/1e3, "kB")
	f.add("connections, at most", most(r.samples, func(s sample) float64 { return float64(s.Postgres.Connections) }), "")
	f.add("connections at work, mean", mean(r.samples, func(s sample) float64 { return float64(s.Postgres.Busy) }), "")
	return f
}

// Rows stay in keptTables, messages first. Those of passingTables are deleted again, and their room is reused.
var (
	keptTables    = []string{"public.messages", "public.chats", "public.conversation_briefs", "public.conversation_brief_revisions", "public.chat_files", "public.message_files"}
	passingTables = []string{"public.message_deltas", "river.river_job"}
)

func (r report) rows(s span) figures {
	f := figures{Title: "rows"}
	heap, indexes := grown(s.first, s.last, keptTables)
	f.add("kept per turn, rows", heap/s.turns, "bytes")
	f.add("kept per turn, indexes", indexes/s.turns, "bytes")
	heap, indexes = grown(s.first, s.last, keptTables[:1])
	f.add("of these messages, rows", heap/s.turns, "bytes")
	f.add("of these messages, indexes", indexes/s.turns, "bytes")
	for _, name := range passingTables {
		t := s.last.Postgres.Tables[name]
		f.add(short(name)+" at the end, rows and indexes", float64(t.Heap+t.Indexes)/1e6, "MB")
	}
	f.add("dead rows in one table, at most", most(r.samples, func(s sample) float64 { return float64(deadRows(s)) }), "")
	f.add("runs of autovacuum", vacuumRuns(s.first, s.last), "")
	f.add("database at the end", float64(s.last.Postgres.Size)/1e6, "MB")
	return f
}

func short(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// grown returns by how many bytes tables have grown.
func grown(from, to sample, names []string) (heap, indexes float64) {
	for _, name := range names {
		before, after := from.Postgres.Tables[name], to.Postgres.Tables[name]
		heap += float64(after.Heap - before.Heap)
		indexes += float64(after.Indexes - before.Indexes)
	}
	return heap, indexes
}

func deadRows(s sample) (dead int64) {
	for _, t := range s.Postgres.Tables {
		dead = max(dead, t.Dead)
	}
	return dead
}

func vacuumRuns(from, to sample) (runs float64) {
	for name, t := range to.Postgres.Tables {
		runs += float64(t.Vacuums - from.Postgres.Tables[name].Vacuums)
	}
	return runs
}

func (r report) machineUse(s span) figures {
	f := figures{Title: "machine"}
	all := 0.0
	share := func(name string, cpu time.Duration) {
		cores := cpu.Seconds() / s.seconds
		all += cores
		f.add("CPU of "+name, cores, "cores")
	}
	for n, p := range s.last.Parts {
		share(p.Name, p.CPU-s.first.Parts[n].CPU)
	}
	share("Postgres", s.last.Postgres.CPU-s.first.Postgres.CPU)
	share("the model", s.last.Model.CPU-s.first.Model.CPU)
	share("the clients", s.last.Clients.CPU-s.first.Clients.CPU)
	f.add(fmt.Sprintf("CPU of all, of %d cores", runtime.NumCPU()), all, "cores")
	for n, p := range s.last.Parts {
		f.add("memory of "+p.Name+", at most", most(r.samples, func(s sample) float64 { return float64(s.Parts[n].RSS) })/1e6, "MB")
	}
	f.add("memory of Postgres, at most", most(r.samples, func(s sample) float64 { return float64(s.Postgres.RSS) })/1e6, "MB")
	hits, reads := float64(s.last.Postgres.Hits-s.first.Postgres.Hits), float64(s.last.Postgres.Reads-s.first.Postgres.Reads)
	f.add("blocks found in Postgres's cache", 100*hits/max(hits+reads, 1), "%")
	return f
}

func most(samples []sample, value func(sample) float64) float64 {
	highest := 0.0
	for _, s := range samples {
		highest = max(highest, value(s))
	}
	return highest
}

func mean(samples []sample, value func(sample) float64) float64 {
	total := 0.0
	for _, s := range samples {
		total += value(s)
	}
	return total / float64(max(len(samples), 1))
}

// write prints the summary as a table of plain text.
func (r report) write(out io.Writer) error {
	var b strings.Builder
	for _, line := range r.machine {
		b.WriteString(line + "\n")
	}
	for _, group := range summarize(r) {
		fmt.Fprintf(&b, "\n%s\n", group.Title)
		for _, f := range group.Rows {
			b.WriteString(strings.TrimRight(fmt.Sprintf("  %-52s %10s %s", f.Name, kit.Number(f.Value), f.Unit), " ") + "\n")
		}
	}
	b.WriteString("\nchecks\n")
	for _, c := range r.checks {
		verdict := "ok    "
		if c.Problem != "" {
			verdict = "FAILED"
		}
		fmt.Fprintf(&b, "  %s %s\n", verdict, c.Name)
		for _, line := range []string{c.Detail, c.Problem} {
			if line != "" {
				b.WriteString("         " + line + "\n")
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
