-- The views of briefs and turns know what a chat can be told about itself, and tell what was cleared away
-- from what is covered.

create or replace view inspect.briefs with (security_invoker = true) as
select b.chat_id, b.user_id, c.title,
       b.version,
       b.brief ->> 'global_summary' as global_summary,
       b.brief_tokens,
       case when b.readable then (b.brief ->> 'last_summarized_message_id')::uuid end as last_summarized_message_id,
       b.covered_seq, c.last_seq, covered.turns as covered_turns, b.pending_turns, b.pending_tokens,
       b.stale, b.edit_count,
       b.lease_until, coalesce(b.lease_until > now(), false) as folding_now,
       latest.created_at as changed_at, now() - latest.created_at as age,
       c.last_message_at,
       c.memory_strategy, c.max_turns, c.tool_name, c.expires_at, coalesce(c.expires_at <= now(), false) as expired, b.cleared_seq, c.tags
  from public.conversation_briefs b
  join public.chats c on c.id = b.chat_id
  left join public.conversation_brief_revisions latest on latest.chat_id = b.chat_id and latest.version = b.version
 cross join lateral (select count(*) as turns from public.messages m
                      where m.chat_id = b.chat_id and m.seq > b.cleared_seq and m.seq <= b.covered_seq and m.role = 'user') covered;

------------------------------------------------------------------------------------------------

create or replace view inspect.turns with (security_invoker = true) as
select head.chat_id, head.user_id,
       row_number() over (partition by head.chat_id order by head.seq) as turn,
       case when head.role = 'user' then head.seq end as user_seq, reply.seq as reply_seq,
       case when head.role = 'user' then head.id end as user_message_id, reply.id as message_id,
       head.created_at,
       case when head.role = 'user' then head.content end as user_content, reply.content as reply_content,
       reply.status, reply.metadata ->> 'model_variant' as model_variant, reply.metadata ->> 'model' as model,
       case when head.role = 'user' then head.token_count end as user_tokens, reply.token_count as reply_tokens,
       inspect.number_in(reply.metadata -> 'usage', 'input_tokens') as input_tokens,
       inspect.number_in(reply.metadata -> 'usage', 'cached_tokens') as cached_tokens,
       inspect.number_in(reply.metadata -> 'usage', 'output_tokens') as output_tokens,
       reply.metadata ->> 'finish_reason' as finish_reason,
       reply.metadata -> 'failure' ->> 'code' as failure_code,
       coalesce(head.seq <= b.covered_seq and head.seq > b.cleared_seq, false) as covered,
       (select min(r.version) from public.conversation_brief_revisions r
         where r.chat_id = head.chat_id and r.kind <> 'clear' and head.seq between r.seq_from and r.seq_to) as covered_in_version,
       -- The receipt: what of the conversation the model was shown for this reply.
       inspect.number_in(reply.metadata -> 'memory', 'brief_version') as brief_version,
       inspect.number_in(reply.metadata -> 'memory', 'brief_tokens') as brief_tokens,
       inspect.number_in(reply.metadata -> 'memory', 'covered_through_seq') as covered_through_seq,
       inspect.number_in(reply.metadata -> 'memory', 'bridge_turns') as bridge_turns,
       inspect.number_in(reply.metadata -> 'memory', 'bridge_tokens') as bridge_tokens,
       inspect.number_in(reply.metadata -> 'memory', 'tail_turns') as tail_turns,
       inspect.number_in(reply.metadata -> 'memory', 'tail_tokens') as tail_tokens,
       inspect.number_in(reply.metadata -> 'memory', 'dropped_turns') as dropped_turns,
       reply.metadata -> 'memory' -> 'truncated' = 'true' as truncated,
       -- Left behind when the context was cleared: in no prompt and no brief.
       coalesce(head.seq <= b.cleared_seq, false) as cleared,
       head.tool_name,
       reply.metadata -> 'memory' ->> 'strategy' as memory_strategy,
       inspect.number_in(reply.metadata -> 'memory', 'kept_messages') as kept_messages,
       inspect.number_in(reply.metadata -> 'memory', 'files') as files,
       inspect.number_in(reply.metadata -> 'memory', 'file_tokens') as file_tokens
  from public.messages head
  left join public.conversation_briefs b on b.chat_id = head.chat_id
  left join (select distinct on (a.chat_id, coalesce(question.id, a.id)) a.*, coalesce(question.id, a.id) as head_id
               from public.messages a
               left join public.messages question
                 on question.chat_id = a.chat_id and question.id = a.reply_to and question.role = 'user'
              where a.role = 'assistant'
              order by a.chat_id, coalesce(question.id, a.id), a.seq desc) reply
    on reply.chat_id = head.chat_id and reply.head_id = head.id
 where head.role = 'user'
    -- A reply whose question was deleted stands alone.
    or head.role = 'assistant' and reply.id is not null;
