-- The pieces of running replies, for readers on other servers. As the server itself, because one statement
-- writes the pieces of all users: the owner of a piece comes from its message, not from an argument.

-- name: InsertDeltas :exec
select throughline.record_deltas(sqlc.arg(message_ids)::uuid[], sqlc.arg(user_ids)::uuid[], sqlc.arg(servers)::uuid[],
  sqlc.arg(start_chars)::int[], sqlc.arg(deltas)::text[]);

-- name: DeleteSpentDeltas :exec
-- For replies whose whole text is stored.
select throughline.delete_deltas(sqlc.arg(message_ids)::uuid[]);

-- name: DeleteStrayDeltas :execrows
-- Deltas of ended replies whose server died before it deleted them; a living server gets young_seconds to do
-- so. What it takes to go on with a reply is kept while it is open, and a day after it has failed or was interrupted. Skips from message
-- to message by the key, because a few messages have many deltas.
with recursive recorded as (
  (select d.message_id from public.message_deltas d order by d.message_id limit 1)
  union all
  select (select d.message_id from public.message_deltas d where d.message_id > r.message_id order by d.message_id limit 1)
    from recorded r where r.message_id is not null)
delete from public.message_deltas
 where (message_id, start_char) in (select d.message_id, d.start_char from public.message_deltas d join recorded r on r.message_id = d.message_id
   where not exists (select from public.messages m
                      where m.id = r.message_id
                        and (m.status = 'streaming' or m.updated_at > now() - make_interval(secs => sqlc.arg(young_seconds)::float8)
                          or d.start_char = -1 and (m.status = 'awaiting'
                            or m.status in ('failed', 'interrupted') and m.updated_at > now() - interval '24 hours')))
     for update of d skip locked);

-- name: NotifyServers :exec
-- The ids, separated by commas, of replies that have more text or have ended.
select pg_notify(sqlc.arg(channel)::text, sqlc.arg(message_ids)::text);
