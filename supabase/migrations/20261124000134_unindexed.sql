-- Turns are indexed whether or not the server recalls.

create or replace view inspect.unindexed with (security_invoker = true) as
select b.chat_id, b.user_id, c.title, due.reason,
       missing.turns as unindexed_turns, missing.messages as unindexed_messages, missing.oldest_at, now() - missing.oldest_at as oldest_age,
       b.indexed_seq, b.covered_seq, c.last_seq, b.memory_strategy,
       job.id as job_id, job.state as job_state, job.attempt as job_attempt, job.last_error as job_last_error
  from public.conversation_briefs b
  join public.chats c on c.id = b.chat_id
 cross join lateral (
   select count(*) as messages, count(*) filter (where m.role = 'user') as turns, min(m.created_at) as oldest_at, min(m.seq) as first_seq
     from public.messages m
    where m.chat_id = b.chat_id and m.token_count > 0 and m.role <> 'system'
      and (m.seq > b.indexed_seq
        or m.role = 'user' and not exists (select from public.turn_index i where i.chat_id = m.chat_id and i.seq = m.seq))) missing
  left join lateral (
   select j.id, j.state::text as state, j.attempt::int as attempt, j.errors[array_upper(j.errors, 1)] ->> 'error' as last_error
     from river.river_job j
    where j.kind = 'index_turns' and j.args @> jsonb_build_object('chat_id', b.chat_id) and j.finalized_at is null
    order by j.id desc limit 1) job on true
 cross join lateral (
   select case
     when missing.first_seq <= b.indexed_seq then 'its rows were deleted: sql/operate/index_again.sql'
     when missing.first_seq <= b.covered_seq then 'its brief covers them: the next sweep indexes them'
     when job.id is not null then 'its job is ' || job.state
     when b.memory_strategy = 'simple' and missing.turns >= 4 then 'four turns and no job: the sweep indexes them after a minute without a message'
     when coalesce(c.last_message_at, c.created_at) < now() - interval '1 minute'
          and not exists (select from public.messages m where m.chat_id = b.chat_id and m.status = 'streaming')
       then 'nobody has spoken for a minute: the next sweep indexes them' end as reason) due
 where missing.messages > 0 and due.reason is not null;

comment on view inspect.unindexed is
  'Each chat with turns that should be in the index and are not, and why: recall cannot find them. Empty when workers have nothing to do; turns of a chat in which somebody '
  'is talking are in the prompt and wait.';
