-- Export and import of whole chats, as the user.

-- name: ExportChat :one
-- row: bundle.Chat + last_seq, expires_at, expired, edits
select id, title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, tool_name, nullif(remember, true) as remember,
  nullif(topics, 'auto') as topics, nullif(recall, 'all') as recall,
       (case when title_seq > 0 then 'model' when title_seq = 0 then 'first_message' else '' end)::text as titled_by, created_at, updated_at,
       last_message_at, last_seq, expires_at, (coalesce(expires_at <= now(), false))::bool as expired,
       coalesce((select b.edit_count from public.conversation_briefs b where b.chat_id = chats.id), 0)::bigint as edits
  from public.chats
 where id = sqlc.arg(chat_id);

-- name: ChatExists :one
select exists (select from public.chats where id = sqlc.arg(chat_id));

-- name: ExportedEdits :one
-- Asked with each page: that of a deleted chat is empty as well, and pages from before and after an edit do not fit together.
select coalesce((select b.edit_count from public.conversation_briefs b where b.chat_id = c.id), 0)::bigint
  from public.chats c where c.id = sqlc.arg(chat_id);

-- name: ExportMessages :many
-- row: bundle.Message
-- A page ends after max_rows rows, or with the row that reaches max_bytes. Sizes are read from the rows'
-- headers, without reading text beyond the page; that of parts is the compressed one, of which about four times is written.
-- A reply that waits for its user is as it will be if the conversation goes on without.
select m.id, m.chat_id, m.seq, m.role, m.content, case m.status when 'awaiting' then 'cancelled' else m.status end as status, m.reply_to, m.parent_id,
       m.moved_from, m.superseded_by, m.token_count, m.pinned, m.importance, m.rating, m.tool_calls,
       case m.status when 'awaiting' then throughline.close_parts(m.parts, m.content, 'skipped') else m.parts end as parts,
       m.tool_call_id, m.name, m.tool_name, m.metadata,
       coalesce((select jsonb_agg(jsonb_build_object('path', f.path, 'sha256', encode(f.sha256, 'hex')) order by f.place)
                   from public.message_files f where f.message_id = m.id), '[]')::jsonb as files, m.created_at, m.updated_at
  from public.messages m
  join (select s.id, sum(s.bytes) over (order by s.seq) - s.bytes as before
          from (select p.id, p.seq, octet_length(p.content) + 4 * coalesce(pg_column_size(p.parts), 0) as bytes from public.messages p
                 where p.chat_id = sqlc.arg(chat_id) and p.seq > sqlc.arg(after_seq) and p.seq <= sqlc.arg(last_seq) and p.status <> 'streaming'
                 order by p.seq limit sqlc.arg(max_rows)::int) s) page on page.id = m.id
 where page.before < sqlc.arg(max_bytes)::bigint
 order by m.seq;

-- name: ExportFiles :many
-- row: bundle.File
-- The contents of the exported messages, in the order of their hashes.
select encode(f.sha256, 'hex') as sha256, f.content
  from public.chat_files f
 where f.chat_id = sqlc.arg(chat_id) and f.sha256 > sqlc.arg(after_sha256)::bytea
   and exists (select from public.message_files b
                 join public.messages m on m.id = b.message_id
                where b.chat_id = f.chat_id and b.sha256 = f.sha256 and m.seq <= sqlc.arg(last_seq) and m.status <> 'streaming')
 order by f.sha256
 limit sqlc.arg(max_rows)::int;

-- name: ExportFile :one
-- row: bundle.File
select encode(f.sha256, 'hex') as sha256, f.content from public.chat_files f where f.chat_id = sqlc.arg(chat_id) and f.sha256 = sqlc.arg(sha256);

-- name: ExportTopics :many
-- row: bundle.Topic + number
-- The topics after a number, and those of an imported chat that have no turn yet, which come last. A turn of an import that is
-- not assigned yet is in the topic that it will be in.
with given as (
  select (n.entry ->> 'topic_id')::uuid as topic_id, n.entry ->> 'title' as title, n.entry -> 'tags' as tags,
         coalesce((n.entry ->> 'importance')::real, 1) as importance, coalesce((n.entry ->> 'rated')::boolean, false) as rated,
           1000000 + n.place::int as number,
         array(select m.id from jsonb_array_elements_text(n.entry -> 'turns') t (seq)
                 join public.messages m on m.chat_id = b.chat_id and m.seq = t.seq::bigint
                where m.seq <= sqlc.arg(last_seq)::bigint and m.status <> 'streaming'
                  and not exists (select from public.turn_index i where i.chat_id = m.chat_id and i.seq = m.seq and i.topic_id is not null)
                order by m.seq) as turns
    from public.conversation_briefs b
   cross join lateral jsonb_array_elements(b.imported_topics) with ordinality n (entry, place)
   where b.chat_id = sqlc.arg(chat_id)),
