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
	panels    []panel
}

// panel is one chart of a page. Its lines have one point per sample.
type panel struct {
	title, unit string
	logarithmic bool
	lines       func([]sample) []line
}

type line struct {
	name   string
	points []point
}

var pages = []page{
	{"load-people", "What people notice: first word, word lag, resuming, turns, folds", []panel{
		{"First word, added", "ms", true, percentiles(func(s sample) (p50, p99 float64) { return s.Heard.First50, s.Heard.First99 })},
		{"Word lag behind the model", "ms", true, percentiles(func(s sample) (p50, p99 float64) { return s.Heard.Lag50, s.Heard.Lag99 })},
		{"Word lag on the other replica", "ms", true, percentiles(func(s sample) (p50, p99 float64) { return s.Heard.Else50, s.Heard.Else99 })},
		{"Rest of a reply after resuming", "ms", true, percentiles(func(s sample) (p50, p99 float64) { return s.Heard.Gap50, s.Heard.Gap99 })},
		{"Turns, and open streams", "per second, streams", false, func(samples []sample) []line {
			turns := changes(samples, func(from, to sample) float64 { return float64(to.Heard.Turns) / seconds(from, to) })
			return []line{{"turns", turns}, {"streams", pointsOf(samples, func(s sample) float64 { return float64(s.Heard.Open) })}}
		}},
		{"Memory per turn", "tokens", false, each(series{"brief, bridge, tail", func(s sample) float64 { return s.Heard.Memory }})},
		{"Folds in the queue", "jobs", false, each(
			series{"waiting", func(s sample) float64 { return float64(waiting(s.Postgres.Jobs) - s.Postgres.Jobs["running"]) }},
			series{"running", func(s sample) float64 { return float64(s.Postgres.Jobs["running"]) }})},
		{"Fold: from queue to worker", "ms", true, percentiles(func(s sample) (p50, p99 float64) { return s.Postgres.PickUp50, s.Postgres.PickUp99 })},
	}},
	{"load-machine", "What it costs: CPU, memory, goroutines, connections, WAL, rows, dead rows", []panel{
		{"CPU", "cores", false, cpu},
		{"Memory of processes (RSS)", "MB", false, parts(func(p processSample) float64 { return float64(p.RSS) / 1e6 })},
		{"Heap goal (twice what is alive)", "MB", false, parts(func(p processSample) float64 { return p.Goal / 1e6 })},
		{"Goroutines", "", false, parts(func(p processSample) float64 { return p.Goroutines })},
		{"Connections to Postgres", "", false, each(
			series{"open", func(s sample) float64 { return float64(s.Postgres.Connections) }},
			series{"at work", func(s sample) float64 { return float64(s.Postgres.Busy) }})},
		{"Written ahead (WAL) per turn", "kB", false, walPerTurn},
		{"Rows per turn, since the start", "kB", false, rowsPerTurn},
		{"Dead rows", "rows", false, dead},
	}},
}

// drawCharts writes each page into the folder. A run of fewer than two samples has no lines.
func drawCharts(folder string, samples []sample) error {
	if len(samples) < 2 {
		return nil
	}
	for _, p := range pages {
		drawn := make([]kit.Panel, len(p.panels))
		for i, panel := range p.panels {
			drawn[i] = kit.Panel{Title: panel.title, Unit: panel.unit, X: "minutes", Log: panel.logarithmic}
			for _, l := range panel.lines(samples) {
				drawn[i].Lines = append(drawn[i].Lines, kit.Line{Name: l.name, Points: panel.means(l.points)})
			}
		}
		if err := kit.WriteChart(filepath.Join(folder, p.name+".svg"), drawn); err != nil {
			return err
		}
	}
	return nil
}

// chartPoints is how many points a line has at most: more are not seen, and make the file large.
const chartPoints = 120

// means returns at most chartPoints points over minutes, each the mean of some neighbours.
func (p panel) means(points []point) (means []kit.Point) {
	size := max((len(points)+chartPoints-1)/chartPoints, 1)
	for begin := 0; begin < len(points); begin += size {
		some := points[begin:min(begin+size, len(points))]
		sum, count := 0.0, 0.0
		for _, one := range some {
			if one.value > 0 || one.value == 0 && !p.logarithmic { // NaN is neither
				sum += one.value
				count++
			}
		}
		if count > 0 {
			means = append(means, kit.Point{X: some[0].at.Minutes(), Y: sum / count})
		}
	}
	return means
}

