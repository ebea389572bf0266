-- Our reads and writes of River's own table.

-- name: ReviveDeadFolds :many
-- Makes the jobs of dead workers available again; River itself would do so minutes later. A fold's job is
-- alive while its chat's lease runs, or while it is too young to have taken one. One that indexes turns has no lease, is
-- done within moments and may run twice. The entry in errors has River's form. A job without attempts left is discarded,
-- as River does it, so that a chat which kills its workers does not kill all that come.
update river.river_job j
   set state = case when j.attempt < j.max_attempts then 'available' else 'discarded' end::river.river_job_state,
       finalized_at = case when j.attempt < j.max_attempts then null else now() end, scheduled_at = now(),
       errors = array_append(j.errors, jsonb_build_object('at', now(), 'attempt', j.attempt, 'error', 'worker lost its lease', 'trace', ''))
  from (select d.id from river.river_job d
          left join public.conversation_briefs b on b.chat_id = (d.args ->> 'chat_id')::uuid
         where d.state = 'running' and d.queue = 'memory' and d.kind in ('fold_brief', 'rebuild_brief', 'index_turns')
           and d.attempted_at < now() - make_interval(secs => sqlc.arg(lease_seconds)::float8)
           and (b.lease_until is null or b.lease_until < now())
           for update of d skip locked) dead
 where j.id = dead.id
returning (j.args ->> 'chat_id')::uuid as chat_id, (j.state = 'discarded' and j.kind <> 'index_turns')::bool as given_up;

-- name: CompleteJob :exec
-- Does what River's JobCompleteTx does. That is made for many jobs at once, and planning it each time costs
-- as much as running it. A job that is no longer running, because the sweep or a person changed it, is left
-- alone.
update river.river_job
   set state = 'completed', finalized_at = now(), metadata = metadata || jsonb_build_object('output', sqlc.arg(output)::jsonb)
 where id = sqlc.arg(id) and state = 'running';

-- name: QueueDepths :many
select queue, count(*) as depth from river.river_job
 where state in ('available', 'scheduled', 'retryable') group by queue;

