-- What users are remembered for and why, for people with psql; see the views of inspect before.

create view inspect.memories with (security_invoker = true) as
select m.id as memory_id, m.user_id, m.content, m.memory_type, m.status, m.confidence, m.durable, m.pinned, m.edited, m.origin, m.lang,
       m.valid_from, m.valid_to, m.valid_precision, m.recorded_at, m.retracted_at,
       said.times as times_said, said.first_at as first_said_at, said.last_at as last_said_at, said.chats, said.quotes,
       m.superseded_by, successor.content as superseded_by_content, m.conflicts_with,
       m.last_accessed, m.access_count, now() - coalesce(m.last_accessed, greatest(m.recorded_at, m.created_at)) as unused,
       m.version, about.entities, m.embedding_model, m.source_session_id, m.created_at, m.updated_at
  from public.memories m
  left join public.memories successor on successor.user_id = m.user_id and successor.id = m.superseded_by
 cross join lateral (
   select count(*) as times, min(s.said_at) as first_at, max(s.said_at) as last_at, count(distinct s.chat_id) as chats,
          array_agg(s.quote order by s.said_at, s.seq) filter (where s.quote <> '') as quotes
     from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id) said
 cross join lateral (
   select array_agg(e.name order by e.name) as entities
     from public.memory_mentions n join public.memory_entities e on e.user_id = n.user_id and e.id = n.entity_id
    where n.user_id = m.user_id and n.memory_id = m.id) about;

comment on view inspect.memories is
  'Each memory of each user: what it says, since when and how surely, where it was said and in which words, what it is about, when a '
  'reply last used it, and what took its place.';

create view inspect.memory_history with (security_invoker = true) as
select r.memory_id, r.user_id, r.version, r.created_at, r.actor, r.action, r.content,
       lag(r.content) over history as previous_content,
       r.content is null as redacted,
       r.reason, r.model, r.prompt_ref,
       m.status as status_now
  from public.memory_revisions r
  join public.memories m on m.id = r.memory_id
window history as (partition by r.memory_id order by r.version);

comment on view inspect.memory_history is
  'Every change of every memory: by whom (model, user, decay, erasure), why, and what it said before. redacted: it held words of a message '
  'that was deleted or edited.';

create view inspect.extractions with (security_invoker = true) as
select e.chat_id, e.user_id, c.title, e.seq_from, e.seq_to, e.turns, e.result,
       e.candidates, e.added, e.updated, e.superseded, e.noops, e.dropped,
       (select coalesce(sum(inspect.number_in(e.dropped, reason)), 0)::bigint from jsonb_object_keys(e.dropped) reason) as dropped_facts,
       e.calls, e.input_tokens, e.output_tokens, e.model, e.prompt_ref, e.duration_ms, e.created_at,
       -- The ledger of a chat has no gap.
       e.seq_from = coalesce(lag(e.seq_to) over ledger, 0) + 1 as follows,
       (select count(*) from public.memory_sources s where s.user_id = e.user_id and s.extraction_id = e.id) as sources_left,
       e.id as extraction_id
  from public.memory_extractions e
  join public.chats c on c.id = e.chat_id
window ledger as (partition by e.chat_id order by e.seq_from);

comment on view inspect.extractions is
  'What was read for memories: each range of messages, what came of it, what the gate dropped and why, and what that cost. sources_left: '
  'how many sources of memories are from it today.';

