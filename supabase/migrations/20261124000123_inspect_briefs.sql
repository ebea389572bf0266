-- What the memory holds and why, for people with psql: views in a schema that no API exposes. They run with the rights of the
-- caller (security_invoker), so row level security applies. sql/inspect has a script for each question.

-- The job of a fold is part of the picture; River's other tables are not.
grant usage on schema river to service_role;
grant select on river.river_job to service_role;

-- The sentences of a summary, in order; each line of a list is a sentence.
create function inspect.sentences(summary text) returns text[]
language sql immutable security invoker set search_path = '' as $$
  select coalesce(array_agg(s.sentence order by s.place), '{}')
    from regexp_split_to_table(summary, '(?<=[.!?…])\s+|(?<=[。！？])|\n+') with ordinality s (sentence, place)
   where s.sentence <> ''
$$;

-- The sentences of summary that other does not have. Null if one of them is null.
create function inspect.sentences_only_in(summary text, other text) returns text[]
language sql immutable security invoker set search_path = '' as $$
  select case when summary is not null and other is not null then
    array(select s.sentence
            from unnest(inspect.sentences(summary)) with ordinality s (sentence, place)
           where s.sentence <> all (inspect.sentences(other))
           order by s.place)
  end
$$;

-- A whole number in jsonb that an app may write to as well; null for anything else.
create function inspect.number_in(object jsonb, key text) returns bigint
language sql immutable security invoker set search_path = '' as $$
  select case when object -> key between '-1000000000000000000' and '1000000000000000000' then trunc((object -> key)::numeric)::bigint end
$$;

create view inspect.briefs with (security_invoker = true) as
select b.chat_id, b.user_id, c.title,
       b.version,
       b.brief ->> 'global_summary' as global_summary,
       b.brief_tokens,
       case when b.readable then (b.brief ->> 'last_summarized_message_id')::uuid end as last_summarized_message_id,
       b.covered_seq, c.last_seq, covered.turns as covered_turns, b.pending_turns, b.pending_tokens,
       b.edit_count,
       w.lease_until, coalesce(w.lease_until > now(), false) as folding_now,
       draft.pieces_done, draft.pieces,
       coalesce(w.failures, 0) as fold_failures, w.failure as fold_failure, w.failing_since, w.retry_at,
       latest.created_at as changed_at, now() - latest.created_at as age,
       c.last_message_at,
       c.memory_strategy, c.max_turns, c.tool_name, c.expires_at, coalesce(c.expires_at <= now(), false) as expired, b.cleared_seq, c.tags
  from public.conversation_briefs b
  join public.chats c on c.id = b.chat_id
  left join throughline.work w on w.kind = 'fold' and w.key = b.chat_id
  left join public.conversation_brief_revisions latest on latest.chat_id = b.chat_id and latest.version = b.version
  left join public.conversation_brief_drafts draft on draft.chat_id = b.chat_id
 cross join lateral (select count(*) as turns from public.messages m
                      where m.chat_id = b.chat_id and m.seq > b.cleared_seq and m.seq <= b.covered_seq and m.role = 'user' and m.token_count > 0) covered;

comment on view inspect.briefs is
  'Each chat''s brief: its text, how old it is, what it covers, whether a fold is at work and how '
  'far it has come, and how often and why folds were put off.';

create view inspect.buffers with (security_invoker = true) as
select b.chat_id, b.user_id, c.title,
       b.pending_turns, b.pending_tokens, b.brief_tokens,
       b.brief_tokens + b.pending_tokens as tokens_total,
       b.covered_seq + 1 as seq_from, c.last_seq as seq_to,
       held.messages, held.turns as counted_turns, held.tokens as counted_tokens,
       (held.turns, held.tokens) = (b.pending_turns, b.pending_tokens) as counters_agree,
       held.oldest_at, now() - held.oldest_at as oldest_age
  from public.conversation_briefs b
  join public.chats c on c.id = b.chat_id
 cross join lateral (select count(*) as messages, count(*) filter (where m.role = 'user' and m.token_count > 0) as turns,
                            coalesce(sum(m.token_count), 0) as tokens, min(m.created_at) as oldest_at
                       from public.messages m
                      where m.chat_id = b.chat_id and m.seq > b.covered_seq) held;

