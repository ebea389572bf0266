-- name: LockChat :one
-- row: ChatStateRow + system_prompt, memory_strategy, max_turns, tool_name, turn_count, has_files, has_kept
-- Waits for other writers of messages to the chat. Not "for update": a job of the chat holds a shared lock on it, and
-- is not to be waited for.
select id, system_prompt, memory_strategy, max_turns, tool_name, turn_count, expires_at, coalesce(expires_at <= now(), false)::bool as expired,
       exists (select from public.message_files f where f.chat_id = sqlc.arg(chat_id)) as has_files,
       exists (select from public.messages m where m.chat_id = sqlc.arg(chat_id) and (m.pinned or m.importance >= 0.8)) as has_kept
  from public.chats where id = sqlc.arg(chat_id) for no key update;

-- name: InsertChat :execrows
-- Inserts nothing if the client sent this message before, because it started a chat then, or if the chat exists because the
-- connection broke after an earlier attempt, or another import of the same file was faster: this waits until that one ends.
-- An imported chat has a created_at. Its revived_at is now, because by the dates of its messages it would be expired.
insert into public.chats (id, user_id, title, system_prompt, metadata, tags, memory_strategy, tool_name, ttl_hours, max_turns, remember, topics, recall,
                          title_seq, created_at, revived_at)
select sqlc.arg(id)::uuid, sqlc.arg(user_id)::uuid, sqlc.arg(title)::text, sqlc.narg(system_prompt)::text, coalesce(sqlc.narg(metadata)::jsonb, '{}'),
       coalesce(sqlc.narg(tags)::text[], '{}'), coalesce(sqlc.narg(memory_strategy)::text, 'summary'), sqlc.narg(tool_name)::text,
       sqlc.narg(ttl_hours)::int, sqlc.narg(max_turns)::int, coalesce(sqlc.narg(remember)::boolean, true), coalesce(sqlc.narg(topics)::text, 'auto'),
       coalesce(sqlc.narg(recall)::text, 'all'), sqlc.narg(title_seq)::bigint, coalesce(sqlc.narg(created_at)::timestamptz, now()),
       case when sqlc.narg(created_at)::timestamptz is not null and sqlc.narg(ttl_hours)::int is not null then now() end
 where not exists (select from public.messages m
                    where m.user_id = sqlc.arg(user_id) and m.client_message_id = sqlc.narg(client_message_id))
on conflict (id) do nothing;

-- name: ReadChatContext :one
-- row: LockChatRow + created_at, last_message_at, message_count, tools_used
-- A chat without its messages. At most one row.
select c.id, c.system_prompt, c.memory_strategy, c.max_turns, c.turn_count, c.tool_name, c.created_at, c.last_message_at, c.message_count,
       c.expires_at, coalesce(c.expires_at <= now(), false)::bool as expired,
       exists (select from public.message_files f where f.chat_id = sqlc.arg(chat_id)) as has_files,
       exists (select from public.messages m where m.chat_id = sqlc.arg(chat_id) and (m.pinned or m.importance >= 0.8)) as has_kept,
       array(select distinct m.tool_name from public.messages m where m.chat_id = c.id and m.tool_name is not null order by 1)::text[] as tools_used
  from public.chats c where c.id = sqlc.arg(chat_id);
