-- Decay of memories, and the numbers of the metrics. As the server itself.

-- name: FadeMemories :one
-- The nil id for no user left.
select coalesce(last_at, now())::timestamptz as last_at, coalesce(last_user, '00000000-0000-0000-0000-000000000000')::uuid as last_user,
       decayed::int as decayed, archived::int as archived
  from throughline.fade_memories(sqlc.arg(day)::date, sqlc.arg(after_at)::timestamptz, sqlc.arg(after)::uuid, sqlc.arg(most)::int);

-- name: DeleteArchivedMemories :one
-- The nil id for no user left.
select coalesce(last_at, now())::timestamptz as last_at, coalesce(last_user, '00000000-0000-0000-0000-000000000000')::uuid as last_user, deleted::int as deleted
  from throughline.delete_archived_memories(sqlc.arg(days)::int, sqlc.arg(after_at)::timestamptz, sqlc.arg(after)::uuid, sqlc.arg(most)::int);

-- name: CountAllMemories :many
-- By status; estimated where there are more than a hundred.
select c.status::text as status, c.memories::bigint as memories from throughline.count_memories() c;

-- name: OldestUnextracted :one
select throughline.oldest_unextracted()::float8 as age;
