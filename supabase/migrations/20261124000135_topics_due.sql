-- What the sweep and the hourly jobs of topics look for is kept where it changes, in indexes that hold only what is due: chats
-- and topics that rest cost nothing, however many there are.

alter table public.conversation_briefs
  -- The chat's setting, copied by a trigger.
  add column topics text not null default 'auto',
  -- The model of the vectors that turns got whose topic was chosen without one: it is to be chosen again. Null: there are none.
  add column choose_model text,
  -- Topics changed since they were last compared with each other.
  add column compare_topics boolean not null default false,
  -- When topics of the chat may have faded; null where it had no more than it may have when it was last looked at.
  add column topics_fade_at timestamptz;

alter table public.topics
  -- The chat has its topics switched off: nothing of them is due.
  add column paused boolean not null default false;

-- With the new columns.
create or replace view throughline.own_briefs as
select * from public.conversation_briefs where user_id = (select auth.uid())
  with check option;
create or replace view throughline.own_topics as
select * from public.topics where user_id = (select auth.uid())
  with check option;

update public.conversation_briefs b set topics = c.topics from public.chats c where c.id = b.chat_id and c.topics <> 'auto';
update public.conversation_briefs b set choose_model = waiting.model
  from (select i.chat_id, max(i.embedding_model) as model from public.turn_index i
         where i.topic_id is not null and i.topic_model is null and i.embedding_model is not null group by i.chat_id) waiting
 where b.chat_id = waiting.chat_id;
update public.conversation_briefs b set compare_topics = true, topics_fade_at = now()
 where b.chat_id in (select t.chat_id from public.topics t where t.state = 'active' group by t.chat_id having count(*) > 1);
update public.topics t set paused = true from public.chats c where c.id = t.chat_id and c.topics = 'off';
update public.topics t set rehydrated = false
 where t.rehydrated and exists (select from public.topics o where o.chat_id = t.chat_id and o.state = 'active' and o.last_seq > t.last_seq);

-- For the sweep: chats with turns that have no topic, by the setting of the server with which they have topics.
drop index public.conversation_briefs_to_assign_idx;
drop index public.chats_topics_on_idx;
create index conversation_briefs_to_assign_idx on public.conversation_briefs
  ((case when covered_seq > 0 or topics = 'on' then 'auto' else 'on' end), chat_id) where assigned_seq < indexed_seq and topics <> 'off';
create index conversation_briefs_choose_model_idx on public.conversation_briefs (choose_model, chat_id)
  where choose_model is not null and topics <> 'off';
-- For the hourly jobs.
create index conversation_briefs_compare_topics_idx on public.conversation_briefs (chat_id) where compare_topics and topics <> 'off';
create index conversation_briefs_topics_fade_at_idx on public.conversation_briefs (topics_fade_at, chat_id)
  where topics_fade_at is not null and topics <> 'off';

-- For the sweep: topics that are too long, to be made anew, or to be tried again.
drop index public.topics_unpacked_idx, public.topics_stale_idx, public.topics_retry_at_idx, public.topics_archived_bare_idx;
create index topics_unpacked_idx on public.topics ((message_count - coalesce(archive_messages, 0)))
  where state = 'active' and not rehydrated and not paused;
create index topics_stale_idx on public.topics (chat_id) where stale and not paused;
create index topics_retry_at_idx on public.topics (retry_at)
  where retry_at is not null and state = 'active' and summary_seq < compacted_seq and not paused;
create index topics_archived_bare_idx on public.topics (message_count) where state = 'archived' and summary_seq = 0 and not paused;

create or replace function throughline.start_brief() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into public.conversation_briefs (chat_id, user_id, memory_strategy, max_turns, topics)
  values (new.id, new.user_id, new.memory_strategy, new.max_turns, new.topics);
  return null;
end
$$;

-- The brief first: who gives a chat topics holds its lock. That nothing was to fold was found by the settings of before.
create or replace function throughline.copy_settings() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.conversation_briefs
     set memory_strategy = new.memory_strategy, max_turns = new.max_turns, topics = new.topics,
         settled_tokens = null, settled_turns = null
   where chat_id = new.id;
  if (old.topics = 'off') <> (new.topics = 'off') then
    update public.topics set paused = new.topics = 'off' where chat_id = new.id;
  end if;
  return null;
end
$$;

drop trigger chats_copy_settings on public.chats;
create trigger chats_copy_settings after update of memory_strategy, max_turns, topics on public.chats
  for each row when ((old.memory_strategy, old.max_turns, old.topics) is distinct from (new.memory_strategy, new.max_turns, new.topics))
  execute function throughline.copy_settings();

-- Who changes turns or topics holds the lock of the brief. SECURITY DEFINER, as the next: the brief may be beyond the rights
-- of who does.
create function throughline.note_turn_to_choose() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.conversation_briefs b set choose_model = new.embedding_model
   where b.chat_id = new.chat_id and b.choose_model is distinct from new.embedding_model and b.cleared_seq < new.seq;
  return null;
end
$$;