comment on view inspect.buffers is
  'Each chat''s chunk buffer; throughline.fold_is_due decides when it is folded. counters_agree compares the triggers'' counters with a count '
  'made now.';

create view inspect.revisions with (security_invoker = true) as
select r.chat_id, r.user_id, r.version, r.kind, r.created_at,
       r.seq_from, r.seq_to, r.turns, r.undone_by,
       inspect.number_in(r.details, 'turns_tokens') as turns_tokens,
       inspect.number_in(r.details, 'tokens_before') as tokens_before,
       inspect.number_in(r.details, 'tokens_after') as tokens_after,
       r.global_summary is null as redacted,
       r.global_summary, r.previous_summary, r.previous_version,
       inspect.sentences_only_in(r.global_summary, r.previous_summary) as sentences_added,
       inspect.sentences_only_in(r.previous_summary, r.global_summary) as sentences_removed,
       r.model, r.prompt_mode, r.prompt_ref, r.input_tokens, r.output_tokens, r.duration_ms, r.input_sha256,
       inspect.number_in(r.details, 'calls') as calls, r.details -> 'refusals' as refusals
  from (select revision.*,
               lag(revision.version) over history as previous_version,
               -- '' before the first revision; null after a redacted one.
               case when lag(revision.version) over history is null then ''
                    else lag(revision.global_summary) over history end as previous_summary
          from public.conversation_brief_revisions revision
        window history as (partition by revision.chat_id order by revision.version)) r;

comment on view inspect.revisions is
  'Every change of every brief: which messages it brought in, what it cost, and which sentences came and went.';

-- The database does not know the server's configuration, so the limits are arguments; the defaults are the
-- server's.
create function inspect.due_folds(
  chunk_summarize_threshold int default 6000, k_raw_turns int default 3,
  bridge_token_budget int default 6000, min_tail_turns int default 1, prompt_token_budget int default 3000, history_tokens int default 37333)
returns table (
  chat_id uuid, user_id uuid, title text, reason text,
  tokens_total int, pending_turns int, due_since timestamptz, late_by interval,
  fold_failures int, fold_failure text, retry_at timestamptz,
  job_id bigint, job_kind text, job_state text, job_attempt int, job_scheduled_at timestamptz, job_last_error text)
language sql stable security invoker set search_path = '' as $$
  select b.chat_id, b.user_id, c.title,
         case when b.pending_turns > c.max_turns then 'more turns than max_turns are out of the brief'
              else 'the buffer is over the threshold' end,
         b.brief_tokens + b.pending_tokens, b.pending_turns, due.since, now() - due.since,
         coalesce(w.failures, 0), w.failure, w.retry_at,
         job.id, job.kind, job.state::text, job.attempt::int, job.scheduled_at,
         job.errors[array_upper(job.errors, 1)] ->> 'error'
    from public.conversation_briefs b
    join public.chats c on c.id = b.chat_id
    left join throughline.work w on w.kind = 'fold' and w.key = b.chat_id
    left join lateral (
      select j.* from river.river_job j
       where j.kind = 'fold_brief' and j.args @> jsonb_build_object('chat_id', b.chat_id)
       order by j.id desc limit 1) job on true
    -- What makes a chat due inserts its job, and the next one when a fold leaves it due. What no job says is about to
    -- be found by the sweep.
   cross join lateral (
      select coalesce(least(w.failing_since, case when job.finalized_at is null then job.created_at end), b.updated_at) as since) due
   where throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns,
                                 chunk_summarize_threshold, k_raw_turns, bridge_token_budget, min_tail_turns, prompt_token_budget,
                                 c.tool_name is not null, history_tokens)
   order by due.since
$$;

comment on function inspect.due_folds is
  'Chats whose brief should change but has not yet, for the given MEMORY_CHUNK_SUMMARIZE_THRESHOLD, MEMORY_K_RAW_TURNS, '
  'MEMORY_BRIDGE_TOKEN_BUDGET, MEMORY_MIN_TAIL_TURNS, MEMORY_PROMPT_TOKEN_BUDGET and history''s part of the smallest window, the longest due '
  'first, each with its latest job.';

create view inspect.late_folds with (security_invoker = true) as
select * from inspect.due_folds();

comment on view inspect.late_folds is
  'inspect.due_folds with the server''s default limits.';

