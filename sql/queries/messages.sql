-- name: FindEarlierTurn :one
-- What the client already sent with the same id: a message of the user, with its files and the reply to it on the path, or else the
-- latest; or a request for another reply, which has the id then. The path ends with the reply, unless more was said or cleared. One that
-- stopped after a step goes on in its row, unless a fold covers it.
select coalesce(u.id, '00000000-0000-0000-0000-000000000000')::uuid as id, e.chat_id, coalesce(u.content, '')::text as content,
       coalesce(u.seq, 0)::bigint as user_seq, (e.role = 'assistant')::bool as again, e.replaces,
       coalesce(a.id, '00000000-0000-0000-0000-000000000000')::uuid as reply_id,
       coalesce(a.status, '')::text as reply_status, coalesce(a.metadata ->> 'model_variant', '')::text as model_variant,
       coalesce(a.metadata ->> 'asked_variant', a.metadata ->> 'model_variant', '')::text as asked_variant, a.parts,
       (a.parts is not null and a.status in ('awaiting', 'failed', 'interrupted')
         and a.seq > (select greatest(b.covered_seq, b.cleared_seq) from public.conversation_briefs b where b.chat_id = e.chat_id)
         and exists (select from public.message_deltas d where d.message_id = a.id and d.start_char = -1))::bool as continues,
       coalesce(a.id = (select l.id from public.messages l where l.chat_id = e.chat_id and l.superseded_by is null order by l.seq desc limit 1)
         and a.seq > (select b.cleared_seq from public.conversation_briefs b where b.chat_id = e.chat_id), false)::bool as ends,
       array(select f.path from public.message_files f where f.message_id = u.id order by f.place)::text[] as paths,
       array(select f.sha256 from public.message_files f where f.message_id = u.id order by f.place)::bytea[] as hashes
  from public.messages e
  left join public.messages u on u.id = case e.role when 'assistant' then e.reply_to else e.id end
  left join lateral (select m.id, m.seq, m.status, m.metadata, m.parts from public.messages m
                      where m.chat_id = e.chat_id and m.seq >= e.seq and (m.reply_to = e.id or m.id = e.id and e.role = 'assistant')
                      order by m.superseded_by is null desc, m.seq desc limit 1) a on true
 where e.user_id = sqlc.arg(user_id) and e.client_message_id = sqlc.narg(client_message_id);

-- name: ReleaseAbandonedReplies :exec
-- Ends a chat's reply whose server died, without waiting for the sweep. See InterruptAbandonedReplies.
with abandoned as (
  select m.id, m.chat_id, throughline.recorded_after(m.id, char_length(m.content)) as said from public.messages m
   where m.chat_id = sqlc.arg(chat_id) and m.status = 'streaming' and throughline.is_abandoned(m.server_id, m.lease_until, m.updated_at)
     for update),
spent as (delete from public.message_deltas d using abandoned where d.message_id = abandoned.id and d.start_char >= 0),
due as (
  update public.conversation_briefs b
     set extract_due_at = now() + make_interval(secs => sqlc.narg(extract_delay_seconds)::float8)
    from abandoned join public.chats c on c.id = abandoned.chat_id
   where b.chat_id = abandoned.chat_id and b.extract_due_at is null and c.remember and sqlc.narg(extract_delay_seconds)::float8 is not null
     and exists (select from public.messages u where u.chat_id = b.chat_id and u.seq > b.extracted_seq and u.role = 'user' and u.token_count > 0))
update public.messages m
   set status = case when m.cancel_requested then 'cancelled' else 'interrupted' end, server_id = null, lease_until = null,
       content = m.content || abandoned.said
  from abandoned
 where m.id = abandoned.id;

-- name: FindOpenReply :one
-- One that runs, or waits for its user.
select id from public.messages where chat_id = sqlc.arg(chat_id) and status in ('streaming', 'awaiting');

-- name: FindRunningReply :one
select id from public.messages where chat_id = sqlc.arg(chat_id) and status = 'streaming';

