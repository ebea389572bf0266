-- What a chat talks about: its turns grouped into topics that fade and come back. Derived from messages and turn_index, apart
-- from what the user set: title, tags, importance.
--
-- Locks are taken in this order everywhere: chats, messages, conversation_briefs, topics, memory_users, memories. Whoever
-- writes turn_index holds the lock of the brief, and locks topics after it.

create table public.topics (
  id               uuid        not null default gen_random_uuid(),
  chat_id          uuid        not null,
  user_id          uuid        not null,
  -- 1, 2, 3 … within the chat.
  number           int         not null,
  title            text        not null,
  -- The message that the title was made of; 0 if it was made with the summary, or is '…' until it is made; null once
  -- somebody renamed the topic.
  title_seq        bigint,
  -- Holds the messages of the topic up to summary_seq; null where there is none.
  summary          text,
  summary_tokens   int         not null default 0,
  summary_seq      bigint      not null default 0,
  tags             text[]      not null default '{}',
  importance       real        not null default 1.0,
  -- A person or the app said how important it is.
  importance_rated boolean     not null default false,
  -- Turns that came back to it; the first one made it.
  access_count     int         not null default 0,
  -- The number of throughline.topic_messages.
  message_count    int         not null default 0,
  -- The mean of so many vectors, and shorter than they are the more they differ; null for none.
  centroid         throughline.embedding,
  embedding_model  text,
  centroid_turns   int         not null default 0,
  -- When the first and the last of its turns were said.
  created_at       timestamptz not null,
  last_active_at   timestamptz not null,
  -- The first message of its first turn, the last of its last.
  first_seq        bigint      not null,
  last_seq         bigint      not null,
  -- The messages of the topic up to here are packed: no prompt and no context shows them word for word. They stay in messages,
  -- from which the archive is made when somebody asks for it.
  compacted_seq    bigint      not null default 0,
  -- How many they are.
  compacted_messages int       not null default 0,
  -- archived: it faded. Its messages are packed and its turns have no vectors; a turn that matches it makes it active again.
  -- merged: its turns belong to merged_into, or to what that was merged into.
  state            text        not null default 'active',
  merged_into      uuid,
  -- The conversation came back to it and it was unpacked: not packed again while the talk is about it.
  rehydrated       boolean     not null default false,
  -- Summary, compacted_seq and a title '…' are to be made again.
  stale            boolean     not null default false,
  -- One more with every change of title, summary, compacted_seq, state, merged_into and stale, and when a message is deleted.
  version          bigint      not null default 1,
  -- The chat has its topics switched off: nothing of them is due.
  paused           boolean     not null default false,

  constraint topics_pkey primary key (id),
  constraint topics_chat_id_number_key unique (chat_id, number),
  constraint topics_title_length check (char_length(title) between 1 and 80 and title ~ '\S'),
  constraint topics_tags_bounded check (
    cardinality(tags) <= 20 and array_position(tags, null) is null and octet_length(tags::text) <= 8000),
  constraint topics_importance_range check (importance between 0 and 1),
  constraint topics_state_known check (state in ('active', 'archived', 'merged')),
  constraint topics_merged_whole check ((state = 'merged') = (merged_into is not null) and merged_into <> id),
  constraint topics_counters check (
    number >= 1 and access_count >= 0 and message_count >= 0 and centroid_turns >= 0 and summary_tokens >= 0
    and summary_seq >= 0 and compacted_seq >= 0 and compacted_messages >= 0 and version >= 1),
  constraint topics_range check (first_seq <= last_seq),
  constraint topics_centroid_whole check (
    (centroid is null) = (embedding_model is null) and (centroid is null) = (centroid_turns = 0)),
  -- See chats_dates_storable.
  constraint topics_dates_storable check (
    least(created_at, last_active_at) >= '0001-01-01 00:00Z' and greatest(created_at, last_active_at) < '10000-01-01 00:00Z')
)
-- Every turn updates its topic.
with (fillfactor = 70);

create index topics_user_id_idx on public.topics (user_id);
-- For the sweep and the hourly jobs: chats with many topics, topics that are too long, to be made again, have messages packed that
-- no summary holds, or were archived before they had a summary.
create index topics_active_idx on public.topics (chat_id) where state = 'active';
create index topics_unpacked_idx on public.topics ((message_count - compacted_messages))
  where state = 'active' and not rehydrated and not paused;
create index topics_stale_idx on public.topics (chat_id) where stale and not paused;
create index topics_unsummarized_idx on public.topics (chat_id) where state = 'active' and summary_seq < compacted_seq and not paused;
create index topics_archived_bare_idx on public.topics (message_count) where state = 'archived' and summary_seq = 0 and not paused;
-- For note_topic.
create index topics_rehydrated_idx on public.topics (chat_id) where rehydrated;

-- Not compressed: a vector does not shrink.
alter table public.topics alter column centroid set storage external;

-- For jobs.
create view throughline.own_topics as select * from public.topics where user_id = (select throughline.uid()) with check option;

