-- The parts of memories that prompts read, and the vectors of memories.

-- name: ReadFirstMemories :many
-- row: memory.Remembered + active
-- As the user: what prompts of a chat may show of memories. See throughline.first_memories; a row without a memory has empty
-- columns.
select f.active::int as active, coalesce(m.id, '00000000-0000-0000-0000-000000000000') as id, coalesce(m.content, '') as content,
       coalesce(m.confidence, 0) as confidence, coalesce(m.durable, false) as durable, coalesce(m.pinned, false) as pinned,
       coalesce(m.edited, false) as edited, m.valid_from, m.valid_to, coalesce(m.valid_precision, '') as precision,
       coalesce(m.last_accessed, m.recorded_at) as last_used, s.sources
  from throughline.first_memories(sqlc.arg(chat_id)::uuid, sqlc.arg(most)::int) f
  left join public.memories m on m.id = f.id
  cross join lateral (
       select jsonb_agg(jsonb_build_object('ChatID', o.chat_id, 'Seq', o.seq, 'Quote', o.quote)) as sources
         from public.memory_sources o where o.memory_id = m.id and o.user_id = m.user_id) s
 order by f.place::int;

-- name: FindMemories :many
-- row: longterm.Found
-- As the user: the memories that a message may be about, with their sources. See throughline.find_memories.
select m.id, m.content, m.confidence, m.durable, m.pinned, m.edited, m.valid_from, m.valid_to, coalesce(m.valid_precision, '') as precision,
       coalesce(m.last_accessed, m.recorded_at) as last_used, s.sources,
       f.by_words::real as words, f.rarest::int as rarest, f.of::int as "all", coalesce(f.cosine, 0)::real as cosine,
       f.cosine is not null as has_cosine, f.named::int as named
  from throughline.find_memories(sqlc.arg(words)::text[], sqlc.arg(telling)::boolean[], sqlc.arg(names)::text[],
         sqlc.arg(relationships)::text[], sqlc.arg(types)::text[],
         sqlc.narg(question)::text::throughline.embedding, sqlc.arg(model)::text, sqlc.arg(most)::int) f
  join public.memories m on m.id = f.id
  cross join lateral (
       select jsonb_agg(jsonb_build_object('ChatID', o.chat_id, 'Seq', o.seq, 'Quote', o.quote)) as sources
         from public.memory_sources o where o.memory_id = m.id and o.user_id = m.user_id) s;

-- name: ActAsMemoryOwner :exec
-- For jobs of a user's memories, as ActAsChatOwner. Returns the nil id if the user has no memories there.
with owner as (select u.user_id from public.memory_users u where u.user_id = sqlc.arg(user_id) for key share),
named as (select coalesce((select owner.user_id from owner), '00000000-0000-0000-0000-000000000000') as user_id)
select named.user_id::uuid as user_id,
       set_config('request.jwt.claims', json_build_object('sub', named.user_id, 'role', 'throughline_worker')::text, true) as claims,
       set_config('request.jwt.claim.sub', named.user_id::text, true) as sub,
       set_config('role', 'throughline_worker', true) as role
  from named;

-- name: LockMemoryOwner :exec
-- As raise_memory_version does: who writes to memories of a user waits for the others.
select from throughline.own_memory_users for no key update;

-- name: ReadBareMemories :many
select m.id, m.content
  from throughline.own_memories m
 where m.id > sqlc.arg(after) and m.status <> 'superseded' and m.embedding_model is distinct from sqlc.arg(model)::text
 order by m.id limit sqlc.arg(most)::int;

-- name: SaveMemoryVectors :execrows
update throughline.own_memories m
   set embedding = new.embedding::throughline.embedding, embedding_model = sqlc.arg(model)::text
  from (select unnest(sqlc.arg(ids)::uuid[]) as id, unnest(sqlc.arg(contents)::text[]) as content, unnest(sqlc.arg(embeddings)::text[]) as embedding) new
 where m.id = new.id and m.content = new.content;

-- name: FindBareMemoryUsers :many
-- row: FindBareChatsRow
-- Users with a memory without a vector of the model and without a job that would make it, first those with memories that
-- have none at all; as FindBareChats, and as the server itself.
with waiting as (select j.args ->> 'user_id' as owner from river.river_job j
  where j.queue = 'vectors' and j.kind = 'embed_memories' and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled'))
(select distinct f.user_id as owner_id, false as outdated
   from (select m.user_id from public.memories m
          where m.embedding_model is null and m.status <> 'superseded' and m.user_id::text not in (select w.owner from waiting w) limit 20000) f
  limit greatest(sqlc.arg(most)::int - (select count(*) from waiting), 0))
union all
(select distinct o.user_id, true as outdated
   from ((select m.user_id from public.memories m
           where m.embedding_model < sqlc.arg(model)::text and m.status <> 'superseded' and m.user_id::text not in (select w.owner from waiting w) limit 20000)
         union all
         (select m.user_id from public.memories m
           where m.embedding_model > sqlc.arg(model)::text and m.status <> 'superseded'
             and m.user_id::text not in (select w.owner from waiting w) limit 20000)) o
  limit greatest(sqlc.arg(most)::int - (select count(*) from waiting), 0));
