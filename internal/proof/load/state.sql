-- Answers with the JSON of values by their names.
with program as (select state from pg_stat_activity where application_name like 'throughline%'),
     folds as (select state::text, attempt from river.river_job where kind = 'fold_brief'),
     tables as (
       select s.schemaname || '.' || s.relname as name, n_dead_tup as dead, n_tup_upd + n_tup_del as changed, autovacuum_count as vacuums,
              pg_total_relation_size(s.relid) as size, (coalesce(own.threshold, current_setting('autovacuum_vacuum_threshold'))::float8
                + coalesce(own.scale, current_setting('autovacuum_vacuum_scale_factor'))::float8 * greatest(c.reltuples, 0))::bigint as trigger
         from pg_stat_user_tables s join pg_class c on c.oid = s.relid
        cross join lateral (
              select max(option_value) filter (where option_name = 'autovacuum_vacuum_threshold') as threshold,
                     max(option_value) filter (where option_name = 'autovacuum_vacuum_scale_factor') as scale
                from pg_options_to_table(c.reloptions)) own
        where s.schemaname in ('public', 'river'))
select json_object_agg(name, value) from (
       select 'connections to Postgres', count(*) from program
       union all select 'busy connections to Postgres', count(*) from program where state <> 'idle'
       union all select 'deadlocks', deadlocks from pg_stat_database where datname = current_database()
       union all select 'jobs', count(*) from river.river_job where finalized_at is null and queue in ('memory', 'memories', 'topics')
       union all select 'folds', count(*) from folds where state = 'completed'
       union all select 'repeated folds', count(*) from folds where attempt > 1
       union all select 'memories', count(*) from public.memories
       union all select 'topics', count(*) from public.topics
       union all select 'autovacuums', sum(vacuums) from tables
       -- of the tables that keep what they get
       union all select 'kept', sum(size) from tables where name like 'public.%' and name <> 'public.message_deltas'
       union all select 'dead rows of ' || name, dead from tables
       union all select 'changed rows of ' || name, changed from tables -- since the start: each left a dead one
       -- from how many dead rows on autovacuum comes
       union all select 'trigger of ' || name, trigger from tables) measured (name, value)
