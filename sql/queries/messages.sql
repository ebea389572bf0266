-- name: FindEarlierTurn :many
-- The message that the client sent before with the same id, and the latest reply to it. At most one row.
select u.id, u.chat_id, u.content, coalesce(a.id, '00000000-0000-0000-0000-000000000000')::uuid as reply_id
  from public.messages u
  left join lateral (select m.id from public.messages m
                      where m.chat_id = u.chat_id and m.seq > u.seq and m.reply_to = u.id
                      order by m.seq desc limit 1) a on true
 where u.user_id = sqlc.arg(user_id) and u.client_message_id = sqlc.narg(client_message_id);

-- name: ReleaseAbandonedReplies :exec
-- A reply whose server died must not block its chat until the sweep comes by.
update public.messages
   set status = 'interrupted', lease_until = null
 where chat_id = sqlc.arg(chat_id) and status = 'streaming' and lease_until < now();

-- name: FindRunningReply :many
select id from public.messages where chat_id = sqlc.arg(chat_id) and status = 'streaming';

-- name: InsertUserMessage :execrows
-- Only when nothing stands in the way: the chat is the user's, no reply is running, the message is new.
insert into public.messages (id, chat_id, user_id, role, content, token_count, metadata, client_message_id)
select sqlc.arg(id)::uuid, c.id, c.user_id, 'user', sqlc.arg(content)::text, sqlc.arg(token_count)::int, sqlc.arg(metadata)::jsonb, sqlc.narg(client_message_id)::uuid
  from public.chats c
 where c.id = sqlc.arg(chat_id)
   and not exists (select from public.messages m where m.chat_id = c.id and m.status = 'streaming')
   and not exists (select from public.messages m
                    where m.user_id = c.user_id and m.client_message_id = sqlc.narg(client_message_id));

-- name: InsertReply :execrows
-- Only after InsertUserMessage did insert.
insert into public.messages (id, chat_id, user_id, role, status, reply_to, token_count, metadata, lease_until)
select sqlc.arg(id)::uuid, u.chat_id, u.user_id, 'assistant', 'streaming', u.id, 0, sqlc.arg(metadata)::jsonb,
       now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
  from public.messages u
 where u.id = sqlc.arg(user_message_id);

-- name: ReadBuffer :many
-- The newest messages after the brief, newest first; one index range whatever the chat's length. The place of
-- the brief is a subquery, because as a join it would be looked at only after each message of the chat was read.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.seq, m.role, m.status, m.content, m.token_count, m.created_at
  from public.messages m
 where m.chat_id = sqlc.arg(chat_id)
   and m.seq > (select b.covered_seq from public.conversation_briefs b where b.chat_id = sqlc.arg(chat_id))
   and m.id not in (sqlc.arg(user_message_id), sqlc.arg(message_id))
 order by m.seq desc
 limit sqlc.arg(max_rows)::int;

-- name: SaveReply :execrows
-- Also over a status that the sweep set meanwhile: the server that generates has the last word. And over
-- the same one, because a save is tried again when nobody knows whether it was committed.
update public.messages
   set content = sqlc.arg(content), status = sqlc.arg(status), token_count = sqlc.arg(token_count),
       metadata = metadata || sqlc.arg(metadata)::jsonb, lease_until = null
 where id = sqlc.arg(id) and status in ('streaming', 'interrupted', sqlc.arg(status));

-- name: FindReply :many
-- One reply of a chat, or its latest. At most one row. The coalesce is within a select of its own, because
-- under row level security Postgres would not look for a bare one in an index.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.status, m.content, m.metadata
  from public.messages m
 where m.id = (select coalesce(sqlc.narg(message_id)::uuid, (
         select l.id from public.messages l where l.chat_id = sqlc.arg(chat_id) and l.role = 'assistant' order by l.seq desc limit 1)))
   and m.chat_id = sqlc.arg(chat_id) and m.role = 'assistant';

-- name: RequestCancel :exec
update public.messages set cancel_requested = true
 where id = sqlc.arg(message_id) and status = 'streaming';

-- name: RenewLeases :many
-- For all users at once, so as the server itself. Returns what somebody asked to stop.
with renewed as (
  update public.messages
     set lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
   where id = any(sqlc.arg(message_ids)::uuid[]) and status = 'streaming'
  returning id, cancel_requested)
select id from renewed where cancel_requested;

-- name: InterruptAbandonedReplies :many
-- Replies whose server was not heard of for longer than its lease. As the server itself.
with abandoned as (
  select m.id from public.messages m
   where m.status = 'streaming' and m.lease_until < now()
   limit 1000 for update skip locked)
update public.messages m
   set status = 'interrupted', lease_until = null
  from abandoned
 where m.id = abandoned.id
returning m.id, m.chat_id;

-- name: ReadRange :many
-- Messages of a chat after one seq and up to another, oldest first.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.seq, m.role, m.status, m.content, m.token_count, m.created_at
  from public.messages m
 where m.chat_id = sqlc.arg(chat_id) and m.seq > sqlc.arg(after_seq) and m.seq <= sqlc.arg(up_to_seq)
 order by m.seq
 limit sqlc.arg(max_rows)::int;
