-- Export and import of whole chats, as the user.

-- name: ExportChat :many
-- At most one row.
select id, title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, tool_name, nullif(remember, true) as remember, nullif(topics, 'auto') as topics, created_at, updated_at,
       last_message_at, last_seq, expires_at, (coalesce(expires_at <= now(), false))::bool as expired
  from public.chats
 where id = sqlc.arg(chat_id);

-- name: ChatExists :one
-- Asked with each page, because the page of a deleted chat is empty as well.
select exists (select from public.chats where id = sqlc.arg(chat_id));

-- name: ExportMessages :many
-- A page ends after max_rows rows, or with the row that reaches max_bytes. Sizes are read from the rows'
-- headers, without reading text beyond the page.
select m.id, m.chat_id, m.seq, m.role, m.content, m.status, m.reply_to, m.superseded_by, m.token_count, m.pinned, m.importance,
       m.rating, m.tool_calls, m.tool_call_id, m.name, m.tool_name, m.metadata,
       coalesce((select jsonb_agg(jsonb_build_object('path', f.path, 'sha256', encode(f.sha256, 'hex')) order by f.place)
                   from public.message_files f where f.message_id = m.id), '[]')::jsonb as files,
       m.created_at, m.updated_at
  from public.messages m
  join (select s.id, sum(octet_length(s.content)) over (order by s.seq) - octet_length(s.content) as before
          from (select p.id, p.seq, p.content from public.messages p
                 where p.chat_id = sqlc.arg(chat_id) and p.seq > sqlc.arg(after_seq) and p.seq <= sqlc.arg(last_seq) and p.status <> 'streaming'
                 order by p.seq limit sqlc.arg(max_rows)::int) s) page on page.id = m.id
 where page.before < sqlc.arg(max_bytes)::bigint
 order by m.seq;

-- name: ExportFiles :many
-- The contents of the exported messages, in the order of their hashes.
select f.sha256, f.content
  from public.chat_files f
 where f.chat_id = sqlc.arg(chat_id) and f.sha256 > sqlc.arg(after_sha256)::bytea
   and exists (select from public.message_files b
                 join public.messages m on m.id = b.message_id
                where b.chat_id = f.chat_id and b.sha256 = f.sha256 and m.seq <= sqlc.arg(last_seq) and m.status <> 'streaming')
 order by f.sha256
 limit sqlc.arg(max_rows)::int;

-- name: ExportFile :many
select content from public.chat_files where chat_id = sqlc.arg(chat_id) and sha256 = sqlc.arg(sha256);

-- name: ExportRevisions :many
select version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens, prompt_mode, prompt_ref, model,
       duration_ms, input_sha256, details, created_at
  from public.conversation_brief_revisions
 where chat_id = sqlc.arg(chat_id) and version > sqlc.arg(after_version)
 order by version
 limit sqlc.arg(max_rows)::int;

-- name: BeginQuietly :exec
-- The messages of the transaction are not announced. Its statements and the checks of its foreign keys are planned
-- anew each time: a plan that was made for an almost empty table would read all of what the import has written.
select set_config('throughline.quiet', 'on', true), set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: FindImported :many
-- The exported chat itself, or an earlier import of it. At most one row. The coalesce is in a subselect as in
-- FindReply.
select c.id from public.chats c
 where c.id = (select coalesce((select o.id from public.chats o where o.id = sqlc.arg(original)::uuid), sqlc.arg(id)::uuid));

-- name: InsertImportedChat :execrows
-- No row: another import of the same file was faster; this waits until that one ends. revived_at is now,
-- because by the dates of its messages a chat with ttl_hours would be expired.
insert into public.chats (id, user_id, title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, tool_name, remember, topics, created_at, revived_at)
values (sqlc.arg(id), sqlc.arg(user_id), sqlc.arg(title), sqlc.narg(system_prompt), sqlc.arg(metadata), sqlc.arg(tags)::text[], sqlc.arg(memory_strategy),
        sqlc.narg(ttl_hours)::int, sqlc.narg(max_turns), sqlc.narg(tool_name), coalesce(sqlc.narg(remember)::boolean, true), coalesce(sqlc.narg(topics)::text, 'auto'),
        sqlc.arg(created_at),
        case when sqlc.narg(ttl_hours)::int is not null then now() end)
on conflict (id) do nothing;

-- name: InsertImportedFiles :exec
insert into public.chat_files (chat_id, user_id, sha256, content, token_count)
select sqlc.arg(chat_id)::uuid, sqlc.arg(user_id)::uuid, decode(f.sha256, 'hex'), f.content, f.tokens
  from (select unnest(sqlc.arg(sha256s)::text[]) as sha256, unnest(sqlc.arg(contents)::text[]) as content,
               unnest(sqlc.arg(tokens)::int[]) as tokens) f;

-- name: InsertImportedMessages :exec
-- In the order of places, in which the trigger assigns seq.
insert into public.messages (id, chat_id, user_id, role, content, status, reply_to, superseded_by, token_count, pinned, importance, rating,
                             tool_calls, tool_call_id, name, tool_name, metadata, created_at, updated_at)
select m.id, sqlc.arg(chat_id)::uuid, sqlc.arg(user_id)::uuid, m.role, m.content, m.status, m.reply_to, m.superseded_by, m.tokens, m.pinned,
       m.importance, m.rating, m.tool_calls::jsonb, m.tool_call_id, m.name, m.tool_name, m.metadata::jsonb, m.created_at, m.updated_at
  from (select unnest(sqlc.arg(ids)::uuid[]) as id, unnest(sqlc.arg(places)::int[]) as place, unnest(sqlc.arg(roles)::text[]) as role,
               unnest(sqlc.arg(contents)::text[]) as content, unnest(sqlc.arg(statuses)::text[]) as status,
               unnest(sqlc.arg(reply_tos)::uuid[]) as reply_to, unnest(sqlc.arg(superseded_bys)::uuid[]) as superseded_by,
               unnest(sqlc.arg(tokens)::int[]) as tokens, unnest(sqlc.arg(pinned)::bool[]) as pinned,
               unnest(sqlc.arg(importances)::real[]) as importance, unnest(sqlc.arg(ratings)::smallint[]) as rating, unnest(sqlc.arg(tool_calls)::text[]) as tool_calls,
               unnest(sqlc.arg(tool_call_ids)::text[]) as tool_call_id, unnest(sqlc.arg(names)::text[]) as name,
               unnest(sqlc.arg(tool_names)::text[]) as tool_name, unnest(sqlc.arg(metadatas)::text[]) as metadata,
               unnest(sqlc.arg(created_ats)::timestamptz[]) as created_at, unnest(sqlc.arg(updated_ats)::timestamptz[]) as updated_at) m
 order by m.place;

-- name: InsertImportedMessageFiles :exec
insert into public.message_files (message_id, place, chat_id, user_id, path, sha256)
select f.message_id, f.place, sqlc.arg(chat_id)::uuid, sqlc.arg(user_id)::uuid, f.path, decode(f.sha256, 'hex')
  from (select unnest(sqlc.arg(message_ids)::uuid[]) as message_id, unnest(sqlc.arg(places)::int[]) as place,
               unnest(sqlc.arg(paths)::text[]) as path, unnest(sqlc.arg(sha256s)::text[]) as sha256) f;
