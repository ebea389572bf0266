package main

import (
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// page is one file of charts.
type page struct {
	name, alt string
	panels    []kit.Panel
}

// perTurnOver is how many samples a cost per turn is averaged over: with few turns the line is jagged.
const perTurnOver = 15

// charts returns all pages. Their lines have one point per sample.
func charts(samples series) []page {
	turns := samples.rate("turns", func(_, to sample) float64 { return float64(to.Heard.Turns) })
	streams := samples.line("streams", func(s sample) float64 { return float64(s.Heard.Open) })
	running := func(s sample) float64 { return float64(s.Postgres.Jobs["running"]) }
	return []page{
		{"load-people", "What people notice: first word, word lag, resuming, turns, folds", []kit.Panel{
			{Title: "First word, added", Unit: "ms", Log: true, Lines: samples.percentiles(firstWord)},
			{Title: "Word lag behind the model", Unit: "ms", Log: true, Lines: samples.percentiles(wordLag)},
			{Title: "Word lag on the other replica", Unit: "ms", Log: true, Lines: samples.percentiles(lagElsewhere)},
			{Title: "Rest of a reply after resuming", Unit: "ms", Log: true, Lines: samples.percentiles(resumeGap)},
			{Title: "Turns, and open streams", Unit: "per second, streams", Lines: []kit.Line{turns, streams}},
			{Title: "Memory per turn", Unit: "tokens", Lines: []kit.Line{
				samples.line("brief, bridge, tail", func(s sample) float64 { return s.Heard.Memory }),
			}},
			{Title: "Folds in the queue", Unit: "jobs", Lines: []kit.Line{
				samples.line("waiting", func(s sample) float64 { return float64(waiting(s.Postgres.Jobs)) - running(s) }),
				samples.line("running", running),
			}},
			{Title: "Fold: from queue to worker", Unit: "ms", Log: true, Lines: []kit.Line{
				samples.line("p50", func(s sample) float64 { return s.Postgres.PickUp50 }),
				samples.line("p99", func(s sample) float64 { return s.Postgres.PickUp99 }),
			}},
		}},
		{"load-machine", "What it costs: CPU, memory, goroutines, connections, WAL, rows, dead rows", []kit.Panel{
			{Title: "CPU", Unit: "cores", Lines: []kit.Line{
				samples.cores(strconv.Itoa(replicas)+" replicas", func(s sample) time.Duration { return cpuOf(s.Parts[:replicas]) }),
				samples.cores(strconv.Itoa(workers)+" workers", func(s sample) time.Duration { return cpuOf(s.Parts[replicas:]) }),
				samples.cores("Postgres", func(s sample) time.Duration { return s.Postgres.CPU }),
				samples.cores("model", func(s sample) time.Duration { return s.Model.CPU }),
				samples.cores("clients", func(s sample) time.Duration { return s.Clients.CPU }),
			}},
			{Title: "Memory of processes (RSS)", Unit: "MB", Lines: samples.parts(func(p processSample) float64 { return float64(p.RSS) / 1e6 })},
			{Title: "Heap goal (twice what is alive)", Unit: "MB", Lines: samples.parts(func(p processSample) float64 { return p.Goal / 1e6 })},
			{Title: "Goroutines", Lines: samples.parts(func(p processSample) float64 { return p.Goroutines })},
			{Title: "Connections to Postgres", Lines: []kit.Line{
				samples.line("open", func(s sample) float64 { return float64(s.Postgres.Connections) }),
				samples.line("at work", func(s sample) float64 { return float64(s.Postgres.Busy) }),
			}},
			{Title: "Written ahead (WAL) per turn", Unit: "kB", Lines: []kit.Line{samples.perTurn("WAL", func(past series) float64 {
				from := past[len(past)-1-perTurnOver:]
				return float64(from.last().Postgres.WAL-from[0].Postgres.WAL) / from.turns()
			})}},
			{Title: "Rows per turn, since the start", Unit: "kB", Lines: []kit.Line{
				samples.perTurn("rows", func(past series) float64 { return past.grown(heapOf, keptTables...) / past.turns() }),
				samples.perTurn("indexes", func(past series) float64 { return past.grown(indexesOf, keptTables...) / past.turns() }),
			}},
			{Title: "Dead rows", Unit: "rows", Lines: samples.dead(
				"public.messages", "public.chats", "public.conversation_briefs", "public.message_deltas", "river.river_job")},
		}},
	}
}

// series are the samples of a run, in order.
type series []sample

func (all series) last() sample { return all[len(all)-1] }

// turns counts those after the first sample, which counts what was before it.
func (all series) turns() (count float64) {
	for _, s := range all[1:] {
		count += float64(s.Heard.Turns)
	}
	return count
}

// points returns a value of each sample over seconds.
func (all series) points(value func(sample) float64) []kit.Point {
	points := make([]kit.Point, len(all))
	for i, s := range all {
		points[i] = kit.Point{X: s.At.Seconds(), Y: value(s)}
	}
	return points
}

func (all series) line(name string, value func(sample) float64) kit.Line {
	return kit.Line{Name: name, Points: all.points(value)}
}

func (all series) percentiles(of timing) []kit.Line {
	return []kit.Line{
		all.line("p50", func(s sample) float64 { return s.Heard.P50[of] }),
		all.line("p99", func(s sample) float64 { return s.Heard.P99[of] }),
	}
}

// rate shows what happened per second from each sample to the next; the first point equals the second.
func (all series) rate(name string, change func(from, to sample) float64) kit.Line {
	points := make([]kit.Point, len(all))
	for i, s := range all {
		points[i].X = s.At.Seconds()
		if i > 0 {
			points[i].Y = change(all[i-1], s) / max(points[i].X-points[i-1].X, 1e-3)
		}
	}
	if len(points) > 1 {
		points[0].Y = points[1].Y
	}
	return kit.Line{Name: name, Points: points}
}

func (all series) cores(name string, used func(sample) time.Duration) kit.Line {
	return all.rate(name, func(from, to sample) float64 { return (used(to) - used(from)).Seconds() })
}

func cpuOf(parts []processSample) (sum time.Duration) {
	for _, p := range parts {
		sum += p.CPU
	}
	return sum
}

// parts makes one line per replica and worker.
func (all series) parts(value func(processSample) float64) []kit.Line {
	lines := make([]kit.Line, replicas+workers)
	for n := range lines {
		lines[n] = all.line(partName(n), func(s sample) float64 { return value(s.Parts[n]) })
	}
	return lines
}

// perTurn shows a cost in kB of the samples up to each. It is NaN where there are too few samples.
func (all series) perTurn(name string, bytes func(past series) float64) kit.Line {
	points := all.points(func(sample) float64 { return math.NaN() })
	for i := perTurnOver; i < len(all); i++ {
		points[i].Y = bytes(all[:i+1]) / 1e3
	}
	return kit.Line{Name: name, Points: points}
}

func (all series) dead(tables ...string) (lines []kit.Line) {
	for _, name := range tables {
		lines = append(lines, all.line(short(name), func(s sample) float64 { return float64(s.Postgres.Tables[name].Dead) }))
	}
	return lines
}

// chartPoints is how many points a line has at most: more are not seen, and make the file large.
const chartPoints = 120

// drawCharts writes each page into the folder. A run of fewer than two samples has no lines.
func drawCharts(folder string, samples series) error {
	if len(samples) < 2 {
		return nil
	}
	for _, page := range charts(samples) {
		for n := range page.panels {
			p := &page.panels[n]
			p.X = "minutes"
			for i := range p.Lines {
				p.Lines[i].Points = thin(p.Lines[i].Points, chartPoints, func(values []float64) float64 { return meanShown(values, p.Log) })
				for j := range p.Lines[i].Points {
					p.Lines[i].Points[j].X /= 60
				}
			}
		}
		if err := kit.WriteChart(filepath.Join(folder, page.name+".svg"), page.panels); err != nil {
			return err
		}
	}
	return nil
}

// meanShown is the mean of those values that a chart shows; NaN of none.
func meanShown(values []float64, logarithmic bool) float64 {
	sum, count := 0.0, 0.0
	for _, value := range values {
		if value > 0 || value == 0 && !logarithmic { // NaN is neither
			sum += value
			count++
		}
	}
	return sum / count
}

// thin returns at most that many points, each made of some neighbours.
func thin(points []kit.Point, most int, of func(values []float64) float64) []kit.Point {
	if len(points) <= most {
		return points
	}
	kept := make([]kit.Point, most)
	for i := range kept {
		some := points[i*len(points)/most : (i+1)*len(points)/most]
		kept[i] = kit.Point{X: some[len(some)/2].X, Y: of(values(some))}
	}
	return kept
}

func values(points []kit.Point) []float64 {
	all := make([]float64, len(points))
	for i, p := range points {
		all[i] = p.Y
	}
	return all
}
