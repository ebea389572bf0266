-- name: LockChat :one
-- Whoever adds a message to a chat waits here for whoever does so already. Not "for update": a revision's
-- foreign key locks the chat as well, and whoever writes one holds the brief that we want next.
select id, system_prompt, memory_strategy, max_turns, turn_count, expires_at, coalesce(expires_at <= now(), false)::bool as expired,
       exists (select from public.message_files f where f.chat_id = sqlc.arg(chat_id)) as has_files
  from public.chats where id = sqlc.arg(chat_id) for no key update;

-- name: InsertChat :exec
-- Does nothing when the client sent this message before: the chat it started then is the chat. Nor when it is
-- the second try of a request whose connection broke after the first.
insert into public.chats (id, user_id, title, tool_name, ttl_hours, max_turns)
select sqlc.arg(id)::uuid, sqlc.arg(user_id)::uuid, sqlc.arg(title)::text, sqlc.narg(tool_name)::text, sqlc.narg(ttl_hours)::int, sqlc.narg(max_turns)::int
 where not exists (select from public.messages m
                    where m.user_id = sqlc.arg(user_id) and m.client_message_id = sqlc.narg(client_message_id))
on conflict (id) do nothing;

-- name: ReadChatContext :many
-- What is known of a chat beside its messages. At most one row.
select c.id, c.system_prompt, c.memory_strategy, c.max_turns, c.turn_count, c.tool_name, c.created_at, c.last_message_at, c.message_count,
       c.expires_at, coalesce(c.expires_at <= now(), false)::bool as expired,
       exists (select from public.message_files f where f.chat_id = sqlc.arg(chat_id)) as has_files,
       array(select distinct m.tool_name from public.messages m where m.chat_id = c.id and m.tool_name is not null order by 1)::text[] as tools_used
  from public.chats c where c.id = sqlc.arg(chat_id);
