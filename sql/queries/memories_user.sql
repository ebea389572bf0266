-- What a user sees of the memories, changes and deletes, with the user's rights. Whoever changes memories calls
-- TouchOwnMemories first, which lets the writers of one user pass one after the other.

-- name: TouchOwnMemories :exec
-- Also for a job.
select throughline.touch_memories(throughline.uid());

-- name: NoteChange :exec
-- What the next change is, for the history. Also for a job.
select throughline.note_change(sqlc.arg(action)::text, sqlc.arg(reason)::text, sqlc.arg(actor)::text, sqlc.narg(model)::text, sqlc.narg(prompt_ref)::text);

-- name: MakeOwnMemoryUser :exec
-- Before the lock of a chat: the foreign key waits for the deletion of the account, which waits for chats.
insert into public.memory_users (user_id) values (throughline.uid()) on conflict (user_id) do nothing;

-- name: ListMemories :many
-- row: api.Memory
-- With as_of, the memories true and believed at that time. current is active and inbox, or the ones active then.
select m.id, m.content, m.memory_type, m.confidence, m.durable, m.pinned, m.status, m.edited, m.origin, m.version, m.lang, m.valid_from, m.valid_to,
       m.recorded_at, m.retracted_at, m.superseded_by, m.conflicts_with, m.source_session_id, m.last_accessed, m.access_count, m.created_at, m.updated_at,
       coalesce((select jsonb_agg(jsonb_build_object('message_id', s.message_id, 'chat_id', s.chat_id, 'seq', s.seq, 'quote', s.quote, 'said_at', s.said_at)
                          order by s.said_at, s.chat_id, s.seq)
                   from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id), '[]')::jsonb as sources
  from public.memories m
 where m.user_id = (select throughline.uid())
   and (sqlc.arg(memory_type)::text = '' or m.memory_type = sqlc.arg(memory_type)::text)
   and (sqlc.arg(chat_id)::uuid = '00000000-0000-0000-0000-000000000000'
        or exists (select from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id and s.chat_id = sqlc.arg(chat_id)::uuid))
   and case sqlc.arg(status)::text
         when 'all' then true
         when 'current' then m.status = 'active' or m.status = case when sqlc.narg(as_of)::timestamptz is null then 'inbox' else 'superseded' end
         else m.status = sqlc.arg(status)::text
       end
   and (sqlc.narg(as_of)::timestamptz is null
        or coalesce(m.valid_from, (select min(s.said_at) from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id),
          m.recorded_at) <= sqlc.narg(as_of)::timestamptz
           and coalesce(m.valid_to, m.retracted_at, 'infinity') > sqlc.narg(as_of)::timestamptz)
   and (sqlc.narg(after_created_at)::timestamptz is null or (m.created_at, m.id) < (sqlc.narg(after_created_at)::timestamptz, sqlc.arg(after_id)::uuid))
 order by m.created_at desc, m.id desc
 limit sqlc.arg(most)::int;

-- name: SearchMemories :many
-- row: api.Memory + score
-- The same for words: each word of the memory counts by its rarity among the user's memories. A word that most of them
-- have says nothing, unless the others say nothing either. The s of "user's" says nothing at all. A memory whose vector is as
-- near to the question's as least, or nearer, counts as if it held a word that no other has.
with asked as (
  select w.lexeme from unnest(tsvector_to_array(to_tsvector('throughline.words'::regconfig, throughline.searchable(sqlc.arg(words)::text)))) w (lexeme)
   where w.lexeme !~ '^[a-z]$'),
