-- What a chat talks about and how present that is, for people with psql; see the views of inspect before.

-- The time in which the priority of a topic halves; see HalfLifeOf in internal/memory/topics.
create function inspect.topic_half_life(accesses int, half_life interval default '24 hours', half_life_max interval default '720 hours',
  long_term_accesses int default 5)
returns interval
language sql immutable security invoker set search_path = '' as $$
  select least(half_life * (2 ^ least(greatest(accesses, 0) / greatest(long_term_accesses, 1), 20)), greatest(half_life_max, half_life))
$$;

-- What a topic's importance has faded to after this time.
create function inspect.topic_priority(importance real, inactive interval, half_life interval) returns float8
language sql immutable security invoker set search_path = '' as $$
  select importance * 0.5 ^ least(greatest(extract(epoch from inactive)::float8, 0) / greatest(extract(epoch from half_life)::float8, 1), 1000)
$$;

-- After how long it has faded to 0.05, from which on it is archived in a chat with too many.
create function inspect.topic_fades_after(importance real, half_life interval) returns interval
language sql immutable security invoker set search_path = '' as $$
  select case when importance > 0.05::real then half_life * (ln(importance::float8 / 0.05) / ln(2.0::float8)) else '0' end
$$;

create view inspect.topics with (security_invoker = true) as
select t.id as topic_id, t.chat_id, t.user_id, c.title as chat_title, t.number, t.title, t.title_seq is null as renamed, t.tags,
       t.state, t.stale, t.rehydrated,
       t.message_count as messages, t.message_count - t.compacted_messages as active_messages, t.compacted_messages as compressed_messages,
       has.turns, has.vectors,
       t.importance, t.importance_rated, t.access_count,
       case when t.access_count < 5 then 'short-term' when t.access_count < 10 then 'transitioning' else 'long-term' end as memory_type,
       faded.half_life, faded.inactive, inspect.topic_priority(t.importance, faded.inactive, faded.half_life) as priority,
       greatest(0, extract(epoch from inspect.topic_fades_after(t.importance, faded.half_life) - faded.inactive) / 86400)::float8 as days_until_faded,
       t.summary, t.summary_tokens, t.summary_seq,
       t.embedding_model, t.centroid_turns, t.first_seq, t.last_seq, t.compacted_seq, t.created_at, t.last_active_at, t.merged_into, t.version,
       -- The counters are those of a recount.
       t.state = 'merged' or said.messages = t.message_count and said.packed = t.compacted_messages as counters_agree,
       coalesce(w.lease_until > now(), false) as compacting_now, w.retry_at,
       job.id as job_id, job.state as job_state, job.attempt as job_attempt, job.last_error as job_last_error
  from public.topics t
  join public.chats c on c.id = t.chat_id
  left join throughline.work w on w.kind = 'compact' and w.key = t.id
 cross join lateral (
   select inspect.topic_half_life(t.access_count) as half_life, now() - t.last_active_at as inactive) faded
 cross join lateral (
   select count(*) as turns, count(i.embedding_model) as vectors from public.turn_index i where i.topic_id = t.id and i.chat_id = t.chat_id) has
 cross join lateral (
   select count(*) as messages, count(*) filter (where m.seq <= t.compacted_seq) as packed
     from throughline.messages_of_topics m where m.topic_id = t.id and m.chat_id = t.chat_id) said
  left join lateral (
   select j.id, j.state::text as state, j.attempt::int as attempt, j.errors[array_upper(j.errors, 1)] ->> 'error' as last_error
     from river.river_job j
    where j.kind = 'compact_topic' and j.args @> jsonb_build_object('topic_id', t.id) and j.finalized_at is null
    order by j.id desc limit 1) job on true;

comment on view inspect.topics is
  'Each topic of each chat: what it is called, how many of its messages are packed, how present it is now and for how long, by the default '
  'half-lives; and the job that packs it. Reads the chat''s index: ask for one chat_id.';

create view inspect.unassigned_turns with (security_invoker = true) as
select i.chat_id, i.user_id, c.title as chat_title, i.seq, i.last_seq, i.said_at, now() - i.said_at as age,
       i.topic_id, i.embedding_model,
       case
         when job.kind = 'assign_topics' then 'its job is ' || job.state
         when c.topics = 'off' then 'the chat has no topics'
         when i.embedding is null and job.kind is not null then 'it waits for its vector, whose job is ' || job.state
         when i.topic_id is not null then 'it was given the topic of the turn before, until it has a vector'
         when c.memory_strategy = 'simple' and c.topics <> 'on' then 'the chat is simple: it has topics only when they are on for it'
         when c.topics = 'auto' and b.covered_seq = 0 and not exists (select from public.topics t where t.chat_id = i.chat_id)
           then 'chats have topics from their first fold on, or at once with TOPICS=on'
         else 'no job: the next sweep inserts one, unless TOPICS or RECALL is off' end as reason,
       job.id as job_id, job.kind as job_kind, job.state as job_state, job.attempt as job_attempt, job.last_error as job_last_error
  from public.turn_index i
  join public.chats c on c.id = i.chat_id
  join public.conversation_briefs b on b.chat_id = i.chat_id
  left join lateral (
   select j.id, j.kind, j.state::text as state, j.attempt::int as attempt, j.errors[array_upper(j.errors, 1)] ->> 'error' as last_error
     from river.river_job j
    where j.kind in ('assign_topics', 'embed_turns') and j.args @> jsonb_build_object('chat_id', i.chat_id) and j.finalized_at is null
    order by j.kind, j.id desc limit 1) job on true
 where i.topic_id is null or i.topic_model is null;

comment on view inspect.unassigned_turns is
  'Each indexed turn without a topic, or with one that was not chosen by its meaning yet, and why.';