create view inspect.unextracted with (security_invoker = true) as
select b.chat_id, b.user_id, c.title, due.reason,
       unread.turns as unread_turns, unread.messages as unread_messages, unread.oldest_at, now() - unread.oldest_at as oldest_age,
       b.extracted_seq, c.last_seq, b.extract_due_at, c.remember, coalesce(u.enabled, true) as enabled,
       exists (select from throughline.work w where w.kind = 'extract' and w.key = b.chat_id and w.lease_until > now()) as extracting_now,
       job.id as job_id, job.state as job_state, job.attempt as job_attempt, job.scheduled_at as job_scheduled_at, job.last_error as job_last_error
  from public.conversation_briefs b
  join public.chats c on c.id = b.chat_id
  left join public.memory_users u on u.user_id = b.user_id
 cross join lateral (
   select count(*) as messages, count(*) filter (where m.role = 'user') as turns, min(m.created_at) as oldest_at
     from public.messages m
    where m.chat_id = b.chat_id and m.seq > b.extracted_seq and m.token_count > 0 and m.role <> 'system') unread
  left join lateral (
   select j.id, j.state::text as state, j.attempt::int as attempt, j.scheduled_at, j.errors[array_upper(j.errors, 1)] ->> 'error' as last_error
     from river.river_job j
    where j.kind = 'extract_memories' and j.args @> jsonb_build_object('chat_id', b.chat_id) and j.finalized_at is null
    order by j.id desc limit 1) job on true
 cross join lateral (
   select case
     when not c.remember then 'the chat is not remembered'
     when not coalesce(u.enabled, true) then 'the user switched memories off'
     when job.id is not null then 'its job is ' || job.state
     when b.extract_due_at is null then 'nothing is due: words of an import, or from before LONG_TERM_MEMORY was on; POST /v1/chats/:id/extract reads them'
     when b.extract_due_at <= now() then 'due and no job: the next sweep inserts one, unless LONG_TERM_MEMORY is off'
     else 'due when the chat has come to rest' end as reason) due
 where b.extracted_seq < c.last_seq and unread.turns > 0;

comment on view inspect.unextracted is
  'Each chat with turns that were not read for memories, and why not.';

create view inspect.graph with (security_invoker = true) as
select r.user_id, s.name as source, s.entity_type as source_type, r.relationship, t.name as target, t.entity_type as target_type,
       r.valid, r.valid_from, r.valid_to, r.recorded_at,
       r.memory_id, m.content as memory, m.status as memory_status,
       s.mentions as source_mentions, t.mentions as target_mentions, r.source_entity_id, r.target_entity_id, r.id as relationship_id
  from public.memory_relationships r
  join public.memory_entities s on s.user_id = r.user_id and s.id = r.source_entity_id
  join public.memory_entities t on t.user_id = r.user_id and t.id = r.target_entity_id
  join public.memories m on m.user_id = r.user_id and m.id = r.memory_id;

comment on view inspect.graph is
  'What memories say of two entities, since when and until when, and which memory says so.';

-- The ids in a list of a receipt, which an app may write to as well.
create function inspect.ids_in(object jsonb, key text) returns setof uuid
language sql immutable security invoker set search_path = '' as $$
  select e::uuid
    from jsonb_array_elements_text(case when jsonb_typeof(object -> key) = 'array' then object -> key else '[]' end) e
   where e ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'
$$;

create view inspect.why with (security_invoker = true) as
select r.id as message_id, r.chat_id, r.user_id, r.seq, r.created_at,
       shown.part, shown.place, shown.memory_id, shown.shown_seq, shown.said_at, shown.text, shown.sources
  from public.messages r
 cross join lateral (
   -- The brief that it was shown, unless it was redacted since.
   select 'brief' as part, 0::bigint as place, null::uuid as memory_id, b.seq_to as shown_seq, b.created_at as said_at, b.global_summary as text,
          null::text[] as sources
     from public.conversation_brief_revisions b
    where b.chat_id = r.chat_id and b.version = inspect.number_in(r.metadata -> 'memory', 'brief_version')
   union all
   -- Memories, as they are now; deleted ones have no row.
   select 'memory', shown.place, m.id, null, m.recorded_at, m.content,
          (select array_agg(format('%s: %s', to_char(s.said_at at time zone 'UTC', 'YYYY-MM-DD'), s.quote) order by s.said_at, s.seq)
             from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id)
     from inspect.ids_in(r.metadata -> 'memory', 'memories') with ordinality shown (id, place)
     join public.memories m on m.user_id = r.user_id and m.id = shown.id
   union all
   -- Turns that were recalled, by their questions.
   select 'recalled', e.place, null, m.seq, m.created_at, m.content, null
     from jsonb_array_elements(case when jsonb_typeof(r.metadata -> 'memory' -> 'recalled') = 'array' then r.metadata -> 'memory' -> 'recalled' else '[]' end)
          with ordinality e (seq, place)
     join public.messages m on m.chat_id = r.chat_id
      and m.seq = case when e.seq between '1' and '1000000000000000000' then trunc(e.seq::numeric)::bigint end) shown
 where r.role = 'assistant';

comment on view inspect.why is
  'What a reply was shown beside the conversation''s last turns: the brief of then, each memory with where it was said, and each turn that '
  'was recalled. From its receipt; texts are as they are now.';
