-- What compact_topic reads and writes, with what it takes to archive a topic and to unpack one. As a job, with the rights of
-- the chat's owner.

-- name: PackClaim :one
-- row: pack.Snapshot
-- Takes a topic's lease. No row: another worker holds it, or there is no such topic. The same token may claim again, because
-- the connection may have broken after a first claim.
update throughline.own_topics t
   set lease_token = sqlc.arg(lease_token)::uuid, lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
 where t.id = sqlc.arg(topic_id) and t.chat_id = sqlc.arg(chat_id)
   and (t.lease_until is null or t.lease_until <= now() or t.lease_token = sqlc.arg(lease_token)::uuid)
returning t.version, t.state,
          (t.state = 'active' and not exists (
             select from throughline.own_topics o where o.chat_id = t.chat_id and o.state = 'active' and o.last_seq > t.last_seq))::bool as current,
          t.rehydrated, t.stale, coalesce(t.retry_at > now(), false)::bool as put_off,
          t.title, t.title_seq, coalesce(t.summary, '')::text as summary, t.summary_tokens, t.summary_seq, t.compacted_seq;

-- name: PackExists :one
select t.id from throughline.own_topics t where t.id = sqlc.arg(topic_id) and t.chat_id = sqlc.arg(chat_id);

-- name: PackMessages :many
-- row: ReadBufferRow
-- The messages of a topic, in the form of ReadFoldable.
select m.id, '00000000-0000-0000-0000-000000000000'::uuid as reply_to, m.seq, m.role, m.status, m.content, m.token_count as tokens, m.created_at,
       m.pinned, coalesce(m.importance, 0)::real as importance, null::text as name, null::jsonb as tool_calls,
       coalesce(m.metadata ->> 'time_zone', '')::text as time_zone
  from throughline.topic_messages(sqlc.arg(topic_id)::uuid) t
  join throughline.own_messages m on m.chat_id = sqlc.arg(chat_id) and m.seq = t.seq
 order by m.seq;

-- name: PackRenew :execrows
-- No row: another worker has taken over, or the topic is gone.
update throughline.own_topics
   set lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
 where id = sqlc.arg(topic_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: PackRelease :exec
update throughline.own_topics set lease_token = null, lease_until = null
 where id = sqlc.arg(topic_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: PackPutOff :exec
update throughline.own_topics
   set lease_token = null, lease_until = null, retry_at = now() + make_interval(secs => sqlc.arg(wait_seconds)::float8)
 where id = sqlc.arg(topic_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: PackCommit :one
-- Writes a compaction, if the topic is as it was when it was claimed and the messages up to checked_seq are still as many.
-- No row: it writes nothing. After LockOwnBrief, which whoever changes the messages or their topics holds as well.
update throughline.own_topics t
   set summary = nullif(sqlc.arg(summary)::text, ''), summary_tokens = sqlc.arg(summary_tokens)::int, summary_seq = sqlc.arg(summary_seq)::bigint,
       compacted_seq = sqlc.arg(compacted_seq)::bigint, compacted_messages = sqlc.arg(compacted_messages)::int,
       title = coalesce(sqlc.narg(title)::text, t.title), title_seq = coalesce(sqlc.narg(title_seq)::bigint, t.title_seq),
       stale = sqlc.arg(stale)::bool, rehydrated = t.rehydrated and sqlc.arg(rehydrated)::bool, lease_token = null, lease_until = null,
       retry_at = case when sqlc.arg(wait_seconds)::float8 > 0 then now() + make_interval(secs => sqlc.arg(wait_seconds)::float8)
                       when not sqlc.arg(summarized)::bool then t.retry_at end
 where t.id = sqlc.arg(topic_id) and t.chat_id = sqlc.arg(chat_id) and t.lease_token = sqlc.arg(lease_token)::uuid
   and t.version = sqlc.arg(planned_version)::bigint
   and (select count(*) from throughline.topic_messages(t.id) m where m.seq <= sqlc.arg(checked_seq)::bigint) = sqlc.arg(checked_messages)::bigint
returning t.version;

-- name: PackRehydrate :exec
-- After LockOwnBrief. Summary and summary_seq stay: what is in the summary is not summarized again.
update throughline.own_topics
   set compacted_seq = 0, compacted_messages = 0, state = 'active', rehydrated = true, retry_at = null
 where id = sqlc.arg(topic_id) and chat_id = sqlc.arg(chat_id);

-- name: PackWakeTurns :exec
-- Lets the turns of a topic get vectors again. After LockOwnBrief.
update throughline.own_turn_index set resting = false
 where chat_id = sqlc.arg(chat_id) and topic_id = sqlc.arg(topic_id)::uuid and resting;

-- name: PackArchive :exec
-- After LockOwnBrief.
update throughline.own_topics
   set compacted_seq = last_seq, compacted_messages = message_count, state = 'archived', rehydrated = false
 where id = sqlc.arg(topic_id) and chat_id = sqlc.arg(chat_id);

-- name: PackRestTurns :exec
-- The turns of an archived topic are found by its centroid and their words. After LockOwnBrief.
update throughline.own_turn_index set embedding = null, embedding_model = null, resting = true
 where chat_id = sqlc.arg(chat_id) and topic_id = sqlc.arg(topic_id)::uuid and not resting;
