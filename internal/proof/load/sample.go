package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// sample is the whole system at one moment. Counts are since the start of the process that counts.
type sample struct {
	At       time.Duration   `json:"at_ns"` // since the load began
	Parts    []processSample `json:"parts"` // replicas, then workers
	Model    kit.Usage       `json:"model"`
	Clients  kit.Usage       `json:"clients"` // this process
	Postgres database        `json:"postgres"`
	Heard    clientSample    `json:"heard"`
}

// processSample is a replica or a worker at one moment.
type processSample struct {
	Name string `json:"name"`
	kit.Usage
	// Goal is the heap at which Go collects next, in bytes: with Go's defaults twice what was alive after the
	// latest collection (and what stacks and globals take). Unlike the heap itself it does not swing with each
	// collection.
	Goal       float64 `json:"heap_goal_bytes"`
	Goroutines float64 `json:"goroutines"`
	Files      float64 `json:"open_files"`
	Streams    float64 `json:"open_streams"`
}

// sampler takes samples of a system. One goroutine uses it.
type sampler struct {
	system *system
	gauges *gauges
	began  time.Time
	last   totals // of the sample before
	http   *http.Client
}

func newSampler(s *system, g *gauges) *sampler {
	// A connection per scrape: one that is kept would be goroutines of the sampled process.
	transport := &http.Transport{DisableKeepAlives: true}
	return &sampler{system: s, gauges: g, began: time.Now(), last: g.totals(), http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

func (s *sampler) take(ctx context.Context) (sample, error) {
	now := sample{At: time.Since(s.began), Model: kit.UsageOf(s.system.model.PID()), Clients: kit.UsageOf(os.Getpid())}
	for _, p := range s.system.parts {
		found, err := s.scrape(ctx, p)
		if err != nil {
			return now, fmt.Errorf("%s: %w", p.name, err)
		}
		now.Parts = append(now.Parts, found)
	}
	var err error
	if now.Postgres, err = readDatabase(ctx, s.system.admin); err != nil {
		return now, fmt.Errorf("Postgres: %w", err)
	}
	totals := s.gauges.totals()
	now.Heard = totals.sample(s.last)
	s.last = totals
	return now, nil
}

// scrape reads the metrics of one process.
func (s *sampler) scrape(ctx context.Context, p part) (found processSample, err error) {
	metrics, err := kit.Get(ctx, s.http, "http://"+p.Address+"/metrics")
	if err != nil {
		return found, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(metrics)) {
		// Without labels: no other metric is used here.
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			if values[name], err = strconv.ParseFloat(value, 64); err != nil {
				return found, err
			}
		}
	}
	if _, ok := values["go_goroutines"]; !ok {
		return found, errors.New("its metrics cannot be read")
	}
	return processSample{
		Name: p.name, Usage: kit.UsageOf(p.PID()), Goal: values["go_memstats_next_gc_bytes"],
		Goroutines: values["go_goroutines"], Files: values["process_open_fds"], Streams: values["throughline_open_streams"],
	}, nil
}
