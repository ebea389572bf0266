-- inspect.due_folds by the rule that folds go by now: few turns are due as well, when they are so long that
-- the prompt could not show them all.

drop view inspect.late_folds;
drop function inspect.due_folds(int, int);

-- The rule of memory.Due, which a test holds it to.
create function inspect.is_due(
  brief_tokens int, pending_tokens bigint, pending_turns bigint,
  chunk_summarize_threshold int, k_raw_turns int, bridge_token_budget int, min_tail_turns int)
returns boolean
language sql immutable security invoker set search_path = '' as $$
  select brief_tokens + pending_tokens > chunk_summarize_threshold
     and (pending_turns > k_raw_turns
       or bridge_token_budget > 0 and pending_tokens > bridge_token_budget and pending_turns > greatest(1, min_tail_turns))
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
         case when b.stale then 'a covered message was edited or deleted' else 'the buffer is over the threshold' end,
         b.brief_tokens + b.pending_tokens, b.pending_turns, due.since, now() - due.since,
         job.id, job.kind, job.state::text, job.attempt::int, job.scheduled_at,
         job.errors[array_upper(job.errors, 1)] ->> 'error'
    from public.conversation_briefs b
    join public.chats c on c.id = b.chat_id
    -- Due since the message with which the buffer went over the limits.
    left join lateral (
      select min(grown.created_at) as since
        from (select m.created_at,
                     sum(m.token_count) over upto as tokens,
                     count(*) filter (where m.role = 'user') over upto as turns
                from public.messages m
               where m.chat_id = b.chat_id and m.seq > b.covered_seq
              window upto as (order by m.seq)) grown
       where inspect.is_due(b.brief_tokens, grown.tokens, grown.turns, chunk_summarize_threshold, k_raw_turns,
                            bridge_token_budget, min_tail_turns)) over_limit on true
    left join lateral (
      select j.* from river.river_job j
       where j.kind in ('fold_brief', 'rebuild_brief') and j.args @> jsonb_build_object('chat_id', b.chat_id)
       order by j.id desc limit 1) job on true
    -- When a brief became stale is not kept; its job or its latest change is the best that is known.
   cross join lateral (
      select case when b.stale
        then least(over_limit.since, b.updated_at, case when job.finalized_at is null then job.created_at end)
        else over_limit.since end as since) due
   where b.stale
      or inspect.is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, chunk_summarize_threshold, k_raw_turns,
                        bridge_token_budget, min_tail_turns)
   order by due.since
$$;

comment on function inspect.due_folds is
  'Chats whose brief should change but has not yet, for the given MEMORY_CHUNK_SUMMARIZE_THRESHOLD, MEMORY_K_RAW_TURNS, '
  'MEMORY_BRIDGE_TOKEN_BUDGET and MEMORY_MIN_TAIL_TURNS, the longest due first, each with its latest job.';

create view inspect.late_folds with (security_invoker = true) as
select * from inspect.due_folds();

comment on view inspect.late_folds is
  'inspect.due_folds with the server''s default limits.';

comment on view inspect.buffers is
  'Each chat''s chunk buffer; inspect.is_due says when it is folded. counters_agree compares the triggers'' counters with a count '
  'made now.';

revoke all on function inspect.is_due(int, bigint, bigint, int, int, int, int), inspect.due_folds(int, int, int, int)
  from public, anon, authenticated;
revoke all on inspect.late_folds from public, anon, authenticated;
grant execute on function inspect.is_due(int, bigint, bigint, int, int, int, int), inspect.due_folds(int, int, int, int) to service_role;
grant select on inspect.late_folds to service_role;