own as (
  select t.id, t.title, t.title_seq is null as renamed, t.summary, t.tags, t.importance, t.importance_rated, t.state, t.created_at, t.last_active_at,
         array(select m.id from public.turn_index i join public.messages m on m.chat_id = i.chat_id and m.seq = i.seq
                where i.chat_id = t.chat_id and i.topic_id = t.id and i.seq <= sqlc.arg(last_seq)::bigint and m.status <> 'streaming' order by i.seq)
           || coalesce((select g.turns from given g where g.topic_id = t.id), '{}') as turns,
         t.number
    from public.topics t
   where t.chat_id = sqlc.arg(chat_id) and t.state <> 'merged'
  union all
  select md5(b.chat_id::text || g.number)::uuid, coalesce(g.title, ''), g.title is not null, null,
         coalesce(array(select jsonb_array_elements_text(g.tags)), '{}'), g.importance, g.rated, 'active', b.updated_at, b.updated_at, g.turns, g.number
    from given g join public.conversation_briefs b on b.chat_id = sqlc.arg(chat_id)
   where g.topic_id is null and cardinality(g.turns) > 0)
select o.id, o.title, o.renamed, o.summary, o.tags, o.importance::float8 as importance, o.importance_rated as rated, o.state, o.created_at, o.last_active_at,
  o.turns::uuid[] as turns, o.number
  from own o
 where o.number > sqlc.arg(after_number)::int
 order by o.number
 limit sqlc.arg(max_rows)::int;

-- name: ExportRevisions :many
-- row: bundle.Revision
select r.version, r.kind, r.seq_from, r.seq_to, r.turns, r.global_summary, r.undone_by, r.input_tokens, r.output_tokens,
       r.prompt_mode, r.prompt_ref, r.model, r.duration_ms, r.input_sha256, r.details, r.created_at
  from public.conversation_brief_revisions r
 where r.chat_id = sqlc.arg(chat_id) and r.version > sqlc.arg(after_version)
 order by r.version
 limit sqlc.arg(max_rows)::int;

