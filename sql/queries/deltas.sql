-- What running replies say, recorded for whoever else wants to read them. As the server itself, because one
-- statement writes for all users at once: it takes each piece's owner from the message, never from us.

-- name: InsertDeltas :exec
-- Nothing for a reply that is not running any more, and nothing twice.
insert into public.message_deltas (message_id, user_id, start_char, delta)
select m.id, m.user_id, new.start_char, new.delta
  from (select unnest(sqlc.arg(message_ids)::uuid[]) as message_id, unnest(sqlc.arg(user_ids)::uuid[]) as user_id,
               unnest(sqlc.arg(start_chars)::int[]) as start_char, unnest(sqlc.arg(deltas)::text[]) as delta) new
  join public.messages m on m.id = new.message_id and m.user_id = new.user_id and m.status = 'streaming'
on conflict do nothing;

-- name: DeleteSpentDeltas :exec
-- Of replies whose whole text is stored.
delete from public.message_deltas where message_id = any(sqlc.arg(message_ids)::uuid[]);

-- name: DeleteStrayDeltas :execrows
-- What a server that died between storing a reply and tidying up has left.
delete from public.message_deltas d
 where (d.message_id, d.start_char) in (
   select s.message_id, s.start_char from public.message_deltas s
    where not exists (select from public.messages m where m.id = s.message_id and m.status = 'streaming')
    limit 10000 for update skip locked);

-- name: NotifyReplies :exec
-- Ids of replies that have more to read or have ended, separated by commas.
select pg_notify('throughline_replies', sqlc.arg(message_ids)::text);
