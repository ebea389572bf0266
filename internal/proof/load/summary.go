package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
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

// summarize returns the figures of a run.
func summarize(r report) []figures {
	if len(r.samples) < 2 {
		return nil
	}
	all := []figures{
		{"people", r.people()}, {"waiting, without the model's own time", r.waits()}, {"memory", r.memoryWork()},
		{"costs", r.costs()}, {"rows", r.rows()}, {"machine", r.machineUse()},
	}
	for _, group := range all {
		for i := range group.Rows {
			group.Rows[i].Value = orZero(group.Rows[i].Value)
		}
	}
	return all
}

// seconds is the time from the first sample to the last.
func (all series) seconds() float64 { return (all.last().At - all[0].At).Seconds() }

// words counts those after the first sample.
func (all series) words() (count float64) {
	for _, s := range all[1:] {
		count += float64(s.Heard.Words)
	}
	return count
}

// most returns the highest value of all samples.
func (all series) most(value func(sample) float64) float64 {
	return slices.Max(values(all.points(value)))
}

func (r report) people() []figure {
	counts := r.totals.counts
	return []figure{
		{"chats at once", float64(r.chats), ""},
		{"time", r.duration.Minutes(), "min"},
		{"turns", float64(counts[turnCount]), ""},
		{"turns per second", r.samples.turns() / r.samples.seconds(), "/s"},
		{"words per second", r.samples.words() / r.samples.seconds(), "/s"},
		{"streams open, at most", r.samples.most(func(s sample) float64 { return float64(s.Heard.Open) }), ""},
		{"gone in mid stream, resumed on the other replica", float64(counts[dropCount]), ""},
		{"cancelled", float64(counts[cancelCount]), ""},
		{"sent again by client_message_id", float64(counts[repeatCount]), ""},
		{"with files", float64(counts[fileCount]), ""},
		{"reads of history, memory, chats, search", float64(counts[readCount]), ""},
		{"errors", float64(sum(r.totals.errors)), ""},
	}
}

func (r report) waits() (rows []figure) {
	for _, wait := range []struct {
		name string
		of   timing
	}{
		{"first word", firstWord},
		{"a word behind the model's pace", wordLag},
		{"the same, read from the other replica", lagElsewhere},
		{"rest of a reply after resuming", resumeGap},
		{"a read", readTime},
		{"a whole turn, the model's time included", turnTime},
	} {
		times := r.totals.times[wait.of]
		rows = append(rows, figure{wait.name + ", p50", times.ms(.5), "ms"}, figure{wait.name + ", p99", times.ms(.99), "ms"})
	}
	return rows
}

func (r report) folds() float64 {
	return float64(r.samples.last().Postgres.FoldsDone - r.samples[0].Postgres.FoldsDone)
}

func (r report) memoryWork() []figure {
	counts := r.totals.counts
	return []figure{
		{"brief, bridge and tail per turn", float64(counts[memoryTokens]) / float64(max(counts[turnCount], 1)), "tokens"},
		{"turns in neither brief nor prompt", float64(counts[droppedTurns]), ""},
		{"folds", r.folds(), ""},
		{"pick-up of a fold, p50", r.pickUp50, "ms"},
		{"pick-up of a fold, p99", r.pickUp99, "ms"},
		{"folds waiting or running, at most", r.samples.most(func(s sample) float64 { return float64(waiting(s.Postgres.Jobs)) }), ""},
		{"a chat was due to be folded for, at most", r.samples.most(func(s sample) float64 { return s.Postgres.Late }), "s"},
	}
}

// costs are what one turn takes, and one fold.
func (r report) costs() []figure {
	first, last, turns := r.samples[0], r.samples.last(), r.samples.turns()
	servers := kit.Milliseconds(cpuOf(last.Parts[:replicas]) - cpuOf(first.Parts[:replicas]))
	workers := kit.Milliseconds(cpuOf(last.Parts[replicas:]) - cpuOf(first.Parts[replicas:]))
	busy := 0.0
	for _, s := range r.samples {
		busy += float64(s.Postgres.Busy)
	}
	return []figure{
		{"words per turn", r.samples.words() / turns, ""},
		{"replicas' CPU per turn", servers / turns, "ms"},
		{"Postgres's CPU per turn", kit.Milliseconds(last.Postgres.CPU-first.Postgres.CPU) / turns, "ms"},
		{"workers' CPU per fold", workers / r.folds(), "ms"},
		{"workers' CPU per turn", workers / turns, "ms"},
		{"turns per fold", turns / r.folds(), ""},
		{"WAL per turn", float64(last.Postgres.WAL-first.Postgres.WAL) / turns / 1e3, "kB"},
		{"connections, at most", r.samples.most(func(s sample) float64 { return float64(s.Postgres.Connections) }), ""},
		{"connections at work, mean", busy / float64(len(r.samples)), ""},
	}
}

