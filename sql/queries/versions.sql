-- Editing messages, other replies, and going back to either: the path of a chat changes, and nothing is deleted.

-- name: FindReplaced :one
-- row: chat.Replaced
-- A message, by the client's id or ours, with the message of the user in whose turn it is, and the end of its chat's path.
select m.id, m.chat_id, m.role, m.seq, coalesce(m.superseded_by, '00000000-0000-0000-0000-000000000000')::uuid as superseded_by, b.cleared_seq,
       coalesce(l.id, '00000000-0000-0000-0000-000000000000')::uuid as last_message_id,
       coalesce(u.id, '00000000-0000-0000-0000-000000000000')::uuid as user_message_id,
       coalesce(u.seq, 0)::bigint as user_seq, coalesce(u.content, '')::text as content,
       coalesce(u.metadata ->> 'time_zone', '')::text as time_zone
  from public.messages m
  join public.conversation_briefs b on b.chat_id = m.chat_id
  left join public.messages u on u.id = case m.role when 'user' then m.id when 'assistant' then m.reply_to end
  left join lateral (select p.id from public.messages p where p.chat_id = m.chat_id and p.superseded_by is null order by p.seq desc limit 1) l on true
 where m.id = (select coalesce((select e.id from public.messages e where e.user_id = sqlc.arg(user_id) and e.client_message_id = sqlc.narg(client_message_id)),
   sqlc.arg(id)) as id);

-- name: FindLastMessage :one
-- Of the chat's path.
select m.id from public.messages m where m.chat_id = sqlc.arg(chat_id) and m.superseded_by is null order by m.seq desc limit 1;

-- name: HoldAccount :exec
select throughline.hold_account();

-- name: SupersedeTail :exec
-- What a turn replaces leaves the path, which must be the one that the turn was made for. A retry takes over the client's id. What it
-- asks of the failed reply is asked of the row itself, which another server may just now save: Postgres looks again after it has waited.
update public.messages m
   set superseded_by = sqlc.arg(superseded_by), token_count = 0,
       client_message_id = nullif(m.client_message_id, sqlc.narg(taken_over)::uuid)
 where m.chat_id = sqlc.arg(chat_id) and m.seq >= sqlc.arg(from_seq) and m.superseded_by is null
   and (not sqlc.arg(retry)::bool or m.id <> sqlc.arg(last_message_id) or m.status in ('failed', 'interrupted'))
   and sqlc.arg(last_message_id) = (
     select l.id from public.messages l where l.chat_id = sqlc.arg(chat_id) and l.superseded_by is null order by l.seq desc limit 1)
   and exists (select from public.messages r where r.id = sqlc.arg(replaced_id) and r.superseded_by is null)
   and sqlc.arg(from_seq) > (select b.cleared_seq from public.conversation_briefs b where b.chat_id = sqlc.arg(chat_id))
   and not exists (select from public.messages s where s.chat_id = sqlc.arg(chat_id) and s.status = 'streaming');

-- name: InsertAgain :execrows
-- Another reply to a stored message, with which the path ends now, under the conditions of InsertTurn.
insert into public.messages (id, chat_id, user_id, role, status, reply_to, token_count, metadata, client_message_id, replaces, server_id, lease_until)
select sqlc.arg(message_id)::uuid, u.chat_id, u.user_id, 'assistant', 'streaming', u.id, 0,
       sqlc.arg(reply_metadata)::jsonb || case
         when sqlc.arg(reply_metadata)::jsonb ->> 'model_variant' <> nullif(current_setting('throughline.variant', true), '')
         then jsonb_build_object('model_variant', current_setting('throughline.variant'), 'asked_variant', sqlc.arg(reply_metadata)::jsonb ->> 'model_variant')
         else '{}' end,
       sqlc.narg(client_message_id)::uuid, sqlc.narg(replaces)::uuid, sqlc.arg(server_id)::uuid,
       now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
  from public.messages u
  join public.chats c on c.id = u.chat_id
 where u.id = sqlc.arg(user_message_id) and u.chat_id = sqlc.arg(chat_id)
   and (c.expires_at is null or c.expires_at > now() or sqlc.arg(revive)::bool)
   and octet_length(coalesce(c.system_prompt, '')) <= sqlc.arg(system_prompt_room)::int
   and not exists (select from public.messages s where s.chat_id = u.chat_id and s.status = 'streaming')
   and not exists (select from public.messages m where m.client_message_id = sqlc.narg(client_message_id))
   and u.seq > (select b.cleared_seq from public.conversation_briefs b where b.chat_id = sqlc.arg(chat_id))
   and u.id = (select l.id from public.messages l where l.chat_id = sqlc.arg(chat_id) and l.superseded_by is null order by l.seq desc limit 1)
   and (u.id = sqlc.arg(last_message_id)
     or exists (select from public.messages l where l.id = sqlc.arg(last_message_id) and l.superseded_by = sqlc.arg(message_id)))
   for no key update of c;

-- name: CountReplaced :one
-- The turns of the chat's path, for a turn that has changed it. Raises if messages left the path for one that was not stored after all.
select throughline.count_replaced(sqlc.arg(chat_id), sqlc.arg(superseded_by))::bigint as turns;

-- name: KeepFiles :exec
-- The files of an edited message are those of the new one, too.
insert into public.message_files (message_id, place, chat_id, user_id, path, sha256)
select m.id, f.place, m.chat_id, m.user_id, f.path, f.sha256
  from public.message_files f join public.messages m on m.id = sqlc.arg(message_id)
 where f.message_id = sqlc.arg(replaced_id) and f.chat_id = m.chat_id;

-- name: SelectVersion :one
-- The caller has locked the chat, and looked that nothing speaks against it.
select coalesce(s.from_seq, 0)::bigint as from_seq, s.last_message_id::uuid as last_message_id
  from throughline.select_version(sqlc.arg(message_id)) s (from_seq, last_message_id);
