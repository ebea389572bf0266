-- Leases and failures of background work. As the server itself.

-- name: ClaimWork :one
select state::text as state, wait_seconds::float8 as wait_seconds
  from throughline.claim_work(sqlc.arg(kind), sqlc.arg(key),
         coalesce(sqlc.narg(user_id)::uuid, (select c.user_id from public.chats c where c.id = sqlc.narg(chat_id)::uuid)),
         sqlc.arg(lease_token), sqlc.arg(lease_seconds), sqlc.arg(per_user), sqlc.narg(job_id));

-- name: RenewWork :execrows
-- No row: another worker has taken over.
update throughline.work set lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
 where kind = sqlc.arg(kind) and key = sqlc.arg(key) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: EndWork :one
-- Reports whether the lease was still held.
select throughline.end_work(sqlc.arg(kind), sqlc.arg(key), sqlc.arg(lease_token), sqlc.arg(is_done))::bool as held;

-- name: PutOffWork :one
select coalesce(times, 0)::int as times, coalesce(wait_seconds, 0)::float8 as wait_seconds
  from throughline.put_off_work(sqlc.arg(kind), sqlc.arg(key), sqlc.arg(lease_token), sqlc.arg(failure), sqlc.arg(soon)::float8[],
         sqlc.arg(first), sqlc.arg(longest));

-- name: WaitWork :execrows
with waiting as (
  update throughline.work set lease_token = null, lease_until = null, retry_at = sqlc.arg(until)::timestamptz
   where kind = sqlc.arg(kind) and key = sqlc.arg(key) and lease_token = sqlc.arg(lease_token)::uuid
  returning kind, user_id)
select throughline.wake_work(kind, user_id) from waiting;

-- name: RetryWork :exec
select throughline.retry_work(sqlc.arg(kind), sqlc.arg(key));

-- name: ReviveJobs :many
-- work_kind is '' for a job without a lease.
select work_kind::text as work_kind, key::uuid as key, given_up::bool as given_up from throughline.revive_jobs(sqlc.arg(young_seconds)::float8);

-- name: GiveUpWork :exec
-- Puts off what killed its workers until its job had no attempt left.
insert into throughline.work as w (kind, key, user_id, failures, failing_since, failure, retry_at)
select sqlc.arg(kind)::text, sqlc.arg(key)::uuid, c.user_id, 1, now(), 'worker died', now() + make_interval(secs => sqlc.arg(wait_seconds)::float8)
  from public.chats c where c.id = sqlc.arg(key)::uuid
on conflict (kind, key) do update
   set failures = least(w.failures, 2147483646) + 1, failing_since = coalesce(w.failing_since, now()), failure = excluded.failure, retry_at = excluded.retry_at,
       lease_token = null, lease_until = null;

-- name: ClearDeadWork :execrows
-- Leases that ran out: their workers died. What somebody has locked is left for the next sweep, also below.
update throughline.work set lease_token = null, lease_until = null
 where (kind, key) in (select w.kind, w.key from throughline.work w where w.lease_until < now() for update skip locked);

-- name: WakeIdleWork :exec
select throughline.wake_idle();

-- name: ForgetIdleWork :exec
-- What neither runs nor waits nor fails; and what a job has written that began when its chat, topic or user was still there.
delete from throughline.work
 where (kind, key) in (select w.kind, w.key from throughline.work w
   where w.lease_token is null
     and (w.failures = 0 and coalesce(w.retry_at < now(), true) and (w.waiting_since is null or w.waiting_since < now() - interval '1 hour')
       or coalesce(w.waiting_since, w.retry_at) < now() - interval '1 minute'
          and not exists (select from public.chats c where c.id = w.key) and not exists (select from public.topics t where t.id = w.key)
          and not exists (select from public.memory_users u where u.user_id = w.key))
     for update of w skip locked);
