-- When a chat is due to be folded depends on the chat as well: its strategy and its turn limit.

drop view inspect.late_folds;
drop function inspect.due_folds(int, int, int, int);
drop function inspect.is_due(int, bigint, bigint, int, int, int, int);

-- The rule of memory.Due with memory.Limits.For, which a test holds it to. An expired chat is due as
-- soon as anything is out of its brief.
create function inspect.is_due(
  brief_tokens int, pending_tokens bigint, pending_turns bigint, memory_strategy text, max_turns int, expired boolean,
  chunk_summarize_threshold int, k_raw_turns int, bridge_token_budget int, min_tail_turns int)
returns boolean
language sql immutable security invoker set search_path = '' as $$
  select memory_strategy <> 'simple' and (
    coalesce(pending_turns > max_turns, false)
    or expired and pending_turns > 0
    or brief_tokens + pending_tokens > chunk_summarize_threshold
       and (pending_turns > least(k_raw_turns, max_turns)
         or bridge_token_budget > 0 and pending_tokens > bridge_token_budget and pending_turns > greatest(1, min_tail_turns)))
$$;

-- The limits are the server's configuration, which the database does not know; the defaults here are
-- the server's. A stale brief is due whatever its size.
create function inspect.due_folds(
  chunk_summarize_threshold int default 6000, k_raw_turns int default 3,
  bridge_token_budget int default 6000, min_tail_turns int default 1)
returns table (
  chat_id uuid, user_id uuid, title text, reason text,
  tokens_total int, pending_turns int, due_since timestamptz, late_by interval,
  job_id bigint, job_kind text, job_state text, job_attempt int, job_scheduled_at timestamptz, job_last_error text)
language sql stable security invoker set search_path = '' as $$
  select b.chat_id, b.user_id, c.title,
         case when b.stale then 'a covered message was edited or deleted'
              when not b.readable then 'the brief cannot be read'
              when expiry.expired then 'the chat expired with turns out of its brief'
              when b.pending_turns > c.max_turns then 'more turns than max_turns are out of the brief'
              else 'the buffer is over the threshold' end,
         b.brief_tokens + b.pending_tokens, b.pending_turns, due.since, now() - due.since,
         job.id, job.kind, job.state::text, job.attempt::int, job.scheduled_at,
         job.errors[array_upper(job.errors, 1)] ->> 'error'
    from public.conversation_briefs b
    join public.chats c on c.id = b.chat_id
   cross join lateral (select coalesce(c.expires_at <= now(), false) as expired) expiry
    -- Due since the message with which the buffer went over the limits, or since the chat expired.
    left join lateral (
      select min(grown.created_at) as since
        from (select m.created_at,
                     sum(m.token_count) over upto as tokens,
                     count(*) filter (where m.role = 'user') over upto as turns
                from public.messages m
               where m.chat_id = b.chat_id and m.seq > b.covered_seq
              window upto as (order by m.seq)) grown
       where inspect.is_due(b.brief_tokens, grown.tokens, grown.turns, c.memory_strategy, c.max_turns, false, chunk_summarize_threshold,
                            k_raw_turns, bridge_token_budget, min_tail_turns)) over_limit on true
    left join lateral (
      select j.* from river.river_job j
       where j.kind in ('fold_brief', 'rebuild_brief') and j.args @> jsonb_build_object('chat_id', b.chat_id)
       order by j.id desc limit 1) job on true
    -- When a brief became stale or unreadable is not kept; its job or its latest change is the best that is known.
   cross join lateral (
      select case when b.stale or not b.readable then least(over_limit.since, b.updated_at, case when job.finalized_at is null then job.created_at end)
                  else least(over_limit.since, case when expiry.expired then c.expires_at end) end as since) due
   where b.stale or not b.readable
      or inspect.is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, expiry.expired,
                        chunk_summarize_threshold, k_raw_turns, bridge_token_budget, min_tail_turns)
   order by due.since
$$;

comment on function inspect.due_folds is
  'Chats whose brief should change but has not yet, for the given MEMORY_CHUNK_SUMMARIZE_THRESHOLD, MEMORY_K_RAW_TURNS, '
  'MEMORY_BRIDGE_TOKEN_BUDGET and MEMORY_MIN_TAIL_TURNS, the longest due first, each with its latest job.';

create view inspect.late_folds with (security_invoker = true) as
select * from inspect.due_folds();

comment on view inspect.late_folds is
  'inspect.due_folds with the server''s default limits.';

revoke all on function inspect.is_due(int, bigint, bigint, text, int, boolean, int, int, int, int), inspect.due_folds(int, int, int, int)
  from public, anon, authenticated;
revoke all on inspect.late_folds from public, anon, authenticated;
grant execute on function inspect.is_due(int, bigint, bigint, text, int, boolean, int, int, int, int), inspect.due_folds(int, int, int, int) to service_role;
grant select on inspect.late_folds to service_role;
