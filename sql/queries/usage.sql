-- What calls of models cost, and what a user may spend.

-- name: InsertUsage :exec
-- As the server itself, and first in its transaction, or after HoldAccount: whoever deletes an account waits for no more than this row.
insert into public.usage_events (id, user_id, chat_id, message_id, purpose, model_variant, model, input_tokens, cached_tokens, output_tokens,
  micro_usd, estimated)
values (coalesce(sqlc.narg(id)::uuid, sqlc.narg(message_id)::uuid, gen_random_uuid()), sqlc.arg(user_id), sqlc.narg(chat_id), sqlc.narg(message_id),
  sqlc.arg(purpose), sqlc.narg(model_variant), sqlc.arg(model), sqlc.arg(input_tokens), sqlc.arg(cached_tokens), sqlc.arg(output_tokens),
  sqlc.arg(micro_usd), sqlc.arg(estimated))
on conflict (id) do nothing;

-- name: AdmitTurn :one
-- An error denies the turn. Returns the variant that answers.
select throughline.admit_turn(sqlc.arg(user_id), sqlc.arg(variant), sqlc.arg(known)::text[], sqlc.narg(client_message_id), sqlc.arg(message_id))::text;

-- name: AskQuota :one
-- row: api.Quota
-- The app's word on a call. variant is '' for one that is no reply.
select coalesce(a.verdict, '')::text as verdict, coalesce(a.reason, '')::text as reason, a.resets_at::timestamptz as resets_at
  from throughline.allow_turn(sqlc.arg(user_id), sqlc.arg(purpose), sqlc.arg(variant)) a;

-- name: SumUsage :many
-- row: api.UsageSum
-- By day, in UTC, by purpose or by variant; what is no reply has none.
select (case sqlc.arg(by)::text when 'day' then to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD') when 'purpose' then e.purpose
          else coalesce(e.model_variant, '') end)::text as key,
       count(*)::bigint as calls, sum(e.input_tokens)::bigint as input_tokens, sum(e.cached_tokens)::bigint as cached_tokens,
       sum(e.output_tokens)::bigint as output_tokens, sum(e.micro_usd)::bigint as cost
  from public.usage_events e
 where e.created_at >= coalesce(sqlc.narg(since)::timestamptz, coalesce(sqlc.narg(until)::timestamptz, now()) - interval '30 days')
   and (sqlc.narg(until)::timestamptz is null or e.created_at < sqlc.narg(until)::timestamptz)
 group by 1 order by 1;

-- name: DeleteOldUsage :execrows
-- And what is kept for a day of deleted messages.
with kept as (
  delete from throughline.deleted_messages
   where key in (select d.key from throughline.deleted_messages d where d.deleted_at < now() - interval '1 day' for update skip locked)),
erased as (
  delete from throughline.departed
   where user_id in (select d.user_id from throughline.departed d where d.why = 'erased' and d.at < now() - interval '30 days' for update skip locked))
delete from public.usage_events
 where id = any (array(select e.id from public.usage_events e where e.created_at < now() - interval '400 days'
               order by e.created_at limit sqlc.arg(most)::int for update skip locked));
