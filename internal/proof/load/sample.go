package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/stack"
)

// sample is the whole system at one moment. What counts from a start counts from the start of its process.
type sample struct {
	At       time.Duration `json:"at_ns"` // since the load began
	Parts    []process     `json:"parts"` // replicas, then workers
	Model    stack.Usage   `json:"model"`
	Clients  stack.Usage   `json:"clients"` // this process
	Postgres database      `json:"postgres"`
	Heard    said          `json:"heard"`
}

// process is a replica or a worker.
type process struct {
	Name string `json:"name"`
	stack.Usage
	// Goal is the heap at which Go collects next, in bytes: with Go's defaults twice what was alive after the latest
	// collection (and what stacks and globals take). Unlike the heap itself it does not swing with each collection.
	Goal       float64 `json:"heap_goal_bytes"`
	Heap       float64 `json:"heap_bytes"`
	Goroutines float64 `json:"goroutines"`
	Files      float64 `json:"open_files"`
	Streams    float64 `json:"open_streams"`
}

// said is what the clients noticed since the sample before; times in milliseconds, NaN-free: 0 where nothing came.
type said struct {
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

// sampler takes samples of a system. It is used by one goroutine.
type sampler struct {
	system *system
	gauges *gauges
	began  time.Time
	last   totals // of the sample before
	http   *http.Client
}

func newSampler(s *system, g *gauges) *sampler {
	// A connection of its own per scrape: one that is kept would be goroutines of its own.
	transport := &http.Transport{DisableKeepAlives: true}
	return &sampler{system: s, gauges: g, began: time.Now(), last: g.totals(), http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

// take takes a sample.
func (s *sampler) take(ctx context.Context) (sample, error) {
	now := sample{At: time.Since(s.began), Model: stack.UsageOf(s.system.model.pid()), Clients: stack.UsageOf(os.Getpid())}
	for _, p := range s.system.parts {
		found, err := s.look(ctx, p)
		if err != nil {
			return now, fmt.Errorf("%s: %w", p.name, err)
		}
		now.Parts = append(now.Parts, found)
	}
	var err error
	if now.Postgres, err = readDatabase(ctx, s.system); err != nil {
		return now, fmt.Errorf("Postgres: %w", err)
	}
	totals := s.gauges.totals()
	now.Heard = totals.since(s.last)
	s.last = totals
	return now, nil
}

// look reads one process's own metrics.
func (s *sampler) look(ctx context.Context, p part) (found process, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address+"/metrics", http.NoBody)
	if err != nil {
		return found, err
	}
	response, err := s.http.Do(request)
	if err != nil {
		return found, err
	}
	defer func() { _ = response.Body.Close() }()
	values := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		// Without labels; nobody here asks for others.
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && name != "#" {
			if values[name], err = strconv.ParseFloat(value, 64); err != nil {
				return found, err
			}
		}
	}
	if _, ok := values["go_goroutines"]; !ok || lines.Err() != nil {
		return found, errors.Join(errors.New("its metrics cannot be read"), lines.Err())
	}
	return process{
		Name: p.name, Usage: stack.UsageOf(p.PID()), Goal: values["go_memstats_next_gc_bytes"], Heap: values["go_memstats_heap_alloc_bytes"],
		Goroutines: values["go_goroutines"], Files: values["process_open_fds"], Streams: values["throughline_open_streams"],
	}, nil
}

// totals are the gauges at one moment.
type totals struct {
	first, lag, elsewhere, turnTime, gap, read                                 counts
	turns, words, drops, cancels, repeats, reads, files, open, memory, dropped int64
	errors                                                                     map[string]int64
}

func (g *gauges) totals() totals {
	return totals{
		first: g.first.counts(), lag: g.lag.counts(), elsewhere: g.lagElsewhere.counts(), turnTime: g.turnTime.counts(), gap: g.gap.counts(), read: g.read.counts(),
		turns: g.turns.Load(), words: g.words.Load(), drops: g.drops.Load(), cancels: g.cancels.Load(), repeats: g.repeats.Load(), reads: g.reads.Load(),
		files: g.files.Load(), open: g.open.Load(), memory: g.memory.Load(), dropped: g.dropped.Load(), errors: g.failures(),
	}
}

// between is what came after an earlier moment.
func (t totals) between(before totals) totals {
	t.first, t.lag, t.elsewhere = t.first.since(before.first), t.lag.since(before.lag), t.elsewhere.since(before.elsewhere)
	t.turnTime, t.gap, t.read = t.turnTime.since(before.turnTime), t.gap.since(before.gap), t.read.since(before.read)
	t.turns, t.words, t.drops, t.cancels = t.turns-before.turns, t.words-before.words, t.drops-before.drops, t.cancels-before.cancels
	t.repeats, t.reads, t.files = t.repeats-before.repeats, t.reads-before.reads, t.files-before.files
	t.memory, t.dropped = t.memory-before.memory, t.dropped-before.dropped
	return t
}

func (t totals) since(before totals) said {
	d := t.between(before)
	return said{
		Turns: d.turns, Words: d.words, Open: t.open, Errors: sum(t.errors) - sum(before.errors), Memory: float64(d.memory) / float64(max(d.turns, 1)),
		First50: orZero(d.first.ms(.5)), First99: orZero(d.first.ms(.99)), Lag50: orZero(d.lag.ms(.5)), Lag99: orZero(d.lag.ms(.99)),
		Else50: orZero(d.elsewhere.ms(.5)), Else99: orZero(d.elsewhere.ms(.99)), Gap50: orZero(d.gap.ms(.5)), Gap99: orZero(d.gap.ms(.99)), Read99: orZero(d.read.ms(.99)),
	}
}

func sum(of map[string]int64) (all int64) {
	for _, n := range of {
		all += n
	}
	return all
}

// orZero takes the place of what JSON and charts cannot show.
func orZero(value float64) float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	return value
}
