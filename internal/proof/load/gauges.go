package main

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// histogram counts durations in steps of three per cent: exact enough for percentiles, and as small after an hour
// as after a second.
type histogram [steps]int64

const (
	steps  = 700
	ratio  = 1.03
	finest = 10 * time.Microsecond // shorter durations count as this
)

func (h *histogram) add(d time.Duration) {
	step := 0
	if d > finest {
		step = min(int(math.Log(float64(d)/float64(finest))/math.Log(ratio)), steps-1)
	}
	h[step]++
}

// since returns what was added after an earlier moment.
func (h histogram) since(before histogram) histogram {
	for i := range h {
		h[i] -= before[i]
	}
	return h
}

func (h histogram) total() (sum int64) {
	for _, n := range h {
		sum += n
	}
	return sum
}

// ms returns the value in milliseconds below which the share q lies; NaN of nothing.
func (h histogram) ms(q float64) float64 {
	total := h.total()
	rank := min(int64(float64(total)*q), total-1)
	for i, n := range h {
		if n > 0 && rank < n {
			return kit.Milliseconds(finest) * math.Pow(ratio, float64(i)+.5)
		}
		rank -= n
	}
	return math.NaN()
}

// timing is a wait that clients measure.
type timing int

const (
	firstWord    timing = iota // from sending a message to its reply's first word, without the model's time
	wordLag                    // of a word behind the model's pace
	lagElsewhere               // the same, read from another replica than the one that generates
	turnTime                   // from sending a message to the end of its reply
	resumeGap                  // from asking for the rest of a reply to its first missing words
	readTime                   // of history, memory, search
	timings
)

// counter is something that clients count.
type counter int

const (
	wordCount counter = iota
	turnCount
	dropCount
	cancelCount
	repeatCount
	readCount
	fileCount
	memoryTokens // tokens of memory in the prompts
	droppedTurns // turns in neither brief nor prompt
	counters
)

// gauges are what all clients together measure, since the start. They are safe for concurrent use.
type gauges struct {
	mu  sync.Mutex
	now totals
}

// totals are the gauges at one moment.
type totals struct {
	times  [timings]histogram
	counts [counters]int64
	open   int64            // streams at this moment
	errors map[string]int64 // by status and code
	turns  []turn
}

func (g *gauges) add(c counter, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.counts[c] += int64(n)
}

func (g *gauges) took(t timing, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.times[t].add(d)
}

func (g *gauges) remember(t turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.turns = append(g.now.turns, t)
}

// opened counts n more streams, or fewer.
func (g *gauges) opened(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.open += n
}

func (g *gauges) fail(code string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now.errors == nil {
		g.now.errors = map[string]int64{}
	}
	g.now.errors[code]++
}

func (g *gauges) totals() totals {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now
	now.errors, now.turns = maps.Clone(now.errors), slices.Clip(now.turns)
	return now
}

// since returns what was added after an earlier moment. Errors, turns and open streams stay totals.
func (t totals) since(before totals) totals {
	for i := range t.times {
		t.times[i] = t.times[i].since(before.times[i])
	}
	for i := range t.counts {
		t.counts[i] -= before.counts[i]
	}
	return t
}

// clientSample is what the clients measured since the sample before.
type clientSample struct {
	Turns  int64   `json:"turns"`
	Words  int64   `json:"words"`
	Open   int64   `json:"open_streams"`
	Memory float64 `json:"memory_tokens_per_turn"`
	Errors int64   `json:"errors"`
	// Percentiles of each timing in milliseconds, 0 where there are none.
	P50 [timings]float64 `json:"p50_ms"`
	P99 [timings]float64 `json:"p99_ms"`
}

func (t totals) sample(before totals) clientSample {
	d := t.since(before)
	s := clientSample{
		Turns: d.counts[turnCount], Words: d.counts[wordCount], Open: t.open, Errors: sum(t.errors) - sum(before.errors),
		Memory: float64(d.counts[memoryTokens]) / float64(max(d.counts[turnCount], 1)),
	}
	for i, h := range d.times {
		s.P50[i], s.P99[i] = orZero(h.ms(.5)), orZero(h.ms(.99))
	}
	return s
}

func sum(of map[string]int64) (all int64) {
	for _, n := range of {
		all += n
	}
	return all
}

// orZero replaces what JSON cannot hold.
func orZero(value float64) float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	return value
}
