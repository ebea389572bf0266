-- What compact_topic reads and writes, with what it takes to archive a topic and to unpack one. As a job, with the rights of
-- the chat's owner.

-- name: PackRead :one
-- row: topics.CompactSnapshot
-- A topic as a compaction finds it. No row: there is no such topic.
select t.version, t.state,
       (t.state = 'active' and not exists (
          select from throughline.own_topics o where o.chat_id = t.chat_id and o.state = 'active' and o.last_seq > t.last_seq))::bool as current,
       t.rehydrated, t.stale, t.title, t.title_seq, coalesce(t.summary, '')::text as summary, t.summary_tokens, t.summary_seq, t.compacted_seq
  from throughline.own_topics t
 where t.id = sqlc.arg(topic_id) and t.chat_id = sqlc.arg(chat_id);

-- name: PackMessages :many
-- row: ReadBufferRow
-- The messages of a topic, in the form of ReadFoldable.
select m.id, '00000000-0000-0000-0000-000000000000'::uuid as reply_to, m.seq, m.role, m.status, m.content, m.token_count as tokens, m.created_at,
       m.pinned, coalesce(m.importance, 0)::real as importance, null::text as name, null::jsonb as tool_calls, null::jsonb as parts,
       coalesce(m.metadata ->> 'time_zone', '')::text as time_zone
  from throughline.topic_messages(sqlc.arg(topic_id)::uuid) t
  join throughline.own_messages m on m.chat_id = sqlc.arg(chat_id) and m.seq = t.seq
 order by m.seq;

-- name: PackCommit :one
-- Writes a compaction, if the topic is as it was when it was read and the messages up to checked_seq are still as many.
-- No row: it writes nothing. After LockOwnBrief, which whoever changes the messages or their topics holds as well.
update throughline.own_topics t
   set summary = nullif(sqlc.arg(summary)::text, ''), summary_tokens = sqlc.arg(summary_tokens)::int, summary_seq = sqlc.arg(summary_seq)::bigint,
       compacted_seq = sqlc.arg(compacted_seq)::bigint, compacted_messages = sqlc.arg(compacted_messages)::int,
       title = coalesce(sqlc.narg(title)::text, t.title), title_seq = coalesce(sqlc.narg(title_seq)::bigint, t.title_seq),
       stale = sqlc.arg(stale)::bool, rehydrated = t.rehydrated and sqlc.arg(rehydrated)::bool
 where t.id = sqlc.arg(topic_id) and t.chat_id = sqlc.arg(chat_id)
   and t.version = sqlc.arg(planned_version)::bigint
   and (select count(*) from throughline.topic_messages(t.id) m where m.seq <= sqlc.arg(checked_seq)::bigint) = sqlc.arg(checked_messages)::bigint
returning t.version;

-- name: PackRehydrate :exec
-- After LockOwnBrief. Summary and summary_seq stay: messages in the summary are not summarized again.
update throughline.own_topics
   set compacted_seq = 0, compacted_messages = 0, state = 'active', rehydrated = true
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
