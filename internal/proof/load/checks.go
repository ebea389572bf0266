package main

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// What may be left when the load is over, beyond the idle baseline that was taken after the warm-up.
const (
	sparesPerProcess = 5 // goroutines, and open files: a timer here, a periodic job there
	spareConnections = 4
)

// Growth over the second half of the load that is still none: allocators and collectors move that much, and a worker's
// first fold loads the tokenizer, whenever it comes. The larger of the two counts.
const (
	heapGrowth  = 16 << 20
	rssGrowth   = 24 << 20
	growthShare = 0.20 // of the median
	// perStream is what one more open stream may take: its goroutines and buffers here and towards the model, and as
	// much again that the collector has not come to. Streams are more at the end where the machine is busy with others.
	perStream = 256 << 10
)

// judgedFrom is the shortest second half in which a trend says anything.
const judgedFrom = 100 * time.Second

// vacuumRounds is how many of autovacuum's rounds (a minute each) dead rows may wait for their turn.
const vacuumRounds = 3

const vacuumRound = time.Minute

// check is one thing that must hold. problem is "" when it does.
type check struct {
	Name    string `json:"name"`
	Problem string `json:"problem"`
	Detail  string `json:"detail"` // what was found, for the one who reads
}

func newCheck(name, detail string, problems ...string) check {
	c := check{Name: name, Detail: detail}
	for _, p := range problems {
		if c.Problem != "" {
			c.Problem += "; "
		}
		c.Problem += p
	}
	return c
}

// backToBaseline compares what is idle after the load with what was idle before it.
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
func memoryIsSteady(samples []sample) check {
	const name = "memory does not grow in the second half"
	half := secondHalf(samples)
	if len(half) < 2 || half[len(half)-1].At-half[0].At < judgedFrom {
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
			grew, most := growth(half, m.value, func(s sample) float64 { return s.Parts[n].Streams }, perStream), max(m.least, growthShare*median(valuesOf(half, m.value)))
			worst = max(worst, grew/most)
			if grew > most {
				problems = append(problems, fmt.Sprintf("%s grows by %.1f MB, %.1f MB are allowed", m.what, grew/1e6, most/1e6))
			}
		}
	}
	return newCheck(name, fmt.Sprintf("the steepest trend is %.0f %% of what is allowed", 100*worst), problems...)
}

func valuesOf(samples []sample, value func(sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	return values
}

// vacuumKeepsUp holds that a table never has more dead rows than call for autovacuum and have come up since it had
// its chance.
func vacuumKeepsUp(samples []sample) check {
	problems := map[string]string{}
	var most int64
	var vacuums int64
	for i, s := range samples {
		before := i
		for before > 0 && s.At-samples[before].At < vacuumRounds*vacuumRound {
			before--
		}
		// At the beginning all of them are young: autovacuum has yet to come.
		chance := s.At-samples[before].At >= vacuumRounds*vacuumRound
		for name, t := range s.Postgres.Tables {
			young := t.Changed - samples[before].Postgres.Tables[name].Changed
			if chance && t.Dead > t.Trigger+young {
				problems[name] = fmt.Sprintf("%s has %d dead rows after %s, of which %d are young; autovacuum comes at %d", name, t.Dead, s.At.Round(time.Second), young, t.Trigger)
			}
			most = max(most, t.Dead)
		}
	}
	if len(samples) > 0 {
		for name, t := range samples[len(samples)-1].Postgres.Tables {
			vacuums += t.Vacuums - samples[0].Postgres.Tables[name].Vacuums
		}
	}
	return newCheck("autovacuum keeps up with dead rows", fmt.Sprintf("at most %d in a table; autovacuum ran %d times", most, vacuums),
		slices.Sorted(maps.Values(problems))...)
}

// leftovers are what Postgres and the disk still hold of work that is over.
type leftovers struct {
	Deltas    int64  `json:"message_deltas"`
	Streaming int64  `json:"streaming_messages"`
	Jobs      int64  `json:"unfinished_jobs"`
	Discarded int64  `json:"given_up_jobs"`
	Due       int64  `json:"due_chats"`
	Leases    int64  `json:"fold_leases"`
	Files     int64  `json:"temporary_files"`
	Example   string // of a due chat: why, and what became of its latest job
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
		{left.Files, "temporary files"},
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

// noErrors: nothing was broken on purpose, so nobody may notice anything.
func noErrors(failures map[string]int64, logged int64, d database) check {
	var problems []string
	for _, code := range sortedKeys(failures) {
		problems = append(problems, fmt.Sprintf("%d times %s", failures[code], code))
	}
	if logged > 0 {
		problems = append(problems, fmt.Sprintf("%d errors in the logs", logged))
	}
	if d.Deadlocks > 0 {
		problems = append(problems, fmt.Sprintf("%d deadlocks", d.Deadlocks))
	}
	return newCheck("no request failed, no error was logged", fmt.Sprintf("%d folds took more than one attempt", d.FoldsRepeated), problems...)
}
