package main

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// histogram counts durations in steps of three per cent: exact enough for percentiles, and as small after an hour
// as after a second.
type histogram [steps]atomic.Int64

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
	h[step].Add(1)
}

// counts are a histogram at one moment.
type counts [steps]int64

func (h *histogram) counts() (now counts) {
	for i := range h {
		now[i] = h[i].Load()
	}
	return now
}

// since returns what was added after an earlier moment.
func (c counts) since(before counts) counts {
	for i := range c {
		c[i] -= before[i]
	}
	return c
}

func (c counts) total() (sum int64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// ms returns the value in milliseconds below which the share q lies; NaN of nothing.
func (c counts) ms(q float64) float64 {
	total := c.total()
	if total == 0 {
		return math.NaN()
	}
	rank := min(int64(float64(total)*q), total-1)
	for i, n := range c {
		if rank < n {
			return float64(finest) / float64(time.Millisecond) * math.Pow(ratio, float64(i)+.5)
		}
		rank -= n
	}
	return math.Inf(1) // not reached: the counts are the total
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

// gauges are what all clients together measure, since the start.
type gauges struct {
	times  [timings]histogram
	counts [counters]atomic.Int64
	open   atomic.Int64 // streams at this moment

	mu     sync.Mutex
	errors map[string]int64 // by status and code
}

func (g *gauges) add(c counter, n int) { g.counts[c].Add(int64(n)) }

func (g *gauges) fail(code string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.errors == nil {
		g.errors = map[string]int64{}
	}
	g.errors[code]++
}

func (g *gauges) failures() map[string]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.errors)
}

// totals are the gauges at one moment.
type totals struct {
	times  [timings]counts
	counts [counters]int64
	open   int64
	errors map[string]int64
}

func (g *gauges) totals() totals {
	t := totals{open: g.open.Load(), errors: g.failures()}
	for i := range g.times {
		t.times[i] = g.times[i].counts()
	}
	for i := range g.counts {
		t.counts[i] = g.counts[i].Load()
	}
	return t
}

// since returns what was added after an earlier moment. Errors and open streams stay totals.
func (t totals) since(before totals) totals {
	for i := range t.times {
		t.times[i] = t.times[i].since(before.times[i])
	}
	for i := range t.counts {
		t.counts[i] -= before.counts[i]
	}
	return t
}

// clientSample is what the clients measured since the sample before. Times are in milliseconds, 0 where there are none.
type clientSample struct {
	Turns   int64   `json:"turns"`
	Words   int64   `json:"words"`
	Open    int64   `json:"open_streams"`
	First50 float64 `json:"first_word_p50_ms"`
	First99 float64 `json:"first_word_p99_ms"`
	Lag50   float64 `json:"lag_p50_ms"`
	Lag99   float64 `json:"lag_p99_ms"`
	Else50  float64 `json:"lag_elsewhere_p50_ms"`
	Else99  float64 `json:"lag_elsewhere_p99_ms"`
	Gap50   float64 `json:"resume_gap_p50_ms"`
	Gap99   float64 `json:"resume_gap_p99_ms"`
	Read99  float64 `json:"read_p99_ms"`
	Memory  float64 `json:"memory_tokens_per_turn"`
	Errors  int64   `json:"errors"`
}

func (t totals) sample(before totals) clientSample {
	d := t.since(before)
	ms := func(which timing, q float64) float64 { return orZero(d.times[which].ms(q)) }
	return clientSample{
		Turns: d.counts[turnCount], Words: d.counts[wordCount], Open: t.open, Errors: sum(t.errors) - sum(before.errors),
		Memory:  float64(d.counts[memoryTokens]) / float64(max(d.counts[turnCount], 1)),
		First50: ms(firstWord, .5), First99: ms(firstWord, .99), Lag50: ms(wordLag, .5), Lag99: ms(wordLag, .99),
		Else50: ms(lagElsewhere, .5), Else99: ms(lagElsewhere, .99), Gap50: ms(resumeGap, .5), Gap99: ms(resumeGap, .99), Read99: ms(readTime, .99),
	}
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
