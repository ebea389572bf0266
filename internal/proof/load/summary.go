package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

type row struct{ name, value, unit string }

// newRow makes a row, and may name its figure, which documents quote.
func newRow(name string, value float64, unit string, figure ...string) row {
	return row{name, figures.Mark(strings.Join(figure, ""), kit.Number(value)), unit}
}

type group struct {
	title string
	rows  []row
}

func (r report) tables() []group {
	if len(r.samples) < 2 {
		return nil
	}
	return []group{
		{"people", r.people()}, {"waiting, without the model's own time", r.waits()}, {"memory", r.memoryWork()}, {"costs", r.costs()},
		{"machine", r.machineUse()},
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
	count := func(what int) float64 { return float64(r.gauges.Counted(what)) }
	failures := 0
	for _, n := range r.record.Failures() {
		failures += n
	}
	_, most := r.gauges.Open()
	return []row{
		newRow("people at once", float64(r.chats), "", "load_people"),
		newRow("time", r.duration.Minutes(), "min", "load_minutes"),
		newRow("turns", count(people.Turns), "", "load_turns"),
		newRow("turns per second", r.samples.turns()/r.samples.seconds(), "/s"),
		newRow("streams open, at most", float64(most), ""),
		newRow("gone in mid stream, resumed on the other server", count(people.Drops), ""),
		newRow("stopped", count(people.Cancels), ""),
		newRow("sent again by client_message_id", count(people.Repeats), ""),
		newRow("reads of history, memory, memories, topics, chats, search", count(people.Reads), ""),
		newRow("errors", float64(failures), "", "load_errors"),
	}
}

func (r report) waits() (rows []row) {
	for _, wait := range []struct {
		name string
		of   int
	}{
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
	last := r.samples.last().Postgres
	return []row{
		newRow("memories at the end", float64(last.Memories), ""),
		newRow("topics at the end", float64(last.Topics), ""),
		newRow("folds", r.folds(), ""),
		newRow("pick-up of a fold, p50", r.pickUp50, "ms"),
		newRow("pick-up of a fold, p99", r.pickUp99, "ms"),
		newRow("jobs waiting or running, at most", r.samples.most(func(s sample) float64 { return float64(s.Postgres.Waiting) }), ""),
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
	return []row{
		newRow("servers' CPU per turn", all.grew(serversCPU)/turns, "ms"),
		newRow("Postgres's CPU per turn", all.grew(postgresCPU)/turns, "ms"),
		newRow("workers' CPU per turn", all.grew(workersCPU)/turns, "ms"),
		newRow("CPU of people, model and embedder per turn", all.grew(restCPU)/turns, "ms"),
		newRow("turns per fold", turns/r.folds(), ""),
		newRow("WAL per turn", all.grew(func(s sample) float64 { return float64(s.Postgres.WAL) })/turns/1e3, "kB"),
		newRow("kept per turn, rows and indexes", all.grew(keptBytes)/turns/1e3, "kB"),
		newRow("connections, at most", all.most(func(s sample) float64 { return float64(s.Postgres.Connections) }), ""),
	}
}

// keptBytes is the size of all tables that keep what they get, with their indexes.
func keptBytes(s sample) (sum float64) {
	for name, t := range s.Postgres.Tables {
		if name != "public.message_deltas" && !strings.HasPrefix(name, "river.") {
			sum += float64(t.Heap + t.Indexes)
		}
	}
	return sum
}

func (r report) machineUse() []row {
	all := r.samples
	cpu := func(s sample) float64 { return serversCPU(s) + workersCPU(s) + postgresCPU(s) + restCPU(s) }
	rows := []row{newRow(fmt.Sprintf("CPU of all, of %d cores", runtime.NumCPU()), all.grew(cpu)/1e3/all.seconds(), "cores")}
	for n, p := range all.last().Parts {
		rows = append(rows, newRow("memory of "+p.Name+", at most", all.most(func(s sample) float64 { return float64(s.Parts[n].RSS) })/1e6, "MB"))
	}
	return append(rows, newRow("memory of Postgres, at most", all.most(func(s sample) float64 { return float64(s.Postgres.RSS) })/1e6, "MB"))
}

// markdown writes the summary as its page has it.
func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`make load DURATION=%s CHATS=%d`\n\n%s.\n", r.duration, r.chats, strings.Join(r.machine, ".  \n"))
	for _, group := range r.tables() {
		fmt.Fprintf(&b, "\n| %s | | |\n|---|--:|---|\n", group.title)
		for _, f := range group.rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", f.name, f.value, f.unit)
		}
	}
	b.WriteString("\n| check | | found |\n|---|---|---|\n")
	for _, c := range r.checks {
		verdict := "ok"
		if c.Problem != "" {
			verdict = "FAILED: " + c.Problem
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Name, verdict, c.Detail)
	}
	return b.String()
}
