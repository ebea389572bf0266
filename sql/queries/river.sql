-- The places where we read and write River's own table.

-- name: ReviveDeadFolds :many
-- Makes jobs of workers that died available again at once; River's own rescue comes minutes later. A fold job
-- is alive while its chat's lease runs, or while it is too young to have taken one. The entry in errors
-- is of the form that River writes.
update river.river_job j
   set state = 'available', scheduled_at = now(),
       errors = array_append(j.errors, jsonb_build_object('at', now(), 'attempt', j.attempt, 'error', 'worker lost its lease', 'trace', ''))
  from (select d.id from river.river_job d
          left join public.conversation_briefs b on b.chat_id = (d.args ->> 'chat_id')::uuid
         where d.state = 'running' and d.queue = 'memory'
           and d.attempted_at < now() - make_interval(secs => sqlc.arg(lease_seconds)::float8)
           and (b.lease_until is null or b.lease_until < now())
           for update of d skip locked) dead
 where j.id = dead.id
returning j.id;

-- name: CompleteJob :exec
-- What River's JobCompleteTx does. That one is made for many jobs at once, and Postgres plans it anew each
-- time, which costs as much as running it. A job that the sweep or somebody by hand took away meanwhile stays
-- as it is; the brief is written all the same.
update river.river_job
   set state = 'completed', finalized_at = now(), metadata = metadata || jsonb_build_object('output', sqlc.arg(output)::jsonb)
 where id = sqlc.arg(id) and state = 'running';

-- name: QueueDepths :many
select queue, count(*) as depth from river.river_job
 where state in ('available', 'scheduled', 'retryable') group by queue;

