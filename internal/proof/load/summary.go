package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// row is a line of a table. It may name its figure, which documents quote.
func row(name string, value float64, unit string, figure ...string) string {
	return fmt.Sprintf("| %s | %s | %s |\n", name, figures.Mark(strings.Join(figure, ""), kit.Number(value)), unit)
}

func head(title string) string { return "\n| " + title + " | | |\n|---|--:|---|\n" }

func (all series) seconds() float64            { return (all.last().At - all[0].At).Seconds() }
func (all series) perTurn(name string) float64 { return all.grew(name) / all.grew("turns") }
func (all series) most(name string) float64    { return slices.Max(all.values(name)) }

func (r report) people() []string {
	count := func(what int) float64 { return float64(r.gauges.Counted(what)) }
	failures := 0
	for _, n := range r.record.Failures() {
		failures += n
	}
	_, most := r.gauges.Open()
	return []string{
		head("people"),
		row("people at once", float64(r.chats), "", "load_people"),
		row("time", r.duration.Minutes(), "min", "load_minutes"),
		row("turns", count(people.Turns), "", "load_turns"),
		row("turns per second", r.samples.grew("turns")/r.samples.seconds(), "/s"),
		row("streams open, at most", float64(most), ""),
		row("gone in mid stream, resumed on the other server", count(people.Drops), ""),
		row("stopped", count(people.Cancels), ""),
		row("sent again by client_message_id", count(people.Repeats), ""),
		row("reads of history, memory, memories, topics, chats, search", count(people.Reads), ""),
		row("errors", float64(failures), "", "load_errors"),
	}
}

func (r report) waits() []string {
	rows := []string{head("waiting, without the model's own time")}
	for what, name := range []string{
		people.FirstWord: "first word", people.WordLag: "a word behind the model's pace", people.LagElsewhere: "the same, read from the other server",
		people.ResumeGap: "rest of a reply after resuming", people.ReadTime: "a read", people.TurnTime: "a whole turn, the model's time included",
	} {
		times := r.gauges.Times(what)
		rows = append(rows, row(name+", p50", times.MS(.5), "ms"), row(name+", p99", times.MS(.99), "ms"))
	}
	return rows
}

func (r report) memoryWork() []string {
	last := r.samples.last().Values
	return []string{
		head("memory"),
		row("memories at the end", last["memories"], ""),
		row("topics at the end", last["topics"], ""),
		row("folds", r.samples.grew("folds"), ""),
		row("pick-up of a fold, p50", r.pickUp50, "ms"),
		row("pick-up of a fold, p99", r.pickUp99, "ms"),
		row("jobs waiting or running, at most", r.samples.most("jobs"), ""),
	}
}

// costs are what one turn takes, and what it leaves.
func (r report) costs() []string {
	all := r.samples
	return []string{
		head("costs"),
		row("servers' CPU per turn", 1e3*all.perTurn("CPU of server"), "ms"),
		row("Postgres's CPU per turn", 1e3*all.perTurn("CPU of Postgres"), "ms"),
		row("workers' CPU per turn", 1e3*all.perTurn("CPU of worker"), "ms"),
		row("CPU of people, model and embedder per turn", 1e3*all.perTurn("CPU of "+restOfUs), "ms"),
		row("turns per fold", 1/all.perTurn("folds"), ""),
		row("WAL per turn", all.perTurn("WAL")/1e3, "kB"),
		row("kept per turn, rows and indexes", all.perTurn("kept")/1e3, "kB"),
		row("connections, at most", all.most("connections to Postgres"), ""),
	}
}

func (r report) machineUse() []string {
	rows := []string{head("machine"), row(fmt.Sprintf("CPU of all, of %d cores", runtime.NumCPU()), r.samples.grew("CPU of ")/r.samples.seconds(), "cores")}
	for _, name := range slices.Sorted(maps.Keys(r.after.Values)) {
		if strings.HasPrefix(name, "memory of ") {
			rows = append(rows, row(name+", at most", r.samples.most(name)/1e6, "MB"))
		}
	}
	return append(rows, row("memory of Postgres, at most", r.samples.most("Postgres's memory")/1e6, "MB"))
}

// markdown writes the summary as its page has it.
func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`make load DURATION=%s CHATS=%d`\n\n%s.\n", r.duration, r.chats, strings.Join(r.machine, ".  \n"))
	b.WriteString(strings.Join(slices.Concat(r.people(), r.waits(), r.memoryWork(), r.costs(), r.machineUse()), ""))
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