-- name: InsertTurn :execrows
-- The message and its empty reply, both or neither: only if the chat is the user's and not expired (or
-- revived by this message), its system prompt is not too long, no reply is running and the message is new. In
-- one statement, so that the statement triggers run once. The lock is held already; asking for it finds no chat
-- that LockChat did not find, because a policy of the app's keeps its user from changing it. Duplicates among
-- messages are looked for once, before the rows are made; a policy adds the user. AdmitTurn has said which variant answers. The path
-- must end with last_message_id, where that is asked; an edit has superseded it before.
insert into public.messages (id, chat_id, user_id, role, content, status, reply_to, token_count, importance, metadata, client_message_id, tool_name,
  replaces, server_id, lease_until)
select new.id, c.id, c.user_id, new.role, new.content, new.status, new.reply_to, new.token_count, new.importance, new.metadata, new.client_message_id,
       new.tool_name, new.replaces, new.server_id, new.lease_until
  from public.chats c
 cross join (values
   (1, sqlc.arg(user_message_id)::uuid, 'user', sqlc.arg(content)::text, 'complete', null::uuid, sqlc.arg(token_count)::int,
    sqlc.narg(importance)::real, sqlc.arg(metadata)::jsonb, sqlc.narg(client_message_id)::uuid, sqlc.narg(tool_name)::text, sqlc.narg(replaces)::uuid,
    null::uuid, null::timestamptz),
   (2, sqlc.arg(message_id)::uuid, 'assistant', '', 'streaming', sqlc.arg(user_message_id)::uuid, 0, null,
    sqlc.arg(reply_metadata)::jsonb || case when sqlc.arg(reply_metadata)::jsonb ->> 'model_variant' <> current_setting('throughline.variant')
      then jsonb_build_object('model_variant', current_setting('throughline.variant'), 'asked_variant', sqlc.arg(reply_metadata)::jsonb ->> 'model_variant')
      else '{}' end, null, null, null, sqlc.arg(server_id)::uuid, now() + make_interval(secs => sqlc.arg(lease_seconds)::float8))
 ) as new (place, id, role, content, status, reply_to, token_count, importance, metadata, client_message_id, tool_name, replaces, server_id, lease_until)
 where c.id = sqlc.arg(chat_id)
   and (c.expires_at is null or c.expires_at > now() or sqlc.arg(revive)::bool)
   and octet_length(coalesce(c.system_prompt, '')) <= sqlc.arg(system_prompt_room)::int
   and not exists (select from public.messages m where m.chat_id = sqlc.arg(chat_id) and m.status = 'streaming')
   and not exists (select from public.messages m where m.client_message_id = sqlc.narg(client_message_id))
   and (not sqlc.arg(follows)::bool or sqlc.narg(last_message_id)::uuid is not distinct from (
     select m.id from public.messages m where m.chat_id = sqlc.arg(chat_id) and m.superseded_by is null order by m.seq desc limit 1))
   and (sqlc.narg(replaces)::uuid is null or exists (
     select from public.messages m where m.id = sqlc.narg(last_message_id)::uuid and m.superseded_by = sqlc.arg(user_message_id)))
 order by new.place
   for no key update of c;

-- name: ReadBuffer :many
-- row: memory.Message + name, tool_calls, parts
-- The newest messages of the path after the brief, newest first: all, or those that a prompt may show. One index range, however long the chat is.
-- A simple chat has no brief: its buffer begins where the context was cleared, which its counters do not know.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.seq, m.role, m.status,
       m.content, m.token_count as tokens, m.created_at,
       m.pinned, coalesce(m.importance, 0)::real as importance, m.name, m.tool_calls, m.parts,
       ''::text as time_zone
  from (select case when s.is_simple or b.pending_tokens > s.room
                    then throughline.shown_after(b.chat_id, s.begins_after, s.room, sqlc.arg(turns)::int,
                           array[sqlc.arg(user_message_id)::uuid, sqlc.arg(message_id)::uuid])
                    else s.begins_after end as begins_after
          from public.conversation_briefs b join public.chats c on c.id = b.chat_id
         cross join lateral (
               select c.memory_strategy = 'simple' as is_simple,
                      case when c.memory_strategy = 'simple' then b.cleared_seq else b.covered_seq end as begins_after,
                      case when c.tool_name is null then sqlc.arg(tokens)::int else sqlc.arg(thread_tokens)::int end as room) s
         where b.chat_id = sqlc.arg(chat_id)) buffer
 cross join lateral (
       select * from public.messages n
        where n.chat_id = sqlc.arg(chat_id) and n.seq > buffer.begins_after and n.superseded_by is null
          and n.id not in (sqlc.arg(user_message_id), sqlc.arg(message_id))
        order by n.seq desc limit sqlc.arg(max_rows)::int) m
 order by m.seq desc;

