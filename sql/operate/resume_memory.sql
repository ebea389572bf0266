-- Lets folds run again: psql "$DATABASE_DIRECT_URL" -f sql/operate/resume_memory.sql
begin;
update river.river_queue set paused_at = null, updated_at = now() where name = 'memory';
select pg_notify('river.river_control', '{"action": "resume", "queue": "memory"}');
commit;
