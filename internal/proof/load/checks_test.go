package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// run of a system without a fault: five minutes, a sample per second, with the noise of a real one.
func healthy() series {
	dice := rand.New(rand.NewPCG(1, 2))
	samples := make(series, 300)
	for n := range samples {
		wave := float64(n % 7)
		s := sample{At: time.Duration(n) * time.Second}
		for i := range servers + workers {
			p := processSample{Name: fmt.Sprintf("part %d", i), Goroutines: 30 + wave, Files: 20 + wave, Streams: wave, Goal: 20e6 + 1e6*dice.Float64()}
			p.RSS = int64(70e6 + 5e6*dice.Float64() + 30e6*(1-1/(1+float64(n)/20))) // it fills at the beginning
			s.Parts = append(s.Parts, p)
		}
		changed := int64(n) * 100
		s.Postgres = database{Connections: 20, Tables: map[string]table{
			"public.messages": {Dead: changed % 6000, Changed: changed, Trigger: 5000, Vacuums: changed / 6000},
		}}
		samples[n] = s
	}
	return samples
}

// fails holds that a check fails, and says what it is about.
func fails(t *testing.T, c check, want string) {
	t.Helper()
	if !strings.Contains(c.Problem, want) {
		t.Errorf("%s: %q does not say %q", c.Name, c.Problem, want)
	}
}

func passes(t *testing.T, c check) {
	t.Helper()
	if c.Problem != "" {
		t.Errorf("%s: %s", c.Name, c.Problem)
	}
}

func TestMemoryCheck(t *testing.T) {
	t.Parallel()
	passes(t, memoryIsSteady(healthy()))
	for want, leak := range map[string]func(*processSample, float64){
		"heap goal of part 2": func(p *processSample, age float64) { p.Goal += 150e3 * age },
		"memory of part 2":    func(p *processSample, age float64) { p.RSS += int64(300e3 * age) },
	} {
		samples := healthy()
		for _, s := range samples {
			leak(&s.Parts[2], s.At.Seconds())
		}
		fails(t, memoryIsSteady(samples), want)
	}
	crowded := healthy()
	for _, s := range crowded[150:] {
		more := (s.At.Seconds() - 150) // a stream per second, each with 200 kB
		s.Parts[0].Streams += more
		s.Parts[0].Goal += 200e3 * more
	}
	passes(t, memoryIsSteady(crowded))
	samples := healthy()
	for n := range samples[:20] {
		samples[150+n].Parts[0].RSS += 500e6 // a peak is no leak
	}
	passes(t, memoryIsSteady(samples))
	if c := memoryIsSteady(healthy()[:60]); c.Problem != "" || !strings.Contains(c.Detail, "not judged") {
		t.Errorf("a short run: %+v", c)
	}
}

func TestBaselineCheck(t *testing.T) {
	t.Parallel()
	before := healthy()[0]
	passes(t, backToBaseline(before, healthy()[0]))
	for want, leak := range map[string]func(*sample){
		"goroutines of part 3":        func(s *sample) { s.Parts[3].Goroutines += sparesPerProcess + 1 },
		"open files of part 1":        func(s *sample) { s.Parts[1].Files += sparesPerProcess + 1 },
		"open streams of part 0":      func(s *sample) { s.Parts[0].Streams = 1 },
		"connections to Postgres":     func(s *sample) { s.Postgres.Connections += spareConnections + 1 },
		"busy connections to Postgre": func(s *sample) { s.Postgres.Busy = 1 },
	} {
		after := healthy()[0]
		leak(&after)
		fails(t, backToBaseline(before, after), want)
	}
}

func TestVacuumCheck(t *testing.T) {
	t.Parallel()
	passes(t, vacuumKeepsUp(healthy()))
	samples := healthy()
	for _, s := range samples {
		messages := s.Postgres.Tables["public.messages"]
		messages.Dead = messages.Changed // a snapshot that nobody gives back keeps all of them
		s.Postgres.Tables["public.messages"] = messages
	}
	fails(t, vacuumKeepsUp(samples), "public.messages has")
	passes(t, vacuumKeepsUp(samples[:100])) // it could not have come yet
	passes(t, vacuumKeepsUp(nil))
}

func TestStoredCheck(t *testing.T) {
	t.Parallel()
	passes(t, holds(nil, people.Tally{}, 0))
	fails(t, holds(nil, people.Tally{}, 7), "7 temporary files")
	left := []people.Violation{{Name: "no_deltas", Sentence: "Nothing is left.", Rows: []string{"a row"}}}
	fails(t, holds(left, people.Tally{}, 0), "no_deltas: Nothing is left. a row")
	for _, name := range notHere {
		if !slices.ContainsFunc(people.Checks(), func(c people.Check) bool { return c.Name == name }) {
			t.Errorf("there is no check %s to leave out", name)
		}
	}
}

func TestErrorsCheck(t *testing.T) {
	t.Parallel()
	passes(t, noErrors(nil, 0, "", database{}))
	fails(t, noErrors(map[string]int{"HTTP 500 internal": 3}, 0, "", database{}), "3 times HTTP 500 internal")
	fails(t, noErrors(nil, 2, "panic: a", database{}), "2 errors in the logs: panic: a")
	fails(t, noErrors(nil, 0, "", database{Deadlocks: 1}), "1 deadlocks")
	fails(t, noErrors(nil, 0, "", database{}, nil, errors.New("worker 1 did not end")), "worker 1 did not end")
	if (report{checks: []check{newCheck("a", "")}}).failed() || !(report{checks: []check{newCheck("a", ""), newCheck("b", "", "wrong")}}).failed() {
		t.Error("a report fails with any of its checks, and only then")
	}
}
