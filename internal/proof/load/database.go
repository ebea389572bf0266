package main

import (
	"context"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// database is Postgres at one moment. Sizes are in bytes, times in milliseconds.
type database struct {
	kit.Usage
	Connections int64            `json:"connections"` // the program's
	Busy        int64            `json:"busy_connections"`
	WAL         int64            `json:"wal_bytes"`
	Size        int64            `json:"size_bytes"`
	Hits        int64            `json:"blocks_hit"`
	Reads       int64            `json:"blocks_read"`
	Tables      map[string]table `json:"tables"`
	Jobs        map[string]int64 `json:"fold_jobs"` // by state
	PickUp50    float64          `json:"pick_up_p50_ms"`
	PickUp99    float64          `json:"pick_up_p99_ms"`
	// Late is how long the chat that waits longest has been due to be folded, in seconds.
	Late          float64 `json:"oldest_due_fold_s"`
	Deadlocks     int64   `json:"deadlocks"`
	FoldsDone     int64   `json:"folds_done"`
	FoldsRepeated int64   `json:"folds_repeated"` // that took more than one attempt
}

// table is one with what Postgres's statistics say of it.
type table struct {
	Live    int64 `json:"live"`
	Dead    int64 `json:"dead"`
	Changed int64 `json:"changed"` // rows updated and deleted since the start: each left a dead one
	Vacuums int64 `json:"autovacuums"`
	Heap    int64 `json:"heap_bytes"` // with TOAST and maps
	Indexes int64 `json:"index_bytes"`
	// Trigger is the number of dead rows from which autovacuum vacuums the table.
	Trigger int64 `json:"vacuum_trigger"`
}

const (
	// readState answers with the JSON of a database.
	readState = `
		with program as (select state from pg_stat_activity where application_name like 'throughline%'),
		     folds as (select state::text, attempt from river.river_job where kind in ('fold_brief', 'rebuild_brief'))
		select json_build_object(
		       'connections', (select count(*) from program), 'busy_connections', (select count(*) from program where state <> 'idle'),
		       'size_bytes', pg_database_size(current_database()), 'blocks_hit', blks_hit, 'blocks_read', blks_read, 'deadlocks', deadlocks,
		       'fold_jobs', (select json_object_agg(state, count) from (select state, count(*) from folds group by state) by_state),
		       'folds_done', (select count(*) from folds where state = 'completed'), 'folds_repeated', (select count(*) from folds where attempt > 1),
		       'oldest_due_fold_s', (select coalesce(extract(epoch from max(late_by)), 0) from inspect.late_folds),
		       'tables', (
		       select json_object_agg(s.schemaname || '.' || s.relname, json_build_object(
		              'live', n_live_tup, 'dead', n_dead_tup, 'changed', n_tup_upd + n_tup_del, 'autovacuums', autovacuum_count,
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
	// What waited to be picked up since a moment. A job that is tried again waits on purpose.
	readPickUp = `
		select coalesce(percentile_cont(.5) within group (order by waited), 0), coalesce(percentile_cont(.99) within group (order by waited), 0)
		  from (select 1000 * extract(epoch from attempted_at - scheduled_at)::float8 as waited from river.river_job
		         where kind in ('fold_brief', 'rebuild_brief') and attempt = 1 and attempted_at > now() - $1::interval) picked`
)

// pickUpWindow is how far back the pick-up times of a sample go.
const pickUpWindow = "10 s"

func readDatabase(ctx context.Context, admin *pgxpool.Pool) (d database, err error) {
	if err := admin.QueryRow(ctx, readState).Scan(&d); err != nil {
		return d, err
	}
	if d.Usage, d.WAL, err = kit.UsageOfPostgres(ctx, admin); err != nil {
		return d, err
	}
	return d, admin.QueryRow(ctx, readPickUp, pickUpWindow).Scan(&d.PickUp50, &d.PickUp99)
}

// leftovers are what Postgres and the disk still hold of work that is over.
type leftovers struct {
	Deltas, Streaming int64
	Jobs, Discarded   int64 // folds
	Due, Leases       int64
	Example           string // of a due chat: why, and what became of its latest job
	Files             int    `db:"-"` // temporary ones
}

const readLeftovers = `
	select (select count(*) from public.message_deltas), (select count(*) from public.messages where status = 'streaming'),
	       (select count(*) from river.river_job where kind in ('fold_brief', 'rebuild_brief') and finalized_at is null),
	       (select count(*) from river.river_job where state in ('discarded', 'cancelled')),
	       (select count(*) from inspect.late_folds), (select count(*) from public.conversation_briefs where lease_until is not null),
	       coalesce((select format('such as %s, for %s: %s (%s tokens, %s turns wait); its latest job %s', f.chat_id, f.late_by, f.reason, f.tokens_total,
	                               f.pending_turns, coalesce(f.job_state || ', attempt ' || f.job_attempt || ', ' || f.job_scheduled_at, 'is none'))
	                   from inspect.late_folds f limit 1), '')`

func (s *system) leftovers(ctx context.Context) (leftovers, error) {
	rows, _ := s.admin.Query(ctx, readLeftovers) // the next line has the error
	left, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[leftovers])
	if err != nil {
		return left, err
	}
	files, err := os.ReadDir(s.temporary())
	left.Files = len(files)
	return left, err
}
