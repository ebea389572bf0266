package people

import (
	"math"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// What people count.
const (
	Turns = iota
	Drops
	Cancels
	Repeats
	Reads
	counts
)

// What people time.
const (
	FirstWord    = iota // from sending a message to its reply's first word, without the model's time
	WordLag             // of a word behind the model's pace
	LagElsewhere        // the same, read from another server than the one that generates
	TurnTime            // from sending a message to the end of its reply
	ResumeGap           // from asking for the rest of a reply to its first missing words
	ReadTime            // of history, memory, chats, search
	times
)

// Gauges are what all people together count and time. They are safe for concurrent use.
type Gauges struct {
	mu         sync.Mutex
	counts     [counts]int
	times      [times]Histogram
	open, most int // streams
}

// Reset forgets all but the streams that are open.
func (g *Gauges) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts, g.times, g.most = [counts]int{}, [times]Histogram{}, g.open
}

// Count adds to a count.
func (g *Gauges) Count(what, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[what] += n
}

// Counted returns a count.
func (g *Gauges) Counted(what int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts[what]
}

func (g *Gauges) took(what int, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.times[what].add(d)
}

// Times returns what was timed.
func (g *Gauges) Times(what int) Histogram {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.times[what]
}

func (g *Gauges) opened(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open += n
	g.most = max(g.most, g.open)
}

// Open returns how many streams are open, and how many were at most.
func (g *Gauges) Open() (now, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.most
}

// Histogram counts durations in steps of three per cent: exact enough for percentiles, and as small after an hour
// as after a second.
type Histogram [steps]int64

const (
	steps  = 700
	ratio  = 1.03
	finest = 10 * time.Microsecond // shorter durations count as this
)

func (h *Histogram) add(d time.Duration) {
	step := 0
	if d > finest {
		step = min(int(math.Log(float64(d)/float64(finest))/math.Log(ratio)), steps-1)
	}
	h[step]++
}

// Total returns how many there are.
func (h *Histogram) Total() (sum int64) {
	for _, n := range h {
		sum += n
	}
	return sum
}

// MS returns the value in milliseconds below which the share q lies; NaN of nothing.
func (h *Histogram) MS(q float64) float64 {
	total := h.Total()
	rank := min(int64(float64(total)*q), total-1)
	for i, n := range h {
		if n > 0 && rank < n {
			return kit.Milliseconds(finest) * math.Pow(ratio, float64(i)+.5)
		}
		rank -= n
	}
	return math.NaN()
}
