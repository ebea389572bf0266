package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
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

// check is one thing that must hold. Problem is "" when it does; Detail is what was found.
type check struct{ Name, Problem, Detail string }

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
			streams := half.growth(func(s sample) float64 { return s.Parts[n].Streams })
			grew := half.growth(m.value) - perStream*max(streams, 0)
			most := max(m.least, growthShare*median(half.values(m.value)))
			worst = max(worst, grew/most)
			if grew > most {
				problems = append(problems, fmt.Sprintf("%s grows by %.1f MB, %.1f MB are allowed", m.what, grew/1e6, most/1e6))
			}
		}
	}
	return newCheck(name, fmt.Sprintf("the steepest trend is %.0f %% of what is allowed", 100*worst), problems...)
}

// vacuumKeepsUp checks that no table has more dead rows than trigger autovacuum, plus those of its last three rounds.
func vacuumKeepsUp(samples series) check {
	problems := map[string]string{}
	most, vacuums := int64(0), int64(0)
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
		vacuums = samples.last().Postgres.vacuums() - samples[0].Postgres.vacuums()
	}
	return newCheck("autovacuum keeps up with dead rows", fmt.Sprintf("at most %d in a table; autovacuum ran %d times", most, vacuums),
		slices.Sorted(maps.Values(problems))...)
}

// holds reports what the checks of people found, and temporary files that are left.
func holds(violations []people.Violation, t people.Tally, files int) check {
	var problems []string
	for _, v := range violations {
		problems = append(problems, fmt.Sprintf("%s: %s %.300s", v.Name, v.Sentence, strings.Join(v.Rows, " ")))
	}
	if files > 0 {
		problems = append(problems, fmt.Sprintf("%d temporary files", files))
	}
	return newCheck("the checks of checks.sql hold: what was acknowledged and heard is stored once, and nothing is left to do",
		fmt.Sprintf("%d acknowledged messages, %d replies heard whole", t.Acknowledged, t.Completed), problems...)
}

// noErrors: nothing is broken on purpose here, so there must be no errors.
func noErrors(failures map[string]int, logged int64, first string, d database, others ...error) check {
	var problems []string
	for _, err := range others {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
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

type series []sample

func (all series) last() sample { return all[len(all)-1] }

func (all series) values(value func(sample) float64) (values []float64) {
	for _, s := range all {
		values = append(values, value(s))
	}
	return values
}

func median(values []float64) float64 { return kit.Percentile(values, .5) }

// growth is twice what lies between the medians of the two halves of the samples, so that a peak is no growth.
func (all series) growth(value func(sample) float64) float64 {
	half := len(all) / 2
	return 2 * (median(all[half:].values(value)) - median(all[:half].values(value)))
}
