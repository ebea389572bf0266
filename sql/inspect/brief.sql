-- What is in this chat's brief, how old is it, and which messages does it cover?
--
--   psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/brief.sql
\if :{?chat} \else \warn 'usage: psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/brief.sql' \quit \endif
\x auto

select title, version, age, brief_tokens, covered_turns, covered_seq, pending_turns, pending_tokens,
       folding_now, pieces_done, pieces, fold_failures, fold_failure, retry_at, last_summarized_message_id, global_summary
  from inspect.briefs
 where chat_id = :'chat';
