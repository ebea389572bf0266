-- Our reads and writes of River's own table.

-- name: CompleteJob :exec
-- Does what River's JobCompleteTx does. That is made for many jobs at once, and planning it each time costs as much as running
-- it. A job that is no longer running, because the sweep or a person changed it, is left alone.
update river.river_job
   set state = 'completed', finalized_at = now(), metadata = metadata || jsonb_build_object('output', sqlc.arg(output)::jsonb)
 where id = sqlc.arg(id) and state = 'running';

-- name: QueueDepths :many
select queue, count(*) as depth from river.river_job
 where state in ('available', 'scheduled', 'retryable') group by queue;

