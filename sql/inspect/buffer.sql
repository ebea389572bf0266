-- What does the brief not cover yet, and when is the next fold due? limits.psql explains threshold, k, bridge,
-- min and prompt.
--
--   psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/buffer.sql
--   psql "$DATABASE_URL" -v chat=UUID -v threshold=2000 -v k=5 -f sql/inspect/buffer.sql
\if :{?chat} \else \warn 'usage: psql "$DATABASE_URL" -v chat=UUID [-v threshold=6000] [-v k=3] -f sql/inspect/buffer.sql' \quit \endif
\ir limits.psql

select title, pending_turns, pending_tokens, brief_tokens, tokens_total,
       greatest(0, :threshold + 1 - tokens_total) as tokens_to_go,
       greatest(0, :k + 1 - pending_turns) as turns_to_go,
       throughline.fold_is_due(brief_tokens, pending_tokens, pending_turns, memory_strategy, max_turns,
                               :threshold, :k, :bridge, :min, :prompt, tool_name is not null, :history) as due,
       oldest_age, counters_agree
  from inspect.buffers
  join inspect.briefs using (chat_id, title, pending_turns, pending_tokens, brief_tokens)
 where chat_id = :'chat';

-- Its turns, oldest first; the last k of them stay word for word.
select turn, user_seq, reply_seq, status, user_tokens, reply_tokens, left(user_content, 60) as asked
  from inspect.turns
 where chat_id = :'chat' and not covered
 order by turn;