// series is a line whose points are a value of each sample.
type series struct {
	name  string
	value func(sample) float64
}

func each(all ...series) func([]sample) []line {
	return func(samples []sample) (lines []line) {
		for _, one := range all {
			lines = append(lines, line{one.name, pointsOf(samples, one.value)})
		}
		return lines
	}
}

func percentiles(of func(sample) (p50, p99 float64)) func([]sample) []line {
	return each(
		series{"p50", func(s sample) float64 { p50, _ := of(s); return p50 }},
		series{"p99", func(s sample) float64 { _, p99 := of(s); return p99 }})
}

func pointsOf(samples []sample, value func(sample) float64) []point {
	points := make([]point, len(samples))
	for i, s := range samples {
		points[i] = point{s.At, value(s)}
	}
	return points
}

// changes returns what happened from each sample to the next; the first point equals the second.
func changes(samples []sample, change func(from, to sample) float64) []point {
	points := make([]point, len(samples))
	for i, s := range samples {
		points[i].at = s.At
		if i > 0 {
			points[i].value = change(samples[i-1], s)
		}
	}
	if len(points) > 1 {
		points[0].value = points[1].value
	}
	return points
}

func seconds(from, to sample) float64 { return max((to.At - from.At).Seconds(), 1e-3) }

// parts makes one line per replica and worker.
func parts(value func(processSample) float64) func([]sample) []line {
	return func(samples []sample) (lines []line) {
		if len(samples) == 0 {
			return nil
		}
		for n, p := range samples[0].Parts {
			lines = append(lines, line{p.Name, pointsOf(samples, func(s sample) float64 { return value(s.Parts[n]) })})
		}
		return lines
	}
}

func cpu(samples []sample) []line {
	cores := func(name string, used func(sample) time.Duration) line {
		return line{name, changes(samples, func(from, to sample) float64 { return (used(to) - used(from)).Seconds() / seconds(from, to) })}
	}
	ofParts := func(from, to int) func(sample) time.Duration {
		return func(s sample) (sum time.Duration) {
			for _, p := range s.Parts[from:to] {
				sum += p.CPU
			}
			return sum
		}
	}
	return []line{
		cores(strconv.Itoa(replicas)+" replicas", ofParts(0, replicas)),
		cores(strconv.Itoa(workers)+" workers", ofParts(replicas, replicas+workers)),
		cores("Postgres", func(s sample) time.Duration { return s.Postgres.CPU }),
		cores("model", func(s sample) time.Duration { return s.Model.CPU }),
		cores("clients", func(s sample) time.Duration { return s.Clients.CPU }),
	}
}

// perTurnOver is how many samples a cost per turn is averaged over: with few turns the line is jagged.
const perTurnOver = 15

func walPerTurn(samples []sample) []line {
	points := make([]point, len(samples))
	for i, s := range samples {
		from := max(i-perTurnOver, 0)
		turns := 0.0
		for _, one := range samples[from+1 : i+1] {
			turns += float64(one.Heard.Turns)
		}
		points[i] = point{s.At, perTurn(float64(s.Postgres.WAL-samples[from].Postgres.WAL)/1e3, turns, i-from == perTurnOver)}
	}
	return []line{{"WAL", points}}
}

// rowsPerTurn divides what has been added since the first sample by the turns since then.
func rowsPerTurn(samples []sample) []line {
	heap, indexes := make([]point, len(samples)), make([]point, len(samples))
	turns := 0.0
	for i, s := range samples {
		if i > 0 {
			turns += float64(s.Heard.Turns)
		}
		rows, index := grown(samples[0], s, keptTables)
		enough := i >= perTurnOver
		heap[i], indexes[i] = point{s.At, perTurn(rows/1e3, turns, enough)}, point{s.At, perTurn(index/1e3, turns, enough)}
	}
	return []line{{"rows", heap}, {"indexes", indexes}}
}

// perTurn is NaN where there are too few turns.
func perTurn(of, turns float64, enough bool) float64 {
	if !enough || turns == 0 {
		return math.NaN()
	}
	return of / turns
}

func dead(samples []sample) (lines []line) {
	for _, name := range []string{"public.messages", "public.chats", "public.conversation_briefs", "public.message_deltas", "river.river_job"} {
		lines = append(lines, line{short(name), pointsOf(samples, func(s sample) float64 { return float64(s.Postgres.Tables[name].Dead) })})
	}
	return lines
}
