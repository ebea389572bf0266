-- Which turns should recall find and cannot, and why?
--
--   psql "$DATABASE_URL" -f sql/inspect/unindexed.sql
\x auto

select chat_id, title, reason, unindexed_turns, unindexed_messages, oldest_age, indexed_seq, covered_seq, last_seq,
       job_id, job_state, job_attempt, job_last_error
  from inspect.unindexed
 order by oldest_at;