-- What a phone may read, without vectors and what only workers use, and what it may write.
call throughline.protect('public.topics',
  clients => 'select (id, chat_id, user_id, number, title, title_seq, summary, summary_tokens, summary_seq, tags, importance, importance_rated,
    access_count, message_count, created_at, last_active_at, first_seq, last_seq, compacted_seq, compacted_messages,
    state, merged_into, stale, version),
    update (title, tags, importance)',
  server => 'select, update',
  jobs => 'select, insert, update, delete', per_user => -0.01);

-- The messages of topics: what the user and the assistant said in their turns. For triggers and for
-- people with psql; throughline.topic_messages is the same for everybody else. offset 0: the messages of each turn by their
-- index; the other way around, which Postgres would choose for a long topic, reads half of its turns for each message.
create view throughline.messages_of_topics as
select i.topic_id, i.chat_id, i.user_id, m.seq, m.role, m.content, m.created_at, m.token_count
  from public.turn_index i
 cross join lateral (
   select o.seq, o.role, o.content, o.created_at, o.token_count from public.messages o
    where o.chat_id = i.chat_id and o.seq between i.seq and i.last_seq
      and o.role in ('user', 'assistant') and o.token_count > 0 and o.superseded_by is null offset 0) m
 where i.topic_id is not null;
revoke all on throughline.messages_of_topics from anon, authenticated;
grant select on throughline.messages_of_topics to service_role;

-- The messages of a topic of the user in the claims, in their order. The server reads them as the app's rules permit, a job
-- through its views.
create function throughline.topic_messages(topic uuid)
returns table (seq bigint, role text, content text, created_at timestamptz, token_count int)
language plpgsql stable security invoker set search_path = '' as $$
begin
  if current_user = 'throughline_worker' then
    return query
      select m.seq, m.role, m.content, m.created_at, m.token_count
        from throughline.own_turn_index i
       cross join lateral (
         select o.seq, o.role, o.content, o.created_at, o.token_count from throughline.own_messages o
          where o.chat_id = i.chat_id and o.seq between i.seq and i.last_seq
            and o.role in ('user', 'assistant') and o.token_count > 0 and o.superseded_by is null offset 0) m
       where i.topic_id = topic
       order by m.seq;
  else
    return query
      select m.seq, m.role, m.content, m.created_at, m.token_count
        from public.turn_index i
       cross join lateral (
         select o.seq, o.role, o.content, o.created_at, o.token_count from public.messages o
          where o.chat_id = i.chat_id and o.seq between i.seq and i.last_seq
            and o.role in ('user', 'assistant') and o.token_count > 0 and o.superseded_by is null offset 0) m
       where i.topic_id = topic
       order by m.seq;
  end if;
end
$$;

-- A title that changes without the message it was made of being named, but to the one that waits for another, was given by a
-- person, and so was an importance, unless a job changes them. Who commits what a model said compares the version.
create function throughline.keep_topic() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if tg_op = 'INSERT' or new.title <> old.title then
    new.title := btrim(regexp_replace(new.title, '[\x01-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+', ' ', 'g'));
  end if;
  if tg_op = 'UPDATE' then
    if current_user <> 'throughline_worker' then
      if new.title not in (old.title, '…') and new.title_seq = old.title_seq then
        new.title_seq := null;
      end if;
      new.importance_rated := new.importance_rated or new.importance <> old.importance;
    end if;
    if new.version = old.version
       and (new.title, new.title_seq, new.summary, new.summary_seq, new.compacted_seq, new.state, new.merged_into, new.stale)
           is distinct from
           (old.title, old.title_seq, old.summary, old.summary_seq, old.compacted_seq, old.state, old.merged_into, old.stale) then
      new.version := old.version + 1;
    end if;
  end if;
  return new;
end
$$;

create trigger topics_keep before insert or update on public.topics for each row execute function throughline.keep_topic();

-- The topic of a message is as important as the message was rated last, and at least 0.9 when it was pinned. Waits for the
-- brief's lock, so that a job that assigns topics at this moment either sees the change or is seen. SECURITY DEFINER: who
-- writes messages needs no right to topics.
create function throughline.rate_topic() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (new.content, new.role, new.token_count) is distinct from (old.content, old.role, old.token_count) then
    -- The triggers of an edit lock the chat, too, after this one.
    perform from public.chats c where c.id = new.chat_id for no key update;
  end if;
  perform from public.conversation_briefs b where b.chat_id = new.chat_id for update;
  update public.topics t
     set importance = rated.importance, importance_rated = true
    from (select i.topic_id, i.last_seq from public.turn_index i where i.chat_id = new.chat_id and i.seq <= new.seq order by i.seq desc limit 1) turn
   cross join lateral (
     select greatest(case when new.importance is distinct from old.importance then new.importance end,
                     case when new.pinned then 0.9 end)::real as importance) rated
   where turn.last_seq >= new.seq and t.id = turn.topic_id
     and (new.importance is distinct from old.importance or t.importance < rated.importance);
  return null;
end
$$;

create trigger messages_rate_topic after update of pinned, importance on public.messages
  for each row when (new.pinned and not old.pinned or new.importance is distinct from old.importance and new.importance is not null)
  execute function throughline.rate_topic();
