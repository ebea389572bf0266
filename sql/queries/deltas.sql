-- The pieces of running replies, for readers on other servers. As the server itself, because one statement
-- writes the pieces of all users: the owner of a piece comes from its message, not from an argument.

-- name: InsertDeltas :exec
-- Skips replies that have ended and pieces that are stored. "offset 0" makes Postgres find each message by its key: it assumes
-- that there are hardly any running replies, and would scan all of them for each piece. "on conflict do nothing" would write a
-- third more ahead. Without it a batch fails that is sent again while it is being committed, and is sent once more.
insert into public.message_deltas (message_id, user_id, start_char, delta)
select m.id, m.user_id, new.start_char, new.delta
  from (select unnest(sqlc.arg(message_ids)::uuid[]) as message_id, unnest(sqlc.arg(user_ids)::uuid[]) as user_id,
               unnest(sqlc.arg(start_chars)::int[]) as start_char, unnest(sqlc.arg(deltas)::text[]) as delta) new
  join lateral (select found.id, found.user_id, found.status from public.messages found
                 where found.id = new.message_id
                   and not exists (select from public.message_deltas d where d.message_id = new.message_id and d.start_char = new.start_char) offset 0) m
    on m.user_id = new.user_id and m.status = 'streaming';

-- name: DeleteSpentDeltas :exec
-- For replies whose whole text is stored. What somebody has locked is being deleted.
delete from public.message_deltas
 where (message_id, start_char) in (select d.message_id, d.start_char from public.message_deltas d
                                     where d.message_id = any(sqlc.arg(message_ids)::uuid[]) for update skip locked);

-- name: DeleteStrayDeltas :execrows
-- Deltas of ended replies whose server died before it deleted them; a living server gets young_seconds to do
-- so. Skips from message to message by the key, because a few messages have many deltas.
with recursive recorded as (
  (select d.message_id from public.message_deltas d order by d.message_id limit 1)
  union all
  select (select d.message_id from public.message_deltas d where d.message_id > r.message_id order by d.message_id limit 1)
    from recorded r where r.message_id is not null)
delete from public.message_deltas
 where (message_id, start_char) in (select d.message_id, d.start_char from public.message_deltas d join recorded r on r.message_id = d.message_id
   where not exists (select from public.messages m
                      where m.id = r.message_id
                        and (m.status in ('streaming', '') or m.updated_at > now() - make_interval(secs => sqlc.arg(young_seconds)::float8)))
     for update of d skip locked);

-- name: NotifyServers :exec
-- The ids, separated by commas, of replies that have more text or have ended.
select pg_notify(sqlc.arg(channel)::text, sqlc.arg(message_ids)::text);
