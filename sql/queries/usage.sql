-- What calls of models cost. As the server itself, outside any other transaction: whoever deletes an account waits for no
-- more than this row.

-- name: InsertUsage :exec
insert into public.usage_events (user_id, chat_id, purpose, model, input_tokens, cached_tokens, output_tokens, estimated)
values (sqlc.arg(user_id), sqlc.narg(chat_id), sqlc.arg(purpose), sqlc.arg(model), sqlc.arg(input_tokens), sqlc.arg(cached_tokens),
  sqlc.arg(output_tokens), sqlc.arg(estimated));

-- name: DeleteOldUsage :execrows
delete from public.usage_events
 where id in (select e.id from public.usage_events e where e.created_at < now() - interval '400 days' order by e.created_at limit sqlc.arg(most)::int);
