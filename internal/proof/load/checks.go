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

// spares are what may be left after the load beyond the idle baseline that was taken after the warm-up: a timer here, a
// periodic job there.
var spares = map[string]float64{
	"goroutines": 5, "open files": 5, "open streams": 0, "connections to Postgres": 4, "busy connections to Postgres": 0,
}

// growths are what each process may grow by over the second half of the load, in bytes: allocators and collectors move that
// much, and a worker's first fold loads the tokenizer. The larger of the bytes and the share counts.
var growths = map[string]float64{"heap goal": 16 << 20, "memory": 24 << 20}

const (
	growthShare = 0.20 // of the median
	// perStream is what one more open stream may take: its goroutines and buffers here and towards the model, and
	// as much again that the collector has not come to. Streams are more at the end where the machine is busy
	// with others.
	perStream = 256 << 10
	// judgedFrom is the shortest second half in which a trend is meaningful.
	judgedFrom = 100 * time.Second
	// vacuumWithin is how long dead rows may wait for autovacuum, which runs each minute.
	vacuumWithin = 3 * time.Minute
)

// check is one thing that must hold. Problem is "" when it does; Detail is the finding.
type check struct{ Name, Problem, Detail string }

func newCheck(name, detail string, problems ...string) check {
	return check{Name: name, Detail: detail, Problem: strings.Join(problems, "; ")}
}

// backToBaseline compares the idle system after the load with the one before it.
func backToBaseline(before, after sample) check {
	var problems []string
	goroutines := 0.0
	for _, name := range slices.Sorted(maps.Keys(after.Values)) {
		what, _, _ := strings.Cut(name, " of ")
		spare, judged := spares[what]
		was, is := before.Values[name], after.Values[name]
		if judged && (is > was+spare || spare == 0 && is > 0) {
			problems = append(problems, fmt.Sprintf("%s: %.0f, before the load %.0f", name, is, was))
		}
		if what == "goroutines" {
			goroutines += is
		}
	}
	return newCheck("goroutines, open files, streams and connections are back where they were",
		fmt.Sprintf("%.0f goroutines, %.0f connections", goroutines, after.Values["connections to Postgres"]), problems...)
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
	for _, name := range slices.Sorted(maps.Keys(half[0].Values)) {
		what, whose, _ := strings.Cut(name, " of ")
		if growths[what] == 0 {
			continue
		}
		grew := half.growth(name) - perStream*max(half.growth("open streams of "+whose), 0)
		most := max(growths[what], growthShare*median(half.values(name)))
		worst = max(worst, grew/most)
		if grew > most {
			problems = append(problems, fmt.Sprintf("%s grows by %.1f MB, %.1f MB are allowed", name, grew/1e6, most/1e6))
		}
	}
	return newCheck(name, fmt.Sprintf("the steepest trend is %.0f %% of the limit", 100*worst), problems...)
}

// vacuumKeepsUp checks that no table has more dead rows than trigger autovacuum, plus those of its last three rounds.
func vacuumKeepsUp(samples series) check {
	problems := map[string]string{}
	most := 0.0
	for i, s := range samples {
		before := i
		for before > 0 && s.At-samples[before].At < vacuumWithin {
			before--
		}
		// At the beginning autovacuum had no time to run yet.
		chance := s.At-samples[before].At >= vacuumWithin
		for name, dead := range s.Values {
			what, table, _ := strings.Cut(name, " of ")
			if what != "dead rows" {
				continue
			}
			most = max(most, dead)
			young := s.Values["changed rows of "+table] - samples[before].Values["changed rows of "+table]
			if trigger := s.Values["trigger of "+table]; chance && dead > trigger+young {
				problems[table] = fmt.Sprintf("%s has %.0f dead rows after %s, of which %.0f are young; autovacuum comes at %.0f",
					table, dead, s.At.Round(time.Second), young, trigger)
			}
		}
	}
	return newCheck("autovacuum keeps up with dead rows",
		fmt.Sprintf("at most %.0f in a table; autovacuum ran %.0f times", most, samples.grew("autovacuums")), slices.Sorted(maps.Values(problems))...)
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
	return newCheck("the checks of checks.sql hold: acknowledged and heard texts are stored once, and nothing is left to do",
		fmt.Sprintf("%d acknowledged messages, %d replies heard whole", t.Acknowledged, t.Completed), problems...)
}

// noErrors: nothing is broken on purpose here, so there must be no errors.
func noErrors(failures map[string]int, logged int64, first string, after sample, others ...error) check {
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
	if deadlocks := after.Values["deadlocks"]; deadlocks > 0 {
		problems = append(problems, fmt.Sprintf("%.0f deadlocks", deadlocks))
	}
	return newCheck("no request failed, no error was logged", fmt.Sprintf("%.0f folds took more than one attempt", after.Values["repeated folds"]), problems...)
}

type series []sample

func (all series) last() sample { return all[len(all)-1] }

func (all series) values(name string) (values []float64) {
	for _, s := range all {
		values = append(values, s.Values[name])
	}
	return values
}

func median(values []float64) float64 { return kit.Percentile(values, .5) }

// growth is twice what lies between the medians of the two halves of the samples, so that a peak is no growth.
func (all series) growth(name string) float64 {
	half := len(all) / 2
	return 2 * (median(all[half:].values(name)) - median(all[:half].values(name)))
}

// grew is what came to values whose names begin so between the first sample and the last.
func (all series) grew(prefix string) (sum float64) {
	if len(all) == 0 {
		return 0
	}
	for name, value := range all.last().Values {
		if strings.HasPrefix(name, prefix) {
			sum += value - all[0].Values[name]
		}
	}
	return sum
}
