-- What is not in the brief yet, and how far is the next fold? threshold and k are the server's
-- MEMORY_CHUNK_SUMMARIZE_THRESHOLD and MEMORY_K_RAW_TURNS.
--
--   psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/buffer.sql
--   psql "$DATABASE_URL" -v chat=UUID -v threshold=2000 -v k=5 -f sql/inspect/buffer.sql
\if :{?chat}
\else
  \warn 'usage: psql "$DATABASE_URL" -v chat=UUID [-v threshold=6000] [-v k=3] -f sql/inspect/buffer.sql'
  \quit
\endif
\if :{?threshold}
\else
  \set threshold 6000
\endif
\if :{?k}
\else
  \set k 3
\endif

select title, pending_turns, pending_tokens, brief_tokens, tokens_total,
       greatest(0, :threshold + 1 - tokens_total) as tokens_to_go,
       greatest(0, :k + 1 - pending_turns) as turns_to_go,
       tokens_total > :threshold and pending_turns > :k as due,
       oldest_age, counters_agree
  from inspect.buffers
 where chat_id = :'chat';

-- The turns in it, oldest first; the last k of them stay word for word whatever happens.
select turn, user_seq, reply_seq, status, user_tokens, reply_tokens, left(user_content, 60) as asked
  from inspect.turns
 where chat_id = :'chat' and not covered
 order by turn;
