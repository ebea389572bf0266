-- name: RedactRevisions :exec
-- After a rebuild: the summaries before it may contain deleted words.
update throughline.own_brief_revisions set global_summary = null
 where chat_id = sqlc.arg(chat_id) and version < sqlc.arg(before_version) and global_summary is not null;
