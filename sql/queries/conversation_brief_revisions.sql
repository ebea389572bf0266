-- name: InsertRevision :exec
insert into public.conversation_brief_revisions
  (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens,
   prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
values
  (sqlc.arg(chat_id), sqlc.arg(user_id), sqlc.arg(version), sqlc.arg(kind), sqlc.arg(seq_from), sqlc.arg(seq_to), sqlc.arg(turns),
   sqlc.arg(global_summary)::text, sqlc.arg(input_tokens), sqlc.arg(output_tokens), sqlc.arg(prompt_mode), sqlc.arg(prompt_ref),
   sqlc.arg(model), sqlc.arg(duration_ms), sqlc.arg(input_sha256), sqlc.arg(details));

-- name: RedactRevisions :exec
-- After a rebuild: the summaries before it may hold words that were deleted.
update public.conversation_brief_revisions set global_summary = null
 where chat_id = sqlc.arg(chat_id) and version < sqlc.arg(before_version) and global_summary is not null;