-- name: ReadKept :many
-- row: ReadBufferRow
-- The pinned and, for a hybrid chat, the important messages before its buffer and after its last clear, newest first. The
-- condition is literally that of messages_kept_idx, so that the index is used.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.seq, m.role, m.status,
       m.content, m.token_count as tokens, m.created_at,
       m.pinned, coalesce(m.importance, 0)::real as importance, m.name, m.tool_calls, m.parts,
       ''::text as time_zone
  from public.messages m
 where m.chat_id = sqlc.arg(chat_id)
   and (m.pinned or m.importance >= 0.8)
   and (m.pinned or sqlc.arg(important)::bool)
   and m.seq > (select b.cleared_seq from public.conversation_briefs b where b.chat_id = sqlc.arg(chat_id))
   and m.seq < sqlc.arg(before_seq)::bigint
   and m.superseded_by is null and m.status not in ('streaming', 'awaiting')
 order by m.seq desc
 limit 200;

-- name: SaveReply :execrows
-- Also replaces the status interrupted, which another server may have set meanwhile, unless the message was
-- tried again; and the same status, because a save whose commit is uncertain is repeated. One that another server goes on with is that
-- one's, also when it has ended: what was recorded there is no beginning of what is saved here.
update public.messages m
   set content = sqlc.arg(content), status = sqlc.arg(status), token_count = sqlc.arg(token_count),
       metadata = m.metadata || sqlc.arg(metadata)::jsonb, parts = coalesce(sqlc.narg(parts)::jsonb, m.parts), server_id = null, lease_until = null
 where m.id = sqlc.arg(id) and m.chat_id = sqlc.arg(chat_id) and m.superseded_by is null
   and m.status in ('streaming', 'interrupted', sqlc.arg(status))
   and (m.status <> 'streaming' or m.server_id is null or m.server_id = coalesce(sqlc.narg(server_id)::uuid, m.server_id))
   and (m.parts is null or starts_with(sqlc.arg(content), m.content)
     and m.parts = jsonb_path_query_array(coalesce(sqlc.narg(parts)::jsonb, m.parts), '$[0 to $last]',
       jsonb_build_object('last', jsonb_array_length(m.parts) - 1)));

-- name: FindReply :one
-- One reply of a chat, or the latest on its path. The text of a running reply begins after from_char, and ends with what is recorded. The
-- coalesce is in a subselect, because under row level security Postgres would not use an index for it otherwise.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.status, m.metadata, m.parts,
       m.lease_until, m.server_id,
       (case when m.status = 'streaming'
             then substr(m.content, sqlc.arg(from_char)::int + 1)
                  || throughline.recorded_after(m.id, greatest(sqlc.arg(from_char)::int, char_length(m.content)))
             else m.content end)::text as content
  from public.messages m
 where m.id = (select coalesce(sqlc.narg(message_id)::uuid, (
         select l.id from public.messages l where l.chat_id = sqlc.arg(chat_id) and l.role = 'assistant' and l.superseded_by is null
          order by l.seq desc limit 1)))
   and m.chat_id = sqlc.arg(chat_id) and m.role = 'assistant';

-- name: FindQuestion :one
select m.content from public.messages m where m.id = sqlc.arg(id) and m.chat_id = sqlc.arg(chat_id);

-- name: SkipCalls :one
-- The caller holds the chat's lock.
select throughline.end_calls(sqlc.arg(message_id)::uuid)::bool;

-- name: SkipChatsCalls :exec
-- Before a chat is cleared, and on the same conditions.
select throughline.end_calls(m.id)
  from (select l.id from public.chats l where l.id = sqlc.arg(chat_id) and (l.expires_at is null or l.expires_at > now()) for no key update) c
  join public.messages m on m.chat_id = c.id and m.status = 'awaiting';

-- name: LockReply :one
-- After its chat, whose lock those hold that end a reply which waits.
select m.id from public.messages m
 where m.id = sqlc.arg(message_id) and m.role = 'assistant'
   for no key update;

