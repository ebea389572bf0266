package main

import (
	"context"

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
	TempFiles   int64            `json:"temp_files"`
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
	readState = `
		select (select count(*) from pg_stat_activity where application_name like 'throughline%'),
		       (select count(*) from pg_stat_activity where application_name like 'throughline%' and state <> 'idle'),
		       pg_database_size(current_database()), blks_hit, blks_read, temp_files, deadlocks
		  from pg_stat_database where datname = current_database()`
	readTables = `
		select s.schemaname || '.' || s.relname, n_live_tup, n_dead_tup, n_tup_upd + n_tup_del, autovacuum_count,
		       pg_table_size(s.relid), pg_indexes_size(s.relid),
		       (coalesce(own.threshold, current_setting('autovacuum_vacuum_threshold'))::float8
		         + coalesce(own.scale, current_setting('autovacuum_vacuum_scale_factor'))::float8 * greatest(c.reltuples, 0))::bigint
		  from pg_stat_user_tables s join pg_class c on c.oid = s.relid
		 cross join lateral (
		       select max(option_value) filter (where option_name = 'autovacuum_vacuum_threshold') as threshold,
		              max(option_value) filter (where option_name = 'autovacuum_vacuum_scale_factor') as scale
		         from pg_options_to_table(c.reloptions)) own
		 where s.schemaname in ('public', 'river')`
	readJobs = "select state::text, count(*) from river.river_job where kind in ('fold_brief', 'rebuild_brief') group by state"
	// What waited to be picked up since a moment. A job that is tried again waits on purpose.
	readPickUp = `
		select coalesce(percentile_cont(.5) within group (order by waited), 0), coalesce(percentile_cont(.99) within group (order by waited), 0)
		  from (select 1000 * extract(epoch from attempted_at - scheduled_at)::float8 as waited from river.river_job
		         where kind in ('fold_brief', 'rebuild_brief') and attempt = 1 and attempted_at > now() - $1::interval) picked`
	readLate  = "select coalesce(extract(epoch from max(late_by)), 0)::float8 from inspect.late_folds"
	readFolds = `
		select count(*) filter (where state = 'completed'), count(*) filter (where attempt > 1)
		  from river.river_job where kind in ('fold_brief', 'rebuild_brief')`
)

// pickUpWindow is how far back the pick-up times of a sample go.
const pickUpWindow = "10 s"

func readDatabase(ctx context.Context, admin *pgxpool.Pool) (d database, err error) {
	if d.Usage, d.WAL, err = kit.UsageOfPostgres(ctx, admin); err != nil {
		return d, err
	}
	batch := &pgx.Batch{}
	batch.Queue(readState).QueryRow(func(row pgx.Row) error {
		return row.Scan(&d.Connections, &d.Busy, &d.Size, &d.Hits, &d.Reads, &d.TempFiles, &d.Deadlocks)
	})
	batch.Queue(readTables).Query(func(rows pgx.Rows) error {
		d.Tables, err = byName(rows, func(t *table) []any {
			return []any{&t.Live, &t.Dead, &t.Changed, &t.Vacuums, &t.Heap, &t.Indexes, &t.Trigger}
		})
		return err
	})
	batch.Queue(readJobs).Query(func(rows pgx.Rows) error {
		d.Jobs, err = byName(rows, func(n *int64) []any { return []any{n} })
		return err
	})
	batch.Queue(readPickUp, pickUpWindow).QueryRow(func(row pgx.Row) error { return row.Scan(&d.PickUp50, &d.PickUp99) })
	batch.Queue(readLate).QueryRow(func(row pgx.Row) error { return row.Scan(&d.Late) })
	batch.Queue(readFolds).QueryRow(func(row pgx.Row) error { return row.Scan(&d.FoldsDone, &d.FoldsRepeated) })
	return d, admin.SendBatch(ctx, batch).Close()
}

// byName reads rows by their first column, a name.
func byName[T any](rows pgx.Rows, into func(*T) []any) (map[string]T, error) {
	found := map[string]T{}
	for rows.Next() {
		var name string
		var row T
		if err := rows.Scan(append([]any{&name}, into(&row)...)...); err != nil {
			return nil, err
		}
		found[name] = row
	}
	return found, rows.Err()
}

const readLeftovers = `
	select (select count(*) from public.message_deltas), (select count(*) from public.messages where status = 'streaming'),
	       (select count(*) from river.river_job where kind in ('fold_brief', 'rebuild_brief') and finalized_at is null),
	       (select count(*) from river.river_job where state in ('discarded', 'cancelled')),
	       (select count(*) from inspect.late_folds),
	       coalesce((select format('such as %s, for %s: %s (%s tokens, %s turns wait); its latest job %s', f.chat_id, f.late_by, f.reason, f.tokens_total,
	                               f.pending_turns, coalesce(f.job_state || ', attempt ' || f.job_attempt || ', ' || f.job_scheduled_at, 'is none'))
	                   from inspect.late_folds f limit 1), ''),
	       (select count(*) from public.conversation_briefs where lease_until is not null)`

func (s *system) leftovers(ctx context.Context) (left leftovers, err error) {
	err = s.admin.QueryRow(ctx, readLeftovers).Scan(&left.Deltas, &left.Streaming, &left.Jobs, &left.Discarded, &left.Due, &left.Example, &left.Leases)
	if err != nil {
		return left, err
	}
	files, err := s.temporaryFiles()
	left.Files = int64(files)
	return left, err
}
