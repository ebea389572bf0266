package main

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// histogram counts durations in steps of three per cent: exact enough for percentiles, and as small after an hour as
// after a second.
type histogram [steps]atomic.Int64

const (
	steps  = 700
	ratio  = 1.03
	finest = 10 * time.Microsecond // what is shorter counts as this
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

// since is what came after an earlier moment.
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

// ms gives the value in milliseconds below which the share q lies; NaN of nothing.
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

// gauges is what all clients together count. Times are histograms, the rest numbers since the start.
type gauges struct {
	first        histogram // from sending a message to its reply's first word, without the model's time
	lag          histogram // of a word behind the model's pace
	lagElsewhere histogram // the same, read from another replica than the one that generates
	turnTime     histogram // from sending a message to the end of its reply
	gap          histogram // from asking for the rest of a reply to its first missing words
	read         histogram // history, memory, search

	words, turns, drops, cancels, repeats, reads, files atomic.Int64
	open                                                atomic.Int64 // streams
	memory, dropped                                     atomic.Int64 // tokens of memory, turns without it

	mu     sync.Mutex
	errors map[string]int64 // by status and code
}

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
