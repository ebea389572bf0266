-- What running replies say, recorded for whoever else wants to read them. As the server itself, because one
-- statement writes for all users at once: it takes each piece's owner from the message, never from us.

-- name: InsertDeltas :exec
-- Nothing for a reply that is not running any more, and nothing twice. Each message is looked up by its key
-- (offset 0 keeps the conditions out of there): Postgres takes running replies for next to none and would
-- walk through all of them for each of them.
insert into public.message_deltas (message_id, user_id, start_char, delta)
select m.id, m.user_id, new.start_char, new.delta
  from (select unnest(sqlc.arg(message_ids)::uuid[]) as message_id, unnest(sqlc.arg(user_ids)::uuid[]) as user_id,
               unnest(sqlc.arg(start_chars)::int[]) as start_char, unnest(sqlc.arg(deltas)::text[]) as delta) new
  join lateral (select found.id, found.user_id, found.status from public.messages found where found.id = new.message_id offset 0) m
    on m.user_id = new.user_id and m.status = 'streaming'
on conflict do nothing;

-- name: DeleteSpentDeltas :exec
-- Of replies whose whole text is stored.
delete from public.message_deltas where message_id = any(sqlc.arg(message_ids)::uuid[]);

-- name: DeleteStrayDeltas :execrows
-- What a server that died between storing a reply and tidying up has left; one that lives gets some time for it.
-- Goes from message to message by the key, because there are many deltas of few messages.
with recursive recorded as (
  (select d.message_id from public.message_deltas d order by d.message_id limit 1)
  union all
  select (select d.message_id from public.message_deltas d where d.message_id > r.message_id order by d.message_id limit 1)
    from recorded r where r.message_id is not null)
delete from public.message_deltas d
 using recorded r
 where d.message_id = r.message_id
   and not exists (select from public.messages m
                    where m.id = r.message_id
                      and (m.status in ('streaming', '') or m.updated_at > now() - make_interval(secs => sqlc.arg(young_seconds)::float8)));

-- name: NotifyReplies :exec
-- Ids of replies that have more to read or have ended, separated by commas.
select pg_notify('throughline_replies', sqlc.arg(message_ids)::text);