// Rows stay in keptTables, messages first. Those of passingTables are deleted again, and their room is reused.
var (
	keptTables = []string{
		"public.messages",
		"public.chats",
		"public.conversation_briefs",
		"public.conversation_brief_revisions",
		"public.chat_files",
		"public.message_files",
	}
	passingTables = []string{"public.message_deltas", "river.river_job"}
)

func (r report) rows() []figure {
	turns, last := r.samples.turns(), r.samples.last()
	rows := []figure{
		{"kept per turn, rows", r.samples.grown(heapOf, keptTables...) / turns, "bytes"},
		{"kept per turn, indexes", r.samples.grown(indexesOf, keptTables...) / turns, "bytes"},
		{"of these messages, rows", r.samples.grown(heapOf, keptTables[0]) / turns, "bytes"},
		{"of these messages, indexes", r.samples.grown(indexesOf, keptTables[0]) / turns, "bytes"},
	}
	for _, name := range passingTables {
		t := last.Postgres.Tables[name]
		rows = append(rows, figure{short(name) + " at the end, rows and indexes", float64(t.Heap+t.Indexes) / 1e6, "MB"})
	}
	return append(rows,
		figure{"dead rows in one table, at most", r.samples.most(deadRows), ""},
		figure{"runs of autovacuum", r.samples.vacuumRuns(), ""},
		figure{"database at the end", float64(last.Postgres.Size) / 1e6, "MB"})
}

func short(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func heapOf(t table) int64    { return t.Heap }
func indexesOf(t table) int64 { return t.Indexes }

// grown returns by how many bytes tables have grown.
func (all series) grown(size func(table) int64, names ...string) (bytes float64) {
	for _, name := range names {
		bytes += float64(size(all.last().Postgres.Tables[name]) - size(all[0].Postgres.Tables[name]))
	}
	return bytes
}

func deadRows(s sample) (dead float64) {
	for _, t := range s.Postgres.Tables {
		dead = max(dead, float64(t.Dead))
	}
	return dead
}

func (all series) vacuumRuns() (runs float64) {
	for name, t := range all.last().Postgres.Tables {
		runs += float64(t.Vacuums - all[0].Postgres.Tables[name].Vacuums)
	}
	return runs
}

func (r report) machineUse() (rows []figure) {
	first, last := r.samples[0], r.samples.last()
	sum := 0.0
	share := func(name string, cpu time.Duration) {
		cores := cpu.Seconds() / r.samples.seconds()
		sum += cores
		rows = append(rows, figure{"CPU of " + name, cores, "cores"})
	}
	for n, p := range last.Parts {
		share(p.Name, p.CPU-first.Parts[n].CPU)
	}
	share("Postgres", last.Postgres.CPU-first.Postgres.CPU)
	share("the model", last.Model.CPU-first.Model.CPU)
	share("the clients", last.Clients.CPU-first.Clients.CPU)
	rows = append(rows, figure{fmt.Sprintf("CPU of all, of %d cores", runtime.NumCPU()), sum, "cores"})
	for n, p := range last.Parts {
		rows = append(rows, figure{"memory of " + p.Name + ", at most", r.samples.most(func(s sample) float64 { return float64(s.Parts[n].RSS) }) / 1e6, "MB"})
	}
	hits, reads := float64(last.Postgres.Hits-first.Postgres.Hits), float64(last.Postgres.Reads-first.Postgres.Reads)
	return append(rows,
		figure{"memory of Postgres, at most", r.samples.most(func(s sample) float64 { return float64(s.Postgres.RSS) }) / 1e6, "MB"},
		figure{"blocks found in Postgres's cache", 100 * hits / max(hits+reads, 1), "%"})
}

// write prints the summary as a table of plain text.
func (r report) write(out io.Writer) {
	for _, line := range r.machine {
		fmt.Fprintln(out, line)
	}
	for _, group := range summarize(r) {
		fmt.Fprintf(out, "\n%s\n", group.Title)
		for _, f := range group.Rows {
			fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-52s %10s %s", f.Name, kit.Number(f.Value), f.Unit), " "))
		}
	}
	fmt.Fprintln(out, "\nchecks")
	for _, c := range r.checks {
		verdict := "ok    "
		if c.Problem != "" {
			verdict = "FAILED"
		}
		fmt.Fprintf(out, "  %s %s\n", verdict, c.Name)
		for _, line := range []string{c.Detail, c.Problem} {
			if line != "" {
				fmt.Fprintln(out, "         "+line)
			}
		}
	}
}