-- name: ExportAccount :one
-- row: bundle.Account
select me.id, nullif(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email', '') as email,
       jsonb_build_object('enabled', coalesce(u.enabled, true), 'time_zone', u.time_zone, 'language', u.language,
                          'excluded', coalesce(u.excluded, '{}')) as settings,
       jsonb_build_object('chats', (select count(*) from public.chats c where c.user_id = (select throughline.uid())),
         'messages', (select count(*) from public.messages m where m.user_id = (select throughline.uid()) and m.status <> 'streaming'),
         'memories', (select count(*) from public.memories m where m.user_id = (select throughline.uid()))) as counts
  from (select throughline.uid() as id) me left join public.memory_users u on u.user_id = me.id;

-- name: ExportChats :many
-- row: bundle.Chat + last_seq
-- All chats of the user, expired ones too, the oldest first.
select id, title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, tool_name, nullif(remember, true) as remember,
  nullif(topics, 'auto') as topics, nullif(recall, 'all') as recall,
       (case when title_seq > 0 then 'model' when title_seq = 0 then 'first_message' else '' end)::text as titled_by, created_at, updated_at,
       last_message_at, last_seq
  from public.chats
 where user_id = (select throughline.uid())
   and (sqlc.narg(after_created_at)::timestamptz is null or (created_at, id) > (sqlc.narg(after_created_at)::timestamptz, sqlc.arg(after_id)::uuid))
 order by created_at, id
 limit sqlc.arg(max_rows)::int;

-- name: ExportEntities :many
-- row: bundle.Entity
select id, name, entity_type as kind, aliases, mentions
  from public.memory_entities
 where user_id = (select throughline.uid()) and id > sqlc.arg(after_id)::uuid
 order by id limit sqlc.arg(max_rows)::int;

-- name: ExportRelationships :many
-- row: bundle.Relationship
select r.id, s.name as source, r.relationship, t.name as target, r.valid_from, r.valid_to, r.recorded_at, r.memory_id
  from public.memory_relationships r
  join public.memory_entities s on s.user_id = r.user_id and s.id = r.source_entity_id
  join public.memory_entities t on t.user_id = r.user_id and t.id = r.target_entity_id
 where r.user_id = (select throughline.uid()) and r.id > sqlc.arg(after_id)::uuid
 order by r.id limit sqlc.arg(max_rows)::int;

-- name: ExportStands :many
-- What a deletion or an edit would change: the chats of the user with their edits.
select c.id, coalesce(b.edit_count, 0)::bigint as edits
  from public.chats c left join public.conversation_briefs b on b.chat_id = c.id
 where c.user_id = (select throughline.uid());

-- name: ExportStillStands :one
-- Whether all of that, and the memories, are still there.
select (not exists (
          select from (select unnest(sqlc.arg(chat_ids)::uuid[]) as id, unnest(sqlc.arg(edits)::bigint[]) as edits) s
            left join public.chats c on c.id = s.id left join public.conversation_briefs b on b.chat_id = s.id
           where c.id is null or coalesce(b.edit_count, 0) <> s.edits)
    and (select count(*) from public.memories m where m.user_id = (select throughline.uid()) and m.id = any (sqlc.arg(memory_ids)::uuid[]))
        = cardinality(sqlc.arg(memory_ids)::uuid[]))::bool;

-- name: ImportSettings :exec
-- What the user has chosen stays.
insert into public.memory_users as u (user_id, enabled, time_zone, language, excluded)
values (throughline.uid(), sqlc.arg(enabled), sqlc.narg(time_zone), sqlc.narg(language), sqlc.arg(excluded)::text[])
on conflict (user_id) do update
   set time_zone = coalesce(u.time_zone, excluded.time_zone), language = coalesce(u.language, excluded.language),
       excluded = case when u.excluded = '{}' then excluded.excluded else u.excluded end;

-- name: InsertImportedTopics :exec
-- For the job that assigns topics. Rows are objects as in a file; turns are the new ids of messages.
update public.conversation_briefs b
   set imported_topics = (
     select jsonb_agg(jsonb_build_object('topic_id', null, 'title', case when (n.entry ->> 'renamed')::bool then n.entry -> 'title' end,
                                         'tags', n.entry -> 'tags', 'importance', n.entry -> 'importance',
                                         'rated', n.entry -> 'importance_rated', 'turns', turns.seqs) order by n.place)
       from jsonb_array_elements(sqlc.arg(new_rows)::jsonb) with ordinality n (entry, place)
      cross join lateral (
        select jsonb_agg(m.seq order by m.seq) as seqs from jsonb_array_elements_text(nullif(n.entry -> 'turns', 'null')) t (id)
          join public.messages m on m.id = t.id::uuid and m.chat_id = b.chat_id) turns
      where turns.seqs is not null)
 where b.chat_id = sqlc.arg(chat_id);

-- name: SkipExtraction :exec
select throughline.skip_extraction(sqlc.arg(chat_id)::uuid);

-- name: BeginQuietly :exec
-- The messages of the transaction are not announced. Its statements and the checks of its foreign keys are planned
-- again each time: a plan that was made for an almost empty table would read all rows that the import has written.
select set_config('throughline.quiet', 'on', true), set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: FindImported :many
-- The exported chat itself, or an earlier import of it. The coalesce is in a subselect as in FindReply.
select c.id from public.chats c
 where c.id = (select coalesce((select o.id from public.chats o where o.id = sqlc.arg(original)::uuid), sqlc.arg(id)::uuid));

-- name: ImportSystemPrompt :exec
update public.chats c set system_prompt = sqlc.arg(content)::text where c.id = sqlc.arg(chat_id)::uuid;

-- name: InsertImportedFiles :exec
insert into public.chat_files (chat_id, user_id, sha256, content, token_count)
select sqlc.arg(chat_id)::uuid, sqlc.arg(user_id)::uuid, decode(f.sha256, 'hex'), f.content, f.tokens
  from (select unnest(sqlc.arg(sha256s)::text[]) as sha256, unnest(sqlc.arg(contents)::text[]) as content,
               unnest(sqlc.arg(tokens)::int[]) as tokens) f;

-- name: InsertImportedMessages :exec
-- Rows are objects as in a file, with their new ids. They are inserted in their order, in which the trigger assigns seq and the
-- parents of those on the path.
insert into public.messages (id, chat_id, user_id, role, content, status, reply_to, parent_id, moved_from, superseded_by, token_count, pinned, importance,
                             rating, tool_calls, parts, tool_call_id, name, tool_name, metadata, created_at, updated_at)
select (n.m ->> 'id')::uuid, sqlc.arg(chat_id)::uuid, sqlc.arg(user_id)::uuid, n.m ->> 'role', n.m ->> 'content', n.m ->> 'status',
       (n.m ->> 'reply_to')::uuid, (n.m ->> 'parent_id')::uuid, (n.m ->> 'moved_from')::uuid, (n.m ->> 'superseded_by')::uuid,
       (n.m ->> 'token_count')::int, (n.m ->> 'pinned')::bool, (n.m ->> 'importance')::real, (n.m ->> 'rating')::smallint,
       nullif(n.m -> 'tool_calls', 'null'), n.m -> 'parts', n.m ->> 'tool_call_id', n.m ->> 'name', n.m ->> 'tool_name', n.m -> 'metadata',
       (n.m ->> 'created_at')::timestamptz, (n.m ->> 'updated_at')::timestamptz
  from jsonb_array_elements(sqlc.arg(new_rows)::jsonb) with ordinality n (m, place)
 order by n.place;

-- name: InsertImportedMessageFiles :exec
insert into public.message_files (message_id, place, chat_id, user_id, path, sha256)
select f.message_id, f.place, sqlc.arg(chat_id)::uuid, sqlc.arg(user_id)::uuid, f.path, decode(f.sha256, 'hex')
  from (select unnest(sqlc.arg(message_ids)::uuid[]) as message_id, unnest(sqlc.arg(places)::int[]) as place,
               unnest(sqlc.arg(paths)::text[]) as path, unnest(sqlc.arg(sha256s)::text[]) as sha256) f;
