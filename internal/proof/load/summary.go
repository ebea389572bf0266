package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// row is one line of the summary. Documents may quote it under its figure.
type row struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Unit   string `json:"unit"`
	figure string
}

func newRow(name string, value float64, unit string) row {
	return row{Name: name, Value: kit.Number(value), Unit: unit}
}

// as names the figure of a row.
func (r row) as(figure string) row {
	r.figure = figure
	return r
}

// group are rows of one kind.
type group struct {
	Title string `json:"title"`
	Rows  []row  `json:"rows"`
}

// tables returns the figures of a run.
func (r report) tables() []group {
	if len(r.samples) < 2 {
		return nil
	}
	return []group{
		{"people", r.people()}, {"waiting, without the model's own time", r.waits()}, {"memory", r.memoryWork()},
		{"costs", r.costs()}, {"machine", r.machineUse()},
	}
}

// seconds is the time from the first sample to the last, turns and the growth of a value what came between them.
func (all series) seconds() float64 { return (all.last().At - all[0].At).Seconds() }
func (all series) turns() float64   { return float64(all.last().Turns - all[0].Turns) }
func (all series) grew(value func(sample) float64) float64 {
	return value(all.last()) - value(all[0])
}

// most returns the highest value of all samples.
func (all series) most(value func(sample) float64) float64 {
	return slices.Max(all.values(value))
}

func (r report) people() []row {
	count := func(what string) float64 { return float64(r.gauges.Counted(what)) }
	failures := 0
	for _, n := range r.record.Failures() {
		failures += n
	}
	_, most := r.gauges.Open()
	return []row{
		newRow("people at once", float64(r.chats), "").as("load_people"),
		newRow("time", r.duration.Minutes(), "min").as("load_minutes"),
		newRow("turns", count(people.Turns), "").as("load_turns"),
		newRow("turns per second", r.samples.turns()/r.samples.seconds(), "/s").as("load_turns_per_s"),
		newRow("words per second", count(people.Words)/r.duration.Seconds(), "/s"),
		newRow("streams open, at most", float64(most), ""),
		newRow("gone in mid stream, resumed on the other server", count(people.Drops), ""),
		newRow("stopped", count(people.Cancels), ""),
		newRow("sent again by client_message_id", count(people.Repeats), ""),
		newRow("with files", count(people.WithFiles), ""),
		newRow("reads of history, memory, memories, topics, chats, search", count(people.Reads), ""),
		newRow("errors", float64(failures), "").as("load_errors"),
	}
}

func (r report) waits() (rows []row) {
	for _, wait := range []struct{ name, of string }{
		{"first word", people.FirstWord},
		{"a word behind the model's pace", people.WordLag},
		{"the same, read from the other server", people.LagElsewhere},
		{"rest of a reply after resuming", people.ResumeGap},
		{"a read", people.ReadTime},
		{"a whole turn, the model's time included", people.TurnTime},
	} {
		times := r.gauges.Times(wait.of)
		rows = append(rows, newRow(wait.name+", p50", times.MS(.5), "ms"), newRow(wait.name+", p99", times.MS(.99), "ms"))
	}
	return rows
}

func (r report) folds() float64 {
	return r.samples.grew(func(s sample) float64 { return float64(s.Postgres.FoldsDone) })
}

func (r report) memoryWork() []row {
	receipts := float64(max(r.gauges.Counted(people.Receipts), 1))
	share := func(what string) float64 { return 100 * float64(r.gauges.Counted(what)) / receipts }
	last := r.samples.last().Postgres
	return []row{
		newRow("brief, turns, recalled turns and memories in a prompt", float64(r.gauges.Counted(people.MemoryTokens))/receipts, "tokens"),
		newRow("prompts with recalled turns", share(people.WithRecall), "%"),
		newRow("prompts with memories", share(people.WithMemories), "%"),
		newRow("prompts of a topic", share(people.WithTopic), "%"),
		newRow("recall that failed or was late", share(people.RecallTooLate), "%"),
		newRow("turns in neither brief nor prompt", float64(r.gauges.Counted(people.DroppedTurns)), ""),
		newRow("memories at the end", float64(last.Memories), ""),
		newRow("topics at the end", float64(last.Topics), ""),
		newRow("folds", r.folds(), ""),
		newRow("pick-up of a fold, p50", r.pickUp50, "ms"),
		newRow("pick-up of a fold, p99", r.pickUp99, "ms"),
		newRow("jobs waiting or running, at most", r.samples.most(func(s sample) float64 { return float64(s.Postgres.Waiting) }), ""),
		newRow("a chat was due to be folded for, at most", r.samples.most(func(s sample) float64 { return s.Postgres.Late }), "s"),
	}
}

// The CPU time of each part of the system, in milliseconds.
func serversCPU(s sample) float64  { return kit.Milliseconds(cpuOf(s.Parts[:servers])) }
func workersCPU(s sample) float64  { return kit.Milliseconds(cpuOf(s.Parts[servers:])) }
func postgresCPU(s sample) float64 { return kit.Milliseconds(s.Postgres.CPU) }
func restCPU(s sample) float64     { return kit.Milliseconds(s.Rest.CPU) }

