-- Which folds are due, since when, and what is the state of their jobs? limits.psql explains
-- threshold, k, bridge, min, prompt and history.
--
--   psql "$DATABASE_URL" -f sql/inspect/late_folds.sql
--   psql "$DATABASE_URL" -v threshold=2000 -v k=5 -f sql/inspect/late_folds.sql
\ir limits.psql

select chat_id, title, reason, tokens_total, pending_turns, late_by, fold_failures, fold_failure, retry_at,
       job_id, job_kind, job_state, job_attempt, job_scheduled_at, job_last_error
  from inspect.due_folds(:threshold, :k, :bridge, :min, :prompt, :history)
 order by late_by desc nulls last;