create view inspect.tokens_by_day with (security_invoker = true) as
select (e.created_at at time zone 'UTC')::date as day, e.purpose, e.model, count(*) as calls,
       sum(e.input_tokens) as input_tokens, sum(e.cached_tokens) as cached_tokens, sum(e.output_tokens) as output_tokens
  from public.usage_events e
 group by 1, e.purpose, e.model;

comment on view inspect.tokens_by_day is
  'Calls and tokens by day (UTC), purpose (reply, fold, extract, consolidate, entities, topic, rewrite) and model: every call, also '
  'those that failed and those that were made again. cached_tokens are within input_tokens, as in the model''s bill.';

create view inspect.turns with (security_invoker = true) as
select head.chat_id, head.user_id,
       row_number() over (partition by head.chat_id order by head.seq) as turn,
       case when head.role = 'user' and head.token_count > 0 then head.seq end as user_seq, reply.seq as reply_seq,
       case when head.role = 'user' and head.token_count > 0 then head.id end as user_message_id, reply.id as message_id,
       head.created_at,
       case when head.role = 'user' and head.token_count > 0 then head.content end as user_content, reply.content as reply_content,
       reply.status, reply.metadata ->> 'model_variant' as model_variant, reply.metadata ->> 'model' as model,
       case when head.role = 'user' and head.token_count > 0 then head.token_count end as user_tokens, reply.token_count as reply_tokens,
       inspect.number_in(reply.metadata -> 'usage', 'input_tokens') as input_tokens,
       inspect.number_in(reply.metadata -> 'usage', 'cached_tokens') as cached_tokens,
       inspect.number_in(reply.metadata -> 'usage', 'output_tokens') as output_tokens,
       reply.metadata ->> 'finish_reason' as finish_reason,
       reply.metadata -> 'failure' ->> 'code' as failure_code,
       coalesce(head.seq <= b.covered_seq and head.seq > b.cleared_seq, false) as covered,
       (select min(r.version) from public.conversation_brief_revisions r
         where r.chat_id = head.chat_id and r.kind <> 'clear' and head.seq between r.seq_from and r.seq_to) as covered_in_version,
       -- The receipt: how much of the conversation was in the prompt of this reply.
       inspect.number_in(reply.metadata -> 'memory', 'brief_version') as brief_version,
       inspect.number_in(reply.metadata -> 'memory', 'brief_tokens') as brief_tokens,
       inspect.number_in(reply.metadata -> 'memory', 'covered_through_seq') as covered_through_seq,
       inspect.number_in(reply.metadata -> 'memory', 'bridge_turns') as bridge_turns,
       inspect.number_in(reply.metadata -> 'memory', 'bridge_tokens') as bridge_tokens,
       inspect.number_in(reply.metadata -> 'memory', 'tail_turns') as tail_turns,
       inspect.number_in(reply.metadata -> 'memory', 'tail_tokens') as tail_tokens,
       inspect.number_in(reply.metadata -> 'memory', 'dropped_turns') as dropped_turns,
       reply.metadata -> 'memory' -> 'truncated' = 'true' as truncated,
       -- Before the point at which the context was cleared: in no prompt and no brief.
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
                 on question.chat_id = a.chat_id and question.id = a.reply_to and question.role = 'user' and question.token_count > 0
              where a.role = 'assistant'
              order by a.chat_id, coalesce(question.id, a.id), a.seq desc) reply
    on reply.chat_id = head.chat_id and reply.head_id = head.id
 where head.role = 'user' and head.token_count > 0
    -- A reply whose question was deleted is a turn of its own.
    or head.role = 'assistant' and reply.id is not null;

comment on view inspect.turns is
  'Each turn of each chat: the question, the latest reply to it, what that cost, whether the brief covers the turn and since which '
  'version, and the reply''s receipt.';

create view inspect.unindexed with (security_invoker = true) as
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
          and not exists (select from public.messages m where m.chat_id = b.chat_id and m.status in ('streaming', 'awaiting'))
       then 'nobody has spoken for a minute: the next sweep indexes them' end as reason) due
 where missing.messages > 0 and due.reason is not null;

comment on view inspect.unindexed is
  'Each chat with turns that should be in the index and are not, and why: recall cannot find them. Empty when workers have nothing to do; '
  'turns of a chat in which somebody is talking are in the prompt and wait.';