-- name: ReadLockedReply :one
-- With all its text, as far as it is recorded. One that was superseded has ended, and goes on no more.
select m.id, m.chat_id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.status, m.metadata, m.parts, m.server_id,
       m.lease_until,
       (case when m.status = 'streaming' then m.content || throughline.recorded_after(m.id, char_length(m.content)) else m.content end)::text as content,
       (m.superseded_by is null
        and not exists (select from public.messages l where l.chat_id = m.chat_id and l.superseded_by is null and l.seq > m.seq))::bool as ends,
       (m.seq <= greatest(b.covered_seq, b.cleared_seq))::bool as covered, d.data as state, clock_timestamp()::timestamptz as now
  from public.messages m
  join public.conversation_briefs b on b.chat_id = m.chat_id
  left join public.message_deltas d on d.message_id = m.id and d.start_char = -1
 where m.id = sqlc.arg(message_id);

-- name: ChangeReply :execrows
-- A step replaces the text, which goes on from what there is. A status says who generates the reply from now on, or until when it waits.
-- Of a reply that goes on it is forgotten how it ended before.
update public.messages m
   set content = case when sqlc.arg(step)::bool then sqlc.arg(content) else m.content end,
       token_count = case when sqlc.arg(step)::bool then sqlc.arg(token_count)::int else m.token_count end,
       metadata = case when sqlc.narg(status)::text is null then m.metadata else m.metadata - '{failure,finish_reason}'::text[] end
         || sqlc.arg(metadata)::jsonb,
       parts = case when sqlc.narg(added)::jsonb is null then m.parts else coalesce(m.parts, '[]') || sqlc.narg(added)::jsonb end,
       status = coalesce(sqlc.narg(status)::text, m.status),
       server_id = case when sqlc.narg(status)::text is null then m.server_id else sqlc.narg(server_id)::uuid end,
       lease_until = case sqlc.narg(status)::text when 'streaming' then now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
                                                  when 'awaiting' then sqlc.narg(wait_until)::timestamptz else m.lease_until end,
       cancel_requested = m.cancel_requested and (m.status = 'streaming' or sqlc.narg(status)::text is null)
 where m.id = sqlc.arg(message_id);

-- name: KeepState :exec
insert into public.message_deltas (message_id, user_id, start_char, delta, data)
values (sqlc.arg(message_id), sqlc.arg(user_id), -1, '', sqlc.arg(state)::jsonb)
on conflict (message_id, start_char) do update set data = excluded.data;

-- name: ForgetDeltas :exec
-- What a server that lost the reply has recorded, before another one goes on.
delete from public.message_deltas where message_id = sqlc.arg(message_id) and start_char >= 0;

-- name: RequestCancel :exec
-- The notification is only a hint: the generating server reads the row.
with asked as (
  update public.messages set cancel_requested = true
   where id = sqlc.arg(message_id) and status = 'streaming'
  returning id)
select pg_notify('throughline_cancels', asked.id::text) from asked;

-- name: CancelRequested :many
-- As the server itself, for the replies that this server generates.
select c.id::uuid as id from throughline.cancelled_replies(sqlc.arg(message_ids)::uuid[]) c (id);

-- name: RenewLease :exec
-- As the server itself.
select throughline.renew_server(sqlc.arg(server_id)::uuid, sqlc.arg(running)::uuid[], sqlc.arg(lease_seconds)::float8);

-- name: AbandonReplies :exec
-- As the server itself, for all users at once.
select throughline.abandon_replies(sqlc.arg(message_ids)::uuid[]);

-- name: InterruptAbandonedReplies :many
-- As the server itself.
select i.id::uuid as id from throughline.interrupt_replies(sqlc.narg(extract_delay_seconds)::float8) i (id);

-- name: ReadFoldable :many
-- row: ReadBufferRow
-- The messages of a fold, oldest first: those of the path after the brief.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.seq, m.role, m.status,
       m.content, m.token_count as tokens, m.created_at,
       m.pinned, coalesce(m.importance, 0)::real as importance, m.name, m.tool_calls, m.parts,
       coalesce(m.metadata ->> 'time_zone', '')::text as time_zone
  from throughline.own_messages m
 where m.chat_id = sqlc.arg(chat_id)
   and m.seq > (select b.covered_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
   and m.superseded_by is null
 order by m.seq
 limit sqlc.arg(max_rows)::int;
