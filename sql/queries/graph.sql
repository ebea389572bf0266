-- The graph of what a user's memories are about.

-- name: ReadGraph :many
-- Relationships (kind edge) and entities (kind node) around the entities that are asked for, or all. from_name and
-- from_words ask for one by name and for the entities that words name, from_user for the user where they name none. A step is made along relationships of the
-- names given, or of those verbs where no entity is named; the returned ones have an entity of the types given. as_of asks
-- for the facts of that time, where no source
-- said since when: from when it was said. What only archived memories or those in the inbox say is left out.
with recursive shown as materialized (
  select r.id, r.source_entity_id as source, r.target_entity_id as target, r.relationship, r.valid_from, r.valid_to, r.memory_id, r.recorded_at,
         (sqlc.narg(as_of)::timestamptz is not null or coalesce(r.valid_to, 'infinity') > now())::bool as valid
    from public.memory_relationships r
    join public.memories m on m.id = r.memory_id and m.status in ('active', 'superseded')
   where (cardinality(sqlc.arg(relationships)::text[]) = 0 or r.relationship = any(sqlc.arg(relationships)::text[]))
     and (cardinality(sqlc.arg(verbs)::text[]) = 0 or r.relationship = any(sqlc.arg(verbs)::text[]) or exists (select from named))
     and (not sqlc.arg(only_valid)::bool or coalesce(r.valid_to, 'infinity') > now())
     and (sqlc.narg(as_of)::timestamptz is null
       or coalesce(r.valid_to, 'infinity') > sqlc.narg(as_of)::timestamptz
          and coalesce(r.valid_from, (select min(s.said_at) from public.memory_sources s where s.memory_id = any(r.also_said_by || r.memory_id)), r.recorded_at)
              <= sqlc.narg(as_of)::timestamptz)),
mentioned as materialized (
  select distinct n.entity_id as id
    from public.memory_mentions n
    join public.memories m on m.id = n.memory_id
   where case when sqlc.narg(as_of)::timestamptz is null then m.status = 'active'
              else m.status in ('active', 'superseded')
                   and coalesce(m.valid_to, m.retracted_at, 'infinity') > sqlc.narg(as_of)::timestamptz
                   and coalesce(m.valid_from, (select min(s.said_at) from public.memory_sources s where s.memory_id = m.id), m.recorded_at)
                       <= sqlc.narg(as_of)::timestamptz end),
words as materialized (select throughline.folded(sqlc.arg(from_words)::text) as folded),
named as materialized (
  select e.id from public.memory_entities e
   where sqlc.arg(from_name)::text <> ''
         and (e.name_key = throughline.folded(sqlc.arg(from_name)::text) or e.is_user and throughline.is_user_name(sqlc.arg(from_name)::text))
      or sqlc.arg(from_words)::text <> '' and not e.is_user and throughline.has_name((select w.folded from words w), e.name_key)),
start as materialized (
  select n.id from named n
   union all
  select e.id from public.memory_entities e where sqlc.arg(from_user)::bool and e.is_user and not exists (select from named)),
ways as materialized (select s.source as here, s.target as there from shown s union select s.target, s.source from shown s),
reached as (
  select s.id, 0 as depth from start s
   union
  select w.there, r.depth + 1 from reached r join ways w on w.here = r.id where r.depth < sqlc.arg(depth)::int),
near as materialized (select distinct r.id from reached r where r.depth < sqlc.arg(depth)::int),
edges as materialized (
  select s.* from shown s
   where (sqlc.arg(everything)::bool or s.source in (select n.id from near n) or s.target in (select n.id from near n))
     and (cardinality(sqlc.arg(types)::text[]) = 0
       or exists (select from public.memory_entities e where e.id in (s.source, s.target) and e.entity_type = any(sqlc.arg(types)::text[])
                     and (sqlc.arg(everything)::bool or not exists (select from start t where t.id = e.id))))
   order by s.valid desc, s.recorded_at desc, s.id limit sqlc.arg(most)::int)
(select 'edge' as kind, a.name, e.relationship as what, b.name as target, 0::int as mentions, e.valid, e.valid_from, e.valid_to, e.memory_id
   from edges e join public.memory_entities a on a.id = e.source join public.memory_entities b on b.id = e.target
  order by e.valid desc, e.recorded_at desc, e.id)
union all
(select 'node', n.name, n.entity_type, '', n.mentions, true, null, null, n.id
   from public.memory_entities n
  where n.id in (select source from edges union select target from edges)
     or n.id in (select m.id from named m)
     or sqlc.arg(everything)::bool and cardinality(sqlc.arg(relationships)::text[]) = 0 and n.id in (select m.id from mentioned m)
        and (cardinality(sqlc.arg(types)::text[]) = 0 or n.entity_type = any(sqlc.arg(types)::text[]))
  order by n.mentions desc, n.name limit sqlc.arg(most)::int * 2);

-- name: NextGraphUser :many
-- As the server itself: a user who has memories that the graph has not looked at, without a lease on them, and who was not
-- put off; before others those who failed least, and after one who had a turn. The memories lead to their users, not the users
-- to their memories (offset 0): most have none that the graph lacks.
select unlinked.user_id
  from (select distinct m.user_id from public.memories m where m.graph_version is null and m.status = 'active' offset 0) unlinked
  join public.memory_users u on u.user_id = unlinked.user_id and u.enabled
  left join throughline.work w on w.kind = 'graph' and w.key = unlinked.user_id
 where coalesce(w.retry_at <= now(), true) and coalesce(w.lease_until < now(), true) and unlinked.user_id <> all (sqlc.arg(had)::uuid[])
 order by coalesce(w.failures, 0), unlinked.user_id limit 1;

-- name: ReadUnlinked :many
-- row: graph.Memory
-- As throughline_worker: memories that the graph has not looked at.
select m.id, m.version, m.content from throughline.own_memories m
 where m.graph_version is null and m.status = 'active' order by m.created_at, m.id limit sqlc.arg(most)::int;

-- name: LinkMemories :execrows
-- As throughline_worker: links memories that are still as they were read, and returns them.
select m.id, throughline.link_memory(m.id, n.entities::jsonb, n.relationships::jsonb)::text as linked
  from (select unnest(sqlc.arg(ids)::uuid[]) as id, unnest(sqlc.arg(versions)::int[]) as version,
               unnest(sqlc.arg(entities)::text[]) as entities, unnest(sqlc.arg(relationships)::text[]) as relationships) n
  join throughline.own_memories m on m.id = n.id and m.version = n.version and m.graph_version is null and m.status = 'active';
