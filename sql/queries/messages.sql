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
 where chat_id = sqlc.arg(chat_id) and status = 'streaming' and coalesce(lease_until, updated_at + interval '1 minute') < now();

-- name: FindRunningReply :many
select id from public.messages where chat_id = sqlc.arg(chat_id) and status = 'streaming';

-- name: InsertTurn :execrows
-- The message and the reply to come, both or neither: only when the chat is the user's, no reply is running
-- and the message is new. One statement, so that the triggers of a statement run once.
insert into public.messages (id, chat_id, user_id, role, content, status, reply_to, token_count, metadata, client_message_id, lease_until)
select new.id, c.id, c.user_id, new.role, new.content, new.status, new.reply_to, new.token_count, new.metadata, new.client_message_id, new.lease_until
  from public.chats c
 cross join (values
   (1, sqlc.arg(user_message_id)::uuid, 'user', sqlc.arg(content)::text, 'complete', null::uuid, sqlc.arg(token_count)::int,
    sqlc.arg(metadata)::jsonb, sqlc.narg(client_message_id)::uuid, null::timestamptz),
   (2, sqlc.arg(message_id)::uuid, 'assistant', '', 'streaming', sqlc.arg(user_message_id)::uuid, 0,
    sqlc.arg(reply_metadata)::jsonb, null, now() + make_interval(secs => sqlc.arg(lease_seconds)::float8))
 ) as new (place, id, role, content, status, reply_to, token_count, metadata, client_message_id, lease_until)
 where c.id = sqlc.arg(chat_id)
   and not exists (select from public.messages m where m.chat_id = c.id and m.status = 'streaming')
   and not exists (select from public.messages m
                    where m.user_id = c.user_id and m.client_message_id = sqlc.narg(client_message_id))
 order by new.place;

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
-- Replies whose server was not heard of for longer than its lease, and those that were never anybody's (SQL
-- by hand) after a minute. As the server itself.
with abandoned as (
  select m.id from public.messages m
   where m.status = 'streaming' and coalesce(m.lease_until, m.updated_at + interval '1 minute') < now()
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
