-- Stops folds on all servers: psql "$DATABASE_DIRECT_URL" -f sql/operate/pause_memory.sql
-- Running jobs come to their end. Nothing is lost; see docs/operations.md.
-- Workers that listen learn of it by the notification alone, workers that start later by the row.
begin;
insert into river.river_queue (name, created_at, updated_at, paused_at) values ('memory', now(), now(), now())
on conflict (name) do update set paused_at = coalesce(river_queue.paused_at, now()), updated_at = now();
select pg_notify('river.river_control', '{"action": "pause", "queue": "memory"}');
commit;
