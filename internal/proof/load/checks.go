package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// What may be left after the load, beyond the idle baseline that was taken after the warm-up.
const (
	sparesPerProcess = 5 // goroutines, and open files: a timer here, a periodic job there
	spareConnections = 4
)

// Growth over the second half of the load that is tolerated: allocators and collectors move that much, and a
// worker's first fold loads the tokenizer. The larger of the bytes and the share counts.
const (
	heapGrowth  = 16 << 20
	rssGrowth   = 24 << 20
	growthShare = 0.20 // of the median
	// perStream is what one more open stream may take: its goroutines and buffers here and towards the model, and
	// as much again that the collector has not come to. Streams are more at the end where the machine is busy
	// with others.
	perStream = 256 << 10
)

// judgedFrom is the shortest second half in which a trend is meaningful.
const judgedFrom = 100 * time.Second

// vacuumWithin is how long dead rows may wait for autovacuum, which runs each minute.
const vacuumWithin = 3 * time.Minute

// check is one thing that must hold. Problem is "" when it does.
type check struct {
	Name    string `json:"name"`
	Problem string `json:"problem"`
	Detail  string `json:"detail"` // what was found
}

func newCheck(name, detail string, problems ...string) check {
	return check{Name: name, Detail: detail, Problem: strings.Join(problems, "; ")}
}

// backToBaseline compares the idle system after the load with the one before it.
func backToBaseline(before, after sample) check {
	var problems []string
	over := func(what string, was, is float64, spare int) {
		if is > was+float64(spare) {
			problems = append(problems, fmt.Sprintf("%s: %.0f, before the load %.0f", what, is, was))
		}
	}
	for n, p := range after.Parts {
		over("goroutines of "+p.Name, before.Parts[n].Goroutines, p.Goroutines, sparesPerProcess)
		over("open files of "+p.Name, before.Parts[n].Files, p.Files, sparesPerProcess)
		over("open streams of "+p.Name, 0, p.Streams, 0)
	}
	over("connections to Postgres", float64(before.Postgres.Connections), float64(after.Postgres.Connections), spareConnections)
	over("busy connections to Postgres", 0, float64(after.Postgres.Busy), 0)
	goroutines := 0.0
	for _, p := range after.Parts {
		goroutines += p.Goroutines
	}
	return newCheck("goroutines, open files, streams and connections are back where they were",
		fmt.Sprintf("%.0f goroutines, %d connections", goroutines, after.Postgres.Connections), problems...)
}

// memoryIsSteady looks for a trend in the second half of the load.
func memoryIsSteady(samples series) check {
	const name = "memory does not grow in the second half"
	half := samples[len(samples)/2:]
	if len(half) < 2 || half.last().At-half[0].At < judgedFrom {
		return newCheck(name, fmt.Sprintf("not judged: it takes %s of second half", judgedFrom))
	}
	var problems []string
	worst := 0.0
	for n, p := range half[0].Parts {
		for _, m := range []struct {
			what  string
			value func(sample) float64
			least float64
		}{
			{"heap goal of " + p.Name, func(s sample) float64 { return s.Parts[n].Goal }, heapGrowth},
			{"memory of " + p.Name, func(s sample) float64 { return float64(s.Parts[n].RSS) }, rssGrowth},
		} {
			grew := half.growth(m.value, func(s sample) float64 { return s.Parts[n].Streams }, perStream)
			most := max(m.least, growthShare*median(values(half.points(m.value))))
			worst = max(worst, grew/most)
			if grew > most {
				problems = append(problems, fmt.Sprintf("%s grows by %.1f MB, %.1f MB are allowed", m.what, grew/1e6, most/1e6))
			}
		}
	}
	return newCheck(name, fmt.Sprintf("the steepest trend is %.0f %% of what is allowed", 100*worst), problems...)
}

// vacuumKeepsUp checks that no table has more dead rows than trigger autovacuum, plus those that came up in its
// last three rounds.
func vacuumKeepsUp(samples series) check {
	problems := map[string]string{}
	most, vacuums := int64(0), 0.0
	for i, s := range samples {
		before := i
		for before > 0 && s.At-samples[before].At < vacuumWithin {
			before--
		}
		// At the beginning autovacuum had no time to run yet.
		chance := s.At-samples[before].At >= vacuumWithin
		for name, t := range s.Postgres.Tables {
			young := t.Changed - samples[before].Postgres.Tables[name].Changed
			if chance && t.Dead > t.Trigger+young {
				problems[name] = fmt.Sprintf("%s has %d dead rows after %s, of which %d are young; autovacuum "+
					"comes at %d", name, t.Dead, s.At.Round(time.Second), young, t.Trigger)
			}
			most = max(most, t.Dead)
		}
	}
	if len(samples) > 0 {
		vacuums = samples.vacuumRuns()
	}
	return newCheck("autovacuum keeps up with dead rows", fmt.Sprintf("at most %d in a table; autovacuum ran %.0f times", most, vacuums),
		slices.Sorted(maps.Values(problems))...)
}

func nothingLeft(left leftovers) check {
	var problems []string
	for _, found := range []struct {
		count int64
		what  string
	}{
		{left.Deltas, "rows in message_deltas"},
		{left.Streaming, "messages that are streaming for ever"},
		{left.Jobs, "folds that are not done"},
		{left.Discarded, "folds that were given up"},
		{left.Due, "chats that are due to be folded"},
		{left.Leases, "leases of folds"},
		{int64(left.Files), "temporary files"},
	} {
		if found.count > 0 {
			problems = append(problems, fmt.Sprintf("%d %s", found.count, found.what))
		}
	}
	if left.Example != "" {
		problems = append(problems, left.Example)
	}
	return newCheck("nothing is left: no running reply, delta, job, due fold, lease, temporary file", "", problems...)
}

// noErrors: nothing is broken on purpose here, so there must be no errors.
func noErrors(failures map[string]int64, logged int64, first string, d database) check {
	var problems []string
	for _, code := range slices.Sorted(maps.Keys(failures)) {
		problems = append(problems, fmt.Sprintf("%d times %s", failures[code], code))
	}
	if logged > 0 {
		problems = append(problems, fmt.Sprintf("%d errors in the logs: %s", logged, first))
	}
	if d.Deadlocks > 0 {
		problems = append(problems, fmt.Sprintf("%d deadlocks", d.Deadlocks))
	}
	return newCheck("no request failed, no error was logged", fmt.Sprintf("%d folds took more than one attempt", d.FoldsRepeated), problems...)
}

// slope is the median of the slopes between all pairs of points (Theil, 1950; Sen, 1968, "Estimates of the
// regression coefficient based on Kendall's tau"). Up to 29 % of the points may lie anywhere without moving it far,
// so a peak here or there is no trend. 0 for fewer than two points.
func slope(points []kit.Point) float64 {
	points = thin(points, mostPoints, median)
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if b.X > a.X {
				slopes = append(slopes, (b.Y-a.Y)/(b.X-a.X))
			}
		}
	}
	return median(slopes)
}

// mostPoints bounds the pairs: 20 000 of them say as much as a million.
const mostPoints = 200

func median(values []float64) float64 { return kit.Percentile(values, .5) }

// growth returns by how much a value grows over the samples, by its trend. Growth of another count by its trend
// explains up to each per unit, which is subtracted. Both trends are the same estimate, so a steady load hides no
// leak.
func (all series) growth(value, of func(sample) float64, each float64) float64 {
	lasts := (all.last().At - all[0].At).Seconds()
	more := max(slope(all.points(of))*lasts, 0)
	return slope(all.points(value))*lasts - more*each
}
