-- Which briefs should have changed by now, since when, and what is their job doing? threshold, k, bridge
-- and min are the server's MEMORY_CHUNK_SUMMARIZE_THRESHOLD, MEMORY_K_RAW_TURNS, MEMORY_BRIDGE_TOKEN_BUDGET and
-- MEMORY_MIN_TAIL_TURNS.
--
--   psql "$DATABASE_URL" -f sql/inspect/late_folds.sql
--   psql "$DATABASE_URL" -v threshold=2000 -v k=5 -f sql/inspect/late_folds.sql
\if :{?threshold}
\else
  \set threshold 6000
\endif
\if :{?k}
\else
  \set k 3
\endif
\if :{?bridge}
\else
  \set bridge 6000
\endif
\if :{?min}
\else
  \set min 1
\endif

select chat_id, title, reason, tokens_total, pending_turns, late_by,
       job_id, job_kind, job_state, job_attempt, job_scheduled_at, job_last_error
  from inspect.due_folds(:threshold, :k, :bridge, :min)
 order by late_by desc nulls last;
