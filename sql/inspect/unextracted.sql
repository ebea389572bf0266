-- Which turns were not read for memories, and why not?
--
--   psql "$DATABASE_URL" -f sql/inspect/unextracted.sql
\x auto

select chat_id, title, reason, unread_turns, unread_messages, oldest_age, extracted_seq, last_seq, extract_due_at, extracting_now,
       job_id, job_state, job_attempt, job_scheduled_at, job_last_error
  from inspect.unextracted
 order by oldest_at;