own as (
  select m.id, m.tsv
    from public.memories m
   where m.user_id = (select throughline.uid())
     and (sqlc.arg(memory_type)::text = '' or m.memory_type = sqlc.arg(memory_type)::text)
     and (sqlc.arg(chat_id)::uuid = '00000000-0000-0000-0000-000000000000'
          or exists (select from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id and s.chat_id = sqlc.arg(chat_id)::uuid))
     and case sqlc.arg(status)::text
           when 'all' then true
           when 'current' then m.status = 'active' or m.status = case when sqlc.narg(as_of)::timestamptz is null then 'inbox' else 'superseded' end
           else m.status = sqlc.arg(status)::text
         end
     and (sqlc.narg(as_of)::timestamptz is null
          or coalesce(m.valid_from, (select min(s.said_at) from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id),
            m.recorded_at) <= sqlc.narg(as_of)::timestamptz
             and coalesce(m.valid_to, m.retracted_at, 'infinity') > sqlc.narg(as_of)::timestamptz)),
hits as (
  select o.id, w.lexeme from own o cross join lateral unnest(tsvector_to_array(o.tsv)) w (lexeme) join asked a on a.lexeme = w.lexeme),
weighed as (
  select h.lexeme, count(*) as having_it, t.total, bool_and(count(*) * 2 > t.total) over () as all_common
    from hits h cross join (select count(*) as total from own) t group by h.lexeme, t.total),
