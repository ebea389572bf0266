-- What do this user's memories say of people, places and things? Past facts come last.
--
--   psql "$DATABASE_URL" -v user=UUID -f sql/inspect/graph.sql
\if :{?user} \else \warn 'usage: psql "$DATABASE_URL" -v user=UUID -f sql/inspect/graph.sql' \quit \endif
\x auto

select source, relationship, target, target_type as type, valid, valid_from::date as since, valid_to::date as until, memory, memory_status, memory_id
  from inspect.graph
 where user_id = :'user'
 order by valid desc, source, relationship, target, recorded_at;