func cpuOf(parts []processSample) (sum time.Duration) {
	for _, p := range parts {
		sum += p.CPU
	}
	return sum
}

// costs are what one turn takes, and what it leaves.
func (r report) costs() []row {
	all, turns := r.samples, r.samples.turns()
	busy := 0.0
	for _, s := range all {
		busy += float64(s.Postgres.Busy)
	}
	kept := func(name string) float64 {
		return all.grew(func(s sample) float64 { return s.Postgres.bytes(name) }) / turns / 1e3
	}
	return []row{
		newRow("servers' CPU per turn", all.grew(serversCPU)/turns, "ms").as("load_server_cpu"),
		newRow("Postgres's CPU per turn", all.grew(postgresCPU)/turns, "ms").as("load_postgres_cpu"),
		newRow("workers' CPU per turn", all.grew(workersCPU)/turns, "ms").as("load_worker_cpu"),
		newRow("CPU of people, model and embedder per turn", all.grew(restCPU)/turns, "ms"),
		newRow("turns per fold", turns/r.folds(), "").as("load_turns_per_fold"),
		newRow("WAL per turn", all.grew(func(s sample) float64 { return float64(s.Postgres.WAL) })/turns/1e3, "kB").as("load_wal"),
		newRow("kept per turn, rows and indexes", kept(""), "kB").as("load_kept"),
		newRow("of these messages", kept("public.messages"), "kB"),
		newRow("of these the index of turns, with vectors", kept("public.turn_index"), "kB"),
		newRow("connections, at most", all.most(func(s sample) float64 { return float64(s.Postgres.Connections) }), ""),
		newRow("connections at work, mean", busy/float64(len(all)), ""),
		newRow("dead rows in one table, at most", all.most(deadRows), ""),
		newRow("runs of autovacuum", all.grew(func(s sample) float64 { return float64(s.Postgres.vacuums()) }), ""),
	}
}

// bytes returns the size of a table with its indexes; of all that keep what they get, for "".
func (d database) bytes(name string) (sum float64) {
	for other, t := range d.Tables {
		passing := other == "public.message_deltas" || strings.HasPrefix(other, "river.")
		if other == name || name == "" && !passing {
			sum += float64(t.Heap + t.Indexes)
		}
	}
	return sum
}

func deadRows(s sample) (dead float64) {
	for _, t := range s.Postgres.Tables {
		dead = max(dead, float64(t.Dead))
	}
	return dead
}

func (r report) machineUse() (rows []row) {
	all, sum := r.samples, 0.0
	for _, part := range []struct {
		name string
		cpu  func(sample) float64
	}{{"servers", serversCPU}, {"workers", workersCPU}, {"Postgres", postgresCPU}, {"people, model and embedder", restCPU}} {
		cores := all.grew(part.cpu) / 1e3 / all.seconds()
		sum += cores
		rows = append(rows, newRow("CPU of "+part.name, cores, "cores"))
	}
	rows = append(rows, newRow(fmt.Sprintf("CPU of all, of %d cores", runtime.NumCPU()), sum, "cores"))
	for n, p := range all.last().Parts {
		rows = append(rows, newRow("memory of "+p.Name+", at most", all.most(func(s sample) float64 { return float64(s.Parts[n].RSS) })/1e6, "MB"))
	}
	hits := all.grew(func(s sample) float64 { return float64(s.Postgres.Hits) })
	reads := all.grew(func(s sample) float64 { return float64(s.Postgres.Reads) })
	return append(rows,
		newRow("memory of Postgres, at most", all.most(func(s sample) float64 { return float64(s.Postgres.RSS) })/1e6, "MB"),
		newRow("blocks found in Postgres's cache", 100*hits/math.Max(hits+reads, 1), "%"))
}

// print writes the summary as plain text.
func (r report) print(out io.Writer) {
	fmt.Fprintln(out, strings.Join(r.machine, "\n"))
	for _, group := range r.tables() {
		fmt.Fprintf(out, "\n%s\n", group.Title)
		for _, f := range group.Rows {
			fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-58s %10s %s", f.Name, f.Value, f.Unit), " "))
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

// markdown writes the summary as its page has it.
func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`make load DURATION=%s CHATS=%d`\n\n%s.\n", r.duration, r.chats, strings.Join(r.machine, ".  \n"))
	for _, group := range r.tables() {
		fmt.Fprintf(&b, "\n| %s | | |\n|---|--:|---|\n", group.Title)
		for _, f := range group.Rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", f.Name, figures.Mark(f.figure, f.Value), f.Unit)
		}
	}
	b.WriteString("\n| check | found |\n|---|---|\n")
	for _, c := range r.checks {
		fmt.Fprintf(&b, "| %s | %s |\n", c.Name, c.Detail)
	}
	return b.String()
}
