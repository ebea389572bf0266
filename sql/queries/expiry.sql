-- Deletion of old chats of all users, as the server itself. Chats that are locked at the moment are left for the next run.

-- name: DeleteExpiredChats :execrows
delete from public.chats
 where id = any (array(select c.id from public.chats c
               where c.expires_at < now() - make_interval(days => sqlc.arg(days)::int)
                 and not exists (select from public.messages m where m.chat_id = c.id and m.status = 'streaming')
               order by c.expires_at limit sqlc.arg(most)::int for update skip locked));

-- name: DeleteIdleChats :execrows
delete from public.chats
 where id = any (array(select c.id from public.chats c
               where c.active_on <= (now() at time zone 'UTC')::date - sqlc.arg(days)::int
                 and greatest(c.created_at, c.last_message_at, c.revived_at) < now() - make_interval(days => sqlc.arg(days)::int)
                 and not exists (select from public.messages m where m.chat_id = c.id and m.status = 'streaming')
               limit sqlc.arg(most)::int for update skip locked));