create trigger turn_index_note_to_choose after update of topic_id, topic_model, embedding_model on public.turn_index
  for each row when (new.topic_id is not null and new.topic_model is null and new.embedding_model is not null)
  execute function throughline.note_turn_to_choose();

-- A topic that is new to its chat, or came back, makes it one that may have too many. One that was unpacked because the
-- conversation came back to it is as others are once the conversation has left it.
create function throughline.note_topic() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  appears constant boolean := tg_op = 'INSERT' or old.state <> 'active' or new.last_active_at < old.last_active_at;
  differs constant boolean := new.centroid is not null and new.title_seq is not null
    and (tg_op = 'INSERT' or (old.state, old.embedding_model, old.centroid_turns) is distinct from (new.state, new.embedding_model, new.centroid_turns));
begin
  if appears or differs then
    update public.conversation_briefs b
       set compare_topics = b.compare_topics or differs, topics_fade_at = case when appears then least(b.topics_fade_at, now()) else b.topics_fade_at end
     where b.chat_id = new.chat_id and (differs and not b.compare_topics or appears and (b.topics_fade_at is null or b.topics_fade_at > now()));
  end if;
  update public.topics t set rehydrated = false
   where t.chat_id = new.chat_id and t.rehydrated
     and exists (select from public.topics o where o.chat_id = t.chat_id and o.state = 'active' and o.last_seq > t.last_seq);
  return null;
end
$$;

-- For note_topic.
create index topics_rehydrated_idx on public.topics (chat_id) where rehydrated;

create trigger topics_note_insert after insert on public.topics
  for each row when (new.state = 'active') execute function throughline.note_topic();
create trigger topics_note_update after update of state, embedding_model, centroid_turns, last_active_at, last_seq, rehydrated on public.topics
  for each row when (new.state = 'active'
    and ((old.state, old.embedding_model, old.centroid_turns, old.last_active_at, old.last_seq)
           is distinct from (new.state, new.embedding_model, new.centroid_turns, new.last_active_at, new.last_seq)
         or new.rehydrated and not old.rehydrated))
  execute function throughline.note_topic();

-- For decay_topics: looks at the next chats after one whose topics may have faded, and returns them. Those with no more active
-- topics than they may have are done. Chats that are locked at the moment are left for the next time. For the server itself.
create function throughline.look_at_fading(after_at timestamptz, after_chat uuid, max_topics int, most int)
returns table (chat_id uuid, fade_at timestamptz, crowded boolean)
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off as $$
declare
  chats uuid[];
  times timestamptz[];
begin
  select array_agg(due.chat_id), array_agg(due.topics_fade_at) into chats, times
    from (select b.chat_id, b.topics_fade_at from public.conversation_briefs b
           where b.topics_fade_at <= now() and b.topics <> 'off' and (b.topics_fade_at, b.chat_id) > (after_at, after_chat)
           order by b.topics_fade_at, b.chat_id limit most for update skip locked) due;
  -- A statement of its own sees what was committed before the locks were there.
  return query
    with looked_at as materialized (
      select c.id, c.at, (select count(*) from public.topics t where t.chat_id = c.id and t.state = 'active') > max_topics as crowded
        from unnest(chats, times) c (id, at)),
    done as (
      update public.conversation_briefs b set topics_fade_at = null from looked_at l where b.chat_id = l.id and not l.crowded)
    select l.id, l.at, l.crowded from looked_at l order by l.at, l.id;
end
$$;

-- For merge_topics: looks at the next chats after one whose topics have changed since they were compared, and returns them.
-- alike: two active topics that nobody has named have centroids with at least this cosine. The others are done. For the
-- server itself.
create function throughline.look_at_alike(model text, cosine float8, after_chat uuid, most int)
returns table (chat_id uuid, alike boolean)
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off as $$
declare
  chats uuid[];
begin
  select array_agg(due.chat_id) into chats
    from (select b.chat_id from public.conversation_briefs b
           where b.compare_topics and b.topics <> 'off' and b.chat_id > after_chat
           order by b.chat_id limit most for update skip locked) due;
  return query
    with looked_at as materialized (
      select c.id, exists (
               select from public.topics one
                 join public.topics other on other.chat_id = one.chat_id and other.number > one.number and other.state = 'active'
                  and other.title_seq is not null and other.embedding_model = one.embedding_model
                where one.chat_id = c.id and one.state = 'active' and one.title_seq is not null and one.embedding_model = model
                  and -(one.centroid operator(throughline.<#>) other.centroid)
                      >= cosine * sqrt((one.centroid operator(throughline.<#>) one.centroid) * (other.centroid operator(throughline.<#>) other.centroid))) as alike
        from unnest(chats) c (id)),
    done as (
      update public.conversation_briefs b set compare_topics = false from looked_at l where b.chat_id = l.id and not l.alike)
    select l.id, l.alike from looked_at l order by l.id;
end
$$;

revoke all on function throughline.note_turn_to_choose(), throughline.note_topic(),
  throughline.look_at_fading(timestamptz, uuid, int, int), throughline.look_at_alike(text, float8, uuid, int) from public, anon, authenticated;
