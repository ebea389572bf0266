package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// run of a system without a fault: five minutes, a sample per second, with the noise of a real one.
func healthy() series {
	dice := rand.New(rand.NewPCG(1, 2))
	samples := make(series, 300)
	for n := range samples {
		wave, changed := float64(n%7), float64(100*n)
		values := map[string]float64{
			"connections to Postgres": 20, "dead rows of public.messages": math.Mod(changed, 6000), "changed rows of public.messages": changed,
			"trigger of public.messages": 5000,
		}
		for i := range 4 {
			for what, value := range map[string]float64{
				"goroutines": 30 + wave, "open files": 20 + wave, "open streams": wave, "heap goal": 20e6 + 1e6*dice.Float64(),
				"memory": 70e6 + 5e6*dice.Float64() + 30e6*(1-1/(1+float64(n)/20)), // it fills at the beginning
			} {
				values[fmt.Sprintf("%s of part %d", what, i)] = value
			}
		}
		samples[n] = sample{time.Duration(n) * time.Second, values}
	}
	return samples
}

// fails holds that a check fails, and says what it is about.
func fails(t *testing.T, c check, want string) {
	assert.Containsf(t, c.Problem, want, "%s: %q does not say %q", c.Name, c.Problem, want)
}

func passes(t *testing.T, c check) {
	assert.Equalf(t, "", c.Problem, "%s", c.Name)
}

func TestMemoryCheck(t *testing.T) {
	t.Parallel()
	passes(t, memoryIsSteady(healthy()))
	for name, perSecond := range map[string]float64{"heap goal of part 2": 150e3, "memory of part 2": 300e3} {
		samples := healthy()
		for _, s := range samples {
			s.Values[name] += perSecond * s.At.Seconds()
		}
		fails(t, memoryIsSteady(samples), name)
	}
	crowded := healthy()
	for _, s := range crowded[150:] {
		more := (s.At.Seconds() - 150) // a stream per second, each with 200 kB
		s.Values["open streams of part 0"] += more
		s.Values["heap goal of part 0"] += 200e3 * more
	}
	passes(t, memoryIsSteady(crowded))
	samples := healthy()
	for _, s := range samples[150:170] {
		s.Values["memory of part 0"] += 500e6 // a peak is no leak
	}
	passes(t, memoryIsSteady(samples))
	c := memoryIsSteady(healthy()[:60])
	assert.Truef(t, c.Problem == "" && strings.Contains(c.Detail, "not judged"), "a short run: %+v", c)
}

func TestBaselineCheck(t *testing.T) {
	t.Parallel()
	before := healthy()[0]
	passes(t, backToBaseline(before, healthy()[0]))
	for name, more := range map[string]float64{
		"goroutines of part 3": 6, "open files of part 1": 6, "open streams of part 0": 1, "connections to Postgres": 5, "busy connections to Postgres": 1,
	} {
		after := healthy()[0]
		after.Values[name] += more
		fails(t, backToBaseline(before, after), name)
	}
}

func TestVacuumCheck(t *testing.T) {
	t.Parallel()
	passes(t, vacuumKeepsUp(healthy()))
	samples := healthy()
	for _, s := range samples {
		s.Values["dead rows of public.messages"] = s.Values["changed rows of public.messages"] // a snapshot that is never given back keeps all of them
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
		assert.Truef(t, slices.ContainsFunc(people.Checks(), func(c people.Check) bool { return c.Name == name }),
			"there is no check %s to leave out", name)
	}
}

func TestErrorsCheck(t *testing.T) {
	t.Parallel()
	passes(t, noErrors(nil, 0, "", sample{}))
	fails(t, noErrors(map[string]int{"HTTP 500 internal": 3}, 0, "", sample{}), "3 times HTTP 500 internal")
	fails(t, noErrors(nil, 2, "panic: a", sample{}), "2 errors in the logs: panic: a")
	fails(t, noErrors(nil, 0, "", sample{Values: map[string]float64{"deadlocks": 1}}), "1 deadlocks")
	fails(t, noErrors(nil, 0, "", sample{}, nil, errors.New("worker 1 did not end")), "worker 1 did not end")
}
