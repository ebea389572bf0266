package main

import (
	"math"
	"strconv"
	"time"
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
		{"First word, added", "ms", true, each(
			"p50", func(s sample) float64 { return s.Heard.First50 },
			"p99", func(s sample) float64 { return s.Heard.First99 })},
		{"Word lag behind the model", "ms", true, each(
			"p50", func(s sample) float64 { return s.Heard.Lag50 },
			"p99", func(s sample) float64 { return s.Heard.Lag99 })},
		{"Word lag on the other replica", "ms", true, each(
			"p50", func(s sample) float64 { return s.Heard.Else50 },
			"p99", func(s sample) float64 { return s.Heard.Else99 })},
		{"Rest of a reply after resuming", "ms", true, each(
			"p50", func(s sample) float64 { return s.Heard.Gap50 },
			"p99", func(s sample) float64 { return s.Heard.Gap99 })},
		{"Turns, and open streams", "per second, streams", false, both(rates("turns", func(s sample) float64 { return float64(s.Heard.Turns) }),
			each("streams", func(s sample) float64 { return float64(s.Heard.Open) }))},
		{"Memory per turn", "tokens", false, each(
			"brief, bridge, tail", func(s sample) float64 { return s.Heard.Memory })},
		{"Folds in the queue", "jobs", false, each(
			"waiting", func(s sample) float64 { return float64(waiting(s.Postgres.Jobs) - s.Postgres.Jobs["running"]) },
			"running", func(s sample) float64 { return float64(s.Postgres.Jobs["running"]) })},
		{"Fold: from queue to worker", "ms", true, each(
			"p50", func(s sample) float64 { return s.Postgres.PickUp50 },
			"p99", func(s sample) float64 { return s.Postgres.PickUp99 })},
	}},
	{"load-machine", "What it costs: CPU, memory, goroutines, connections, WAL, rows, dead rows", []panel{
		{"CPU", "cores", false, cpu},
		{"Memory of processes (RSS)", "MB", false, parts(func(p process) float64 { return float64(p.RSS) / 1e6 })},
		{"Heap goal (twice what is alive)", "MB", false, parts(func(p process) float64 { return p.Goal / 1e6 })},
		{"Goroutines", "", false, parts(func(p process) float64 { return p.Goroutines })},
		{"Connections to Postgres", "", false, each(
			"open", func(s sample) float64 { return float64(s.Postgres.Connections) },
			"at work", func(s sample) float64 { return float64(s.Postgres.Busy) })},
		{"Written ahead (WAL) per turn", "kB", false, walPerTurn},
		{"Rows per turn, since the start", "kB", false, rowsPerTurn},
		{"Dead rows", "rows", false, dead},
	}},
}

// each makes one line per name and value.
func each(namesAndValues ...any) func([]sample) []line {
	return func(samples []sample) (lines []line) {
		for i := 0; i < len(namesAndValues); i += 2 {
			value := namesAndValues[i+1].(func(sample) float64) //nolint:forcetypeassert // a table of this file
			lines = append(lines, line{namesAndValues[i].(string), pointsOf(samples, value)})
		}
		return lines
	}
}

func both(a, b func([]sample) []line) func([]sample) []line {
	return func(samples []sample) []line { return append(a(samples), b(samples)...) }
}

func pointsOf(samples []sample, value func(sample) float64) []point {
	points := make([]point, len(samples))
	for i, s := range samples {
		points[i] = point{s.At, value(s)}
	}
	return points
}

// changes are points of what happened from one sample to the next; the first is as the second.
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

func rates(name string, count func(sample) float64) func([]sample) []line {
	return func(samples []sample) []line {
		return []line{{name, changes(samples, func(from, to sample) float64 { return count(to) / seconds(from, to) })}}
	}
}

// parts makes one line per replica and worker.
func parts(value func(process) float64) func([]sample) []line {
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

// perTurnOver is how many samples a cost per turn is the mean of: few turns make a jagged line.
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

// perTurn is not a number where there are too few turns to tell.
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