ranked as (
  select h.id, sum(ln(1 + w.total::float8 / w.having_it)) as score
    from hits h join weighed w on w.lexeme = h.lexeme
   where w.having_it * 2 <= w.total or w.total < 4 or w.all_common
   group by h.id
   union all
  select o.id, ln(1 + (select count(*) from own)::float8) * n.cosine
    from own o
    join public.memories m on m.id = o.id and m.embedding_model = sqlc.arg(model)::text
   cross join lateral (select -(m.embedding operator(throughline.<#>) sqlc.narg(question)::text::throughline.embedding) as cosine) n
   where sqlc.narg(question)::text is not null and n.cosine >= sqlc.arg(least)::float8),
scored as (select r.id, sum(r.score) as score from ranked r group by r.id)
select m.id, m.content, m.memory_type, m.confidence, m.durable, m.pinned, m.status, m.edited, m.origin, m.version, m.lang, m.valid_from, m.valid_to,
       m.recorded_at, m.retracted_at, m.superseded_by, m.conflicts_with, m.source_session_id, m.last_accessed, m.access_count, m.created_at, m.updated_at,
       coalesce((select jsonb_agg(jsonb_build_object('message_id', s.message_id, 'chat_id', s.chat_id, 'seq', s.seq, 'quote', s.quote, 'said_at', s.said_at)
                          order by s.said_at, s.chat_id, s.seq)
                   from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id), '[]')::jsonb as sources,
       r.score::float8 as score
  from scored r join public.memories m on m.user_id = (select throughline.uid()) and m.id = r.id
 order by r.score desc, m.created_at desc, m.id desc
 limit sqlc.arg(most)::int;

-- name: FindMemory :one
-- row: api.Memory
select m.id, m.content, m.memory_type, m.confidence, m.durable, m.pinned, m.status, m.edited, m.origin, m.version, m.lang, m.valid_from, m.valid_to,
       m.recorded_at, m.retracted_at, m.superseded_by, m.conflicts_with, m.source_session_id, m.last_accessed, m.access_count, m.created_at, m.updated_at,
       coalesce((select jsonb_agg(jsonb_build_object('message_id', s.message_id, 'chat_id', s.chat_id, 'seq', s.seq, 'quote', s.quote, 'said_at', s.said_at)
                          order by s.said_at, s.chat_id, s.seq)
                   from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id), '[]')::jsonb as sources
  from public.memories m
 where m.user_id = (select throughline.uid()) and m.id = sqlc.arg(id)::uuid;

-- name: FindTwins :many
-- For each content, by its place, its key and the memory that has it, the one that counts most. Keys are costly: each is
-- computed once.
with asked as materialized (
  select n.place, throughline.content_key(n.content) as content_key
    from (select unnest(sqlc.arg(contents)::text[]) as content, unnest(sqlc.arg(places)::int[]) as place) n)
select encode(a.content_key, 'hex') as key, coalesce(t.id, '00000000-0000-0000-0000-000000000000')::uuid as id, coalesce(t.status, '')::text as status
  from asked a
  left join (select distinct on (m.content_key) m.content_key, m.id, m.status
               from public.memories m
              where m.user_id = (select throughline.uid()) and m.id <> sqlc.arg(but)::uuid and m.content_key in (select s.content_key from asked s)
              order by m.content_key, array_position(array['active', 'inbox', 'archived', 'superseded'], m.status), m.created_at desc, m.id) t
    on t.content_key = a.content_key
 order by a.place;

-- name: FindOwnMemories :many
-- Which of these memories the user has.
select m.id from public.memories m where m.user_id = (select throughline.uid()) and m.id = any (sqlc.arg(ids)::uuid[]);

-- name: InsertMemories :exec
-- Rows are objects with the names of the columns. One whose id is taken is left out: it was inserted before the connection
-- broke.
insert into public.memories (id, content, memory_type, confidence, durable, pinned, status, edited, origin, lang, valid_from, valid_to, valid_precision,
                             recorded_at, retracted_at, superseded_by, conflicts_with, source_session_id, created_at, last_accessed,
                             access_count)
select (n ->> 'id')::uuid, n ->> 'content', n ->> 'memory_type', (n ->> 'confidence')::float8, (n ->> 'durable')::boolean, (n ->> 'pinned')::boolean,
       n ->> 'status', (n ->> 'edited')::boolean, coalesce(nullif(sqlc.arg(origin)::text, ''), nullif(n ->> 'origin', ''), 'import'), n ->> 'lang',
         (n ->> 'valid_from')::timestamptz, (n ->> 'valid_to')::timestamptz,
       n ->> 'valid_precision', coalesce((n ->> 'recorded_at')::timestamptz, now()), (n ->> 'retracted_at')::timestamptz,
       (n ->> 'superseded_by')::uuid, (n ->> 'conflicts_with')::uuid, coalesce(sqlc.narg(source_session_id)::uuid, (n ->> 'source_session_id')::uuid),
         coalesce((n ->> 'created_at')::timestamptz, now()),
       (n ->> 'last_accessed')::timestamptz, coalesce((n ->> 'access_count')::int, 0)
  from jsonb_array_elements(sqlc.arg(new_rows)::jsonb) n
on conflict (id) do nothing;

-- name: InsertMemorySources :exec
-- Rows are objects with memory_id, message_id, fact and quote.
insert into public.memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
select e.id, m.id, m.user_id, m.chat_id, m.seq, n ->> 'fact', n ->> 'quote', m.created_at
  from jsonb_array_elements(sqlc.arg(new_rows)::jsonb) n
  join public.messages m on m.id = (n ->> 'message_id')::uuid and m.superseded_by is null
  join public.memories e on e.user_id = m.user_id and e.id = (n ->> 'memory_id')::uuid
on conflict (memory_id, message_id) do nothing;

-- name: ChangeMemory :execrows
-- Null keeps a column. What the user writes, corrects or pins is the user's own from then on. New words, and confirming what
-- is in the inbox, make it certain; a superseded one that is true again has no end any more.
update public.memories m
   set content = coalesce(sqlc.narg(content)::text, m.content),
       memory_type = coalesce(sqlc.narg(memory_type)::text, m.memory_type),
       durable = coalesce(sqlc.narg(durable)::boolean, m.durable),
       pinned = coalesce(sqlc.narg(pinned)::boolean, m.pinned),
       status = coalesce(sqlc.narg(status)::text, m.status),
       edited = m.edited or coalesce(sqlc.narg(content)::text <> m.content, false),
       origin = case when sqlc.arg(own)::boolean then 'user' else m.origin end,
       confidence = case when sqlc.narg(content)::text <> m.content or m.status = 'inbox' and sqlc.narg(status)::text = 'active' then 1 else m.confidence end,
       valid_to = case when m.status = 'superseded' and sqlc.narg(status)::text is not null then null else m.valid_to end,
       retracted_at = case when m.status = 'superseded' and sqlc.narg(status)::text is not null then null else m.retracted_at end,
       superseded_by = case when m.status = 'superseded' and sqlc.narg(status)::text is not null then null else m.superseded_by end,
       conflicts_with = case when sqlc.narg(status)::text is null then m.conflicts_with end
 where m.user_id = (select throughline.uid()) and m.id = sqlc.arg(id)::uuid;

-- name: ReplaceMemory :exec
-- Closes what an accepted memory contradicts.
update public.memories m
   set status = 'superseded', superseded_by = n.id, valid_to = coalesce(n.valid_from, now()), retracted_at = now()
  from public.memories n
 where n.user_id = (select throughline.uid()) and n.id = sqlc.arg(id)::uuid
   and m.user_id = n.user_id and m.id = sqlc.arg(replaced)::uuid and m.status in ('active', 'archived');

-- name: OverwriteFacts :exec
-- What a memory falls back to when one of its sources is deleted are the user's own words from now on.
update public.memory_sources s set fact = sqlc.arg(content)::text
 where s.user_id = (select throughline.uid()) and s.memory_id = sqlc.arg(id)::uuid and s.fact is distinct from sqlc.arg(content)::text;

-- name: LockMemorysChats :exec
-- The chats whose briefs or titles may hold what the memory was made of. Their rows are locked as a turn does, once no deletion can be in the
-- way: see throughline.skip_rest.
with kept as materialized (
  select c.id
    from public.chats c
   where c.id in (select s.chat_id from public.memory_sources s
                   where s.user_id = (select throughline.uid()) and s.memory_id = sqlc.arg(id)::uuid)
   order by c.id
     for key share nowait)
select c.id from public.chats c where c.id in (select kept.id from kept) order by c.id for no key update;

-- name: RollBackBriefs :exec
-- Their briefs and titles, to before the memory's first source there, before the memories are locked.
select throughline.roll_back(said.chat_id, said.seqs)
  from (select s.chat_id, array_agg(s.seq) as seqs
          from public.memory_sources s
         where s.user_id = (select throughline.uid()) and s.memory_id = sqlc.arg(id)::uuid
         group by s.chat_id order by s.chat_id) said;

-- name: DeleteMemory :execrows
delete from public.memories m where m.user_id = (select throughline.uid()) and m.id = sqlc.arg(id)::uuid;

-- name: ForgetMemories :execrows
-- The memories that have not changed since the user saw them.
delete from public.memories m
 using (select unnest(sqlc.arg(ids)::uuid[]) as id, unnest(sqlc.arg(versions)::int[]) as version) seen
 where m.user_id = (select throughline.uid()) and m.id = seen.id and m.version = seen.version;

-- name: MemoryRevisions :many
-- row: api.MemoryRevision
select memory_id, version, action, content, coalesce(reason, '')::text as reason, actor, model, prompt_ref, created_at
  from public.memory_revisions
 where user_id = (select throughline.uid()) and memory_id = sqlc.arg(id)::uuid
 order by version;

-- name: CountMemories :one
-- row: api.DeletedMemories
select (select count(*) from public.memories m where m.user_id = (select throughline.uid()))::bigint as memories,
       (select count(*) from public.memory_sources s where s.user_id = (select throughline.uid()))::bigint as sources,
       (select count(*) from public.memory_revisions r where r.user_id = (select throughline.uid()))::bigint as revisions,
       (select count(*) from public.memory_entities e where e.user_id = (select throughline.uid()))::bigint as entities,
       (select count(*) from public.memory_relationships r where r.user_id = (select throughline.uid()))::bigint as relationships;

-- name: CountOwnMemories :one
select count(*) as memories from public.memories m where m.user_id = (select throughline.uid());

-- name: SkipUnread :exec
-- The messages not read yet are skipped, in all chats of the user.
select throughline.skip_extraction(unread.id)::uuid as extraction
  from (select c.id from public.chats c join public.conversation_briefs b on b.chat_id = c.id
         where c.user_id = (select throughline.uid()) and c.last_seq > b.extracted_seq order by c.id) unread;

-- name: DeleteMemories :exec
delete from public.memories m where m.user_id = (select throughline.uid());

-- name: ReadMemorySettings :one
-- row: api.MemorySettings
select enabled, time_zone, language, excluded from public.memory_users where user_id = (select throughline.uid());

-- name: ChangeMemorySettings :execrows
insert into public.memory_users as u (user_id, enabled, time_zone, language, excluded)
values (throughline.uid(), coalesce(sqlc.narg(enabled)::boolean, true), sqlc.narg(time_zone)::text, sqlc.narg(language)::text,
  coalesce(sqlc.narg(excluded)::text[], '{}'))
on conflict (user_id) do update
   set enabled = coalesce(sqlc.narg(enabled)::boolean, u.enabled),
       time_zone = case when sqlc.arg(set_time_zone)::boolean then sqlc.narg(time_zone)::text else u.time_zone end,
       language = case when sqlc.arg(set_language)::boolean then sqlc.narg(language)::text else u.language end,
       excluded = coalesce(sqlc.narg(excluded)::text[], u.excluded);

-- name: ExportMemories :many
-- row: bundle.Memory
-- The oldest first. With a chat, the memories said there, up to a message, with their sources there. An account also holds
-- how they were used, and their history.
select m.id, m.content, m.memory_type, m.confidence, m.durable, m.pinned, m.status, m.edited, m.origin, m.version, m.lang, m.valid_from, m.valid_to,
       m.valid_precision, m.recorded_at, m.retracted_at, m.superseded_by, m.conflicts_with, m.created_at, m.updated_at,
       coalesce((select jsonb_agg(jsonb_build_object('message_id', s.message_id, 'chat_id', s.chat_id, 'seq', s.seq, 'fact', s.fact, 'quote', s.quote,
         'said_at', s.said_at)
                          order by s.said_at, s.chat_id, s.seq)
                   from public.memory_sources s
                  where s.user_id = m.user_id and s.memory_id = m.id
                    and (sqlc.narg(chat_id)::uuid is null or s.chat_id = sqlc.narg(chat_id)::uuid and s.seq <= sqlc.arg(last_seq)::bigint)),
                      '[]')::jsonb as sources,
       case when sqlc.arg(of_account)::bool then m.last_accessed end as last_accessed,
       case when sqlc.arg(of_account)::bool then m.access_count else 0 end as access_count,
       case when sqlc.arg(of_account)::bool then
         (select jsonb_agg(jsonb_build_object('version', r.version, 'action', r.action, 'content', r.content, 'reason', coalesce(r.reason, ''),
                                              'actor', r.actor, 'created_at', r.created_at) order by r.version)
            from public.memory_revisions r where r.user_id = m.user_id and r.memory_id = m.id) end as history
  from public.memories m
 where m.user_id = (select throughline.uid())
   and (sqlc.narg(after_created_at)::timestamptz is null or (m.created_at, m.id) > (sqlc.narg(after_created_at)::timestamptz, sqlc.arg(after_id)::uuid))
   and (sqlc.narg(chat_id)::uuid is null
        or exists (select from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id and s.chat_id = sqlc.narg(chat_id)::uuid
          and s.seq <= sqlc.arg(last_seq)::bigint))
 order by m.created_at, m.id
 limit sqlc.arg(most)::int;

-- name: KeepMemories :exec
-- A chat's memories are the user's own from now on.
select throughline.keep_memories(sqlc.arg(chat_id)::uuid)::bigint;
