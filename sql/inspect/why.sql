-- What was in the prompt of this reply? Its receipt, the brief as it was then, and the turns that were shown
-- word for word, the memories and the recalled turns, as they are now. message is the assistant message's id.
--
--   psql "$DATABASE_URL" -v message=UUID -f sql/inspect/why.sql
\if :{?message} \else \warn 'usage: psql "$DATABASE_URL" -v message=UUID -f sql/inspect/why.sql' \quit \endif
\x on

\echo 'The reply and its receipt:'
select turn, user_content, reply_content, status, failure_code, model_variant, model, finish_reason,
       input_tokens, cached_tokens, output_tokens,
       brief_version, brief_tokens, covered_through_seq, bridge_turns, bridge_tokens, tail_turns, tail_tokens,
       dropped_turns, truncated
  from inspect.turns
 where chat_id = (select chat_id from public.messages where id = :'message') and message_id = :'message';

\echo 'The brief that it was shown (null: version 0, or redacted since):'
select r.version, r.created_at, r.seq_from, r.seq_to, r.global_summary
  from inspect.turns t
  left join inspect.revisions r on r.chat_id = t.chat_id and r.version = t.brief_version
 where t.chat_id = (select chat_id from public.messages where id = :'message') and t.message_id = :'message';

\x off
\echo 'The turns that it was shown word for word, oldest first:'
select earlier.turn, case when reply.turn - earlier.turn <= reply.tail_turns then 'tail' else 'bridge' end as part,
       earlier.user_content, earlier.reply_content
  from inspect.turns reply
  join inspect.turns earlier on earlier.chat_id = reply.chat_id
   and earlier.turn between reply.turn - reply.tail_turns - reply.bridge_turns and reply.turn - 1
 where reply.chat_id = (select chat_id from public.messages where id = :'message') and reply.message_id = :'message'
 order by earlier.turn;

\echo 'The memories and the earlier turns that it was shown (those that are gone since are not here):'
select part, text, said_at, sources, coalesce(memory_id::text, 'message ' || shown_seq) as id
  from inspect.why
 where message_id = :'message' and part <> 'brief'
 order by part, place;
