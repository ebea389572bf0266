-- Titles that the model makes, by a job of the chat.

-- name: ReadUntitled :one
-- No row: the chat needs no title. idle_seconds is for how long it has rested.
select b.edit_count, b.cleared_seq, (case when b.readable then b.brief ->> 'global_summary' else '' end)::text as summary,
       (case when exists (select from throughline.own_messages m where m.chat_id = c.id and m.status = 'streaming') then 0
             else extract(epoch from now() - c.last_message_at) end)::float8 as idle_seconds
  from throughline.own_chats c join throughline.own_briefs b on b.chat_id = c.id
 where c.id = sqlc.arg(chat_id) and c.title_seq = 0;

-- name: ReadTitleTurns :many
-- The latest first.
select m.seq, m.role, left(m.content, 4000)::text as content
  from throughline.own_messages m
 where m.chat_id = sqlc.arg(chat_id) and m.seq > (select b.cleared_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
   and m.role in ('user', 'assistant') and m.token_count > 0 and m.superseded_by is null and m.status not in ('streaming', 'awaiting')
 order by m.seq desc limit 12;

-- name: LockOwnChat :exec
-- For whoever edits, deletes, clears or renames: they wait for the title and take it away, or it is not written.
select c.id from throughline.own_chats c where c.id = sqlc.arg(chat_id) for no key update;

-- name: WriteTitle :execrows
-- After LockOwnChat and LockOwnBrief. No row: the chat has a title by now, or what the title was made of has changed.
update throughline.own_chats c
   set title = sqlc.arg(title)::text, title_seq = sqlc.arg(title_seq)::bigint
  from throughline.own_briefs b
 where c.id = sqlc.arg(chat_id) and b.chat_id = c.id and c.title_seq = 0
   and b.edit_count = sqlc.arg(edit_count)::bigint and b.cleared_seq = sqlc.arg(cleared_seq)::bigint;
