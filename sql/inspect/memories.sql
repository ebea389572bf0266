-- What is this user remembered for? Superseded and archived memories come last.
--
--   psql "$DATABASE_URL" -v user=UUID -f sql/inspect/memories.sql
\if :{?user} \else \warn 'usage: psql "$DATABASE_URL" -v user=UUID -f sql/inspect/memories.sql' \quit \endif
\x auto

select memory_id, status, memory_type as type, content, round(confidence::numeric, 2) as confidence, durable, pinned, edited, origin,
       valid_from::date as since, valid_to::date as until, times_said, last_said_at, access_count as uses, unused
  from inspect.memories
 where user_id = :'user'
 order by array_position(array['active', 'inbox', 'superseded', 'archived'], status), recorded_at desc;
