package main

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// sample is the whole system at one moment. Counts are since the start of the process that counts.
type sample struct {
	At       time.Duration   `json:"at_ns"` // since the load began
	Parts    []processSample `json:"parts"` // servers, then workers
	Postgres database        `json:"postgres"`
	Rest     kit.Usage       `json:"rest"` // people and the model, which are this process, and the embedder
	Turns    int             `json:"turns"`
	Open     int             `json:"open_streams"`
}

// processSample is a server or a worker at one moment.
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

// scraper makes a connection per scrape: one that is kept would be goroutines of the sampled process.
var scraper = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

// sampler takes samples of a system. One goroutine uses it.
type sampler struct {
	system *people.System
	gauges *people.Gauges
	began  time.Time
}

func (s *sampler) take(ctx context.Context) sample {
	now := sample{At: time.Since(s.began), Rest: kit.UsageWithChildren(os.Getpid()), Turns: s.gauges.Counted(people.Turns)}
	now.Open, _ = s.gauges.Open()
	for _, p := range s.system.Parts {
		found := s.scrape(ctx, p)
		now.Parts = append(now.Parts, found)
		now.Rest.CPU -= found.CPU // a child of this process, too
		now.Rest.RSS -= found.RSS
	}
	kit.Check(s.system.Admin.QueryRow(ctx, readState).Scan(&now.Postgres))
	var err error
	now.Postgres.Usage, now.Postgres.WAL, err = kit.UsageOfPostgres(ctx, s.system.Admin)
	kit.Check(err)
	return now
}

func (s *sampler) scrape(ctx context.Context, p *people.Part) (found processSample) {
	defer kit.In("the metrics of %s", p.Name)
	metrics := kit.Must(kit.Get(ctx, scraper, "http://"+p.Address+"/metrics"))
	values := map[string]float64{}
	for line := range strings.Lines(string(metrics)) {
		// Without labels: no other metric is used here.
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			values[name] = kit.Must(strconv.ParseFloat(value, 64))
		}
	}
	if _, ok := values["go_goroutines"]; !ok {
		kit.Fail("there is none of Go")
	}
	return processSample{
		Name: p.Name, Usage: kit.UsageOf(p.PID()), Goal: values["go_memstats_next_gc_bytes"],
		Goroutines: values["go_goroutines"], Files: values["process_open_fds"], Streams: values["throughline_open_streams"],
	}
}

// database is Postgres at one moment. Sizes are in bytes.
type database struct {
	kit.Usage
	Connections   int64            `json:"connections"` // the program's
	Busy          int64            `json:"busy_connections"`
	WAL           int64            `json:"wal_bytes"`
	Tables        map[string]table `json:"tables"`
	Waiting       int64            `json:"jobs_waiting"` // that are not done
	Deadlocks     int64            `json:"deadlocks"`
	FoldsDone     int64            `json:"folds_done"`
	FoldsRepeated int64            `json:"folds_repeated"` // that took more than one attempt
	Memories      int64            `json:"memories"`
	Topics        int64            `json:"topics"`
}

// table is one with what Postgres's statistics say of it.
type table struct {
	Dead    int64 `json:"dead"`
	Changed int64 `json:"changed"` // rows updated and deleted since the start: each left a dead one
	Vacuums int64 `json:"autovacuums"`
	Heap    int64 `json:"heap_bytes"` // with TOAST and maps
	Indexes int64 `json:"index_bytes"`
	// Trigger is the number of dead rows from which autovacuum vacuums the table.
	Trigger int64 `json:"vacuum_trigger"`
}

func (d database) vacuums() (runs int64) {
	for _, t := range d.Tables {
		runs += t.Vacuums
	}
	return runs
}

const (
	// readState answers with the JSON of a database.
	readState = `
		with program as (select state from pg_stat_activity where application_name like 'throughline%'),
		     folds as (select state::text, attempt from river.river_job where kind in ('fold_brief', 'rebuild_brief'))
		select json_build_object(
		       'connections', (select count(*) from program), 'busy_connections', (select count(*) from program where state <> 'idle'),
		       'deadlocks', deadlocks,
		       'jobs_waiting', (select count(*) from river.river_job where finalized_at is null and queue in ('memory', 'memories', 'topics')),
		       'folds_done', (select count(*) from folds where state = 'completed'), 'folds_repeated', (select count(*) from folds where attempt > 1),
		       'memories', (select count(*) from public.memories), 'topics', (select count(*) from public.topics),
		       'tables', (
		       select json_object_agg(s.schemaname || '.' || s.relname, json_build_object(
		              'dead', n_dead_tup, 'changed', n_tup_upd + n_tup_del, 'autovacuums', autovacuum_count,
		              'heap_bytes', pg_table_size(s.relid), 'index_bytes', pg_indexes_size(s.relid), 'vacuum_trigger',
		              (coalesce(own.threshold, current_setting('autovacuum_vacuum_threshold'))::float8
		                + coalesce(own.scale, current_setting('autovacuum_vacuum_scale_factor'))::float8 * greatest(c.reltuples, 0))::bigint))
		         from pg_stat_user_tables s join pg_class c on c.oid = s.relid
		        cross join lateral (
		              select max(option_value) filter (where option_name = 'autovacuum_vacuum_threshold') as threshold,
		                     max(option_value) filter (where option_name = 'autovacuum_vacuum_scale_factor') as scale
		                from pg_options_to_table(c.reloptions)) own
		        where s.schemaname in ('public', 'river')))
		  from pg_stat_database where datname = current_database()`
	// How long folds waited to be picked up. A job that is tried again waits on purpose.
	readPickUp = `
		select coalesce(percentile_cont(.5) within group (order by waited), 0), coalesce(percentile_cont(.99) within group (order by waited), 0)
		  from (select 1000 * extract(epoch from attempted_at - scheduled_at)::float8 as waited from river.river_job
		         where kind in ('fold_brief', 'rebuild_brief') and attempt = 1) picked`
)
