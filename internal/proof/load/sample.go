package main

import (
	"context"
	_ "embed"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// sample is the whole system at one moment, by the names of its figures, such as "goroutines of server 1". Counts are
// since the start of what counts, sizes in bytes, CPU time in seconds.
type sample struct {
	At     time.Duration      `json:"at_ns"` // since the load began
	Values map[string]float64 `json:"values"`
}

// scraper makes a connection per scrape: one that is kept would be goroutines of the sampled process.
var scraper = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

// sampler takes samples of a system. One goroutine uses it.
type sampler struct {
	system *people.System
	gauges *people.Gauges
	began  time.Time
}

// restOfUs are people and the model, which are this process, and the embedder.
const restOfUs = "people, model and embedder"

func (s *sampler) take(ctx context.Context) sample {
	now := sample{At: time.Since(s.began)}
	kit.Check(s.system.Admin.QueryRow(ctx, readState).Scan(&now.Values))
	now.Values["turns"] = float64(s.gauges.Counted(people.Turns))
	now.Values["CPU of "+restOfUs] = kit.CPUWithChildren(os.Getpid()).Seconds()
	for _, p := range s.system.Parts {
		s.scrape(ctx, p, now.Values)
	}
	used, wal, err := kit.UsageOfPostgres(ctx, s.system.Admin)
	kit.Check(err)
	now.Values["CPU of Postgres"], now.Values["Postgres's memory"], now.Values["WAL"] = used.CPU.Seconds(), float64(used.RSS), float64(wal)
	return now
}

// scraped are the metrics that are sampled of each process. The heap goal is the size at which Go collects next, with Go's
// defaults twice the memory alive after the latest collection: unlike the heap itself it does not swing with each collection.
var scraped = map[string]string{
	"go_goroutines": "goroutines", "process_open_fds": "open files", "throughline_open_streams": "open streams",
	"go_memstats_next_gc_bytes": "heap goal", "process_resident_memory_bytes": "memory", "process_cpu_seconds_total": "CPU",
}

func (s *sampler) scrape(ctx context.Context, p *people.Part, into map[string]float64) {
	defer kit.In("the metrics of %s", p.Name)
	found := 0
	for line := range strings.Lines(string(kit.Must(kit.Get(ctx, scraper, "http://"+p.Address+"/metrics")))) {
		// Without labels: no other metric is used here.
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what := scraped[name]; what != "" {
			into[what+" of "+p.Name] = kit.Must(strconv.ParseFloat(value, 64))
			found++
		}
	}
	if found != len(scraped) {
		kit.Fail("%d of %d are there", found, len(scraped))
	}
	into["CPU of "+restOfUs] -= into["CPU of "+p.Name] // a child of this process, too
}

//go:embed state.sql
var readState string

// readPickUp answers how long folds waited to be picked up. A job that is tried again waits on purpose.
const readPickUp = `
	select coalesce(percentile_cont(.5) within group (order by waited), 0), coalesce(percentile_cont(.99) within group (order by waited), 0)
	  from (select 1000 * extract(epoch from attempted_at - scheduled_at)::float8 as waited from river.river_job
	         where kind = 'fold_brief' and attempt = 1) picked`
