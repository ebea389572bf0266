-- What was read of this chat for memories, what came of it, what was dropped and why, and what did it cost?
--
--   psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/extractions.sql
\if :{?chat} \else \warn 'usage: psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/extractions.sql' \quit \endif
\x auto

select seq_from, seq_to, follows, turns, result, candidates, added, updated, superseded, noops, dropped, sources_left,
       calls, input_tokens, output_tokens, model, prompt_ref, duration_ms, created_at
  from inspect.extractions
 where chat_id = :'chat'
 order by seq_from;

\echo 'Not read yet:'
select reason, unread_turns, unread_messages, oldest_age, extracted_seq, last_seq, extract_due_at, extracting_now,
       job_id, job_state, job_attempt, job_scheduled_at, job_last_error
  from inspect.unextracted
 where chat_id = :'chat';
