-- Gives turns their topics, merges topics and finds the ones with work to do. That is kept where it changes, in
-- indexes that hold only due rows: chats and topics that rest cost nothing, however many there are.

-- Makes one topic part of another of the same chat: its turns, and what it counted. The other's summary stays until a job has
-- made it again. Returns whether it did: not if one of them is gone, of another user or chat, merged already, or the same.
-- SECURITY DEFINER: no other role has a right to change turn_index; of topics of the user in the claims alone.
create function throughline.merge_topics(from_topic uuid, into_topic uuid) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare
  asking uuid := (select throughline.uid());
  chat uuid;
  gone public.topics;
  kept public.topics;
  active boolean;
begin
  select t.chat_id into chat from public.topics t where t.id = into_topic and t.user_id = asking;
  perform from public.conversation_briefs b where b.chat_id = chat for update;
  perform from public.topics t where t.chat_id = chat and t.id in (from_topic, into_topic) order by t.id for update;
  select * into gone from public.topics t where t.id = from_topic and t.chat_id = chat and t.user_id = asking and t.state <> 'merged';
  select * into kept from public.topics t where t.id = into_topic and t.chat_id = chat and t.user_id = asking and t.state <> 'merged';
  if gone.id is null or kept.id is null or gone.id = kept.id then
    return false;
  end if;
  active := gone.state = 'active' or kept.state = 'active';
  update public.turn_index i set topic_id = kept.id where i.chat_id = chat and i.topic_id = gone.id;
  update public.turn_index i set resting = not active where i.chat_id = chat and i.topic_id = kept.id and i.resting <> not active;
  update public.topics t
     set access_count = t.access_count + gone.access_count, message_count = t.message_count + gone.message_count,
         importance = case when gone.importance_rated and not t.importance_rated then gone.importance
                           when t.importance_rated and not gone.importance_rated then t.importance
                           else greatest(t.importance, gone.importance) end,
         importance_rated = t.importance_rated or gone.importance_rated,
         centroid = case when t.centroid is null then gone.centroid
                         when gone.embedding_model = t.embedding_model
                         then throughline.mean_of_means(t.centroid, t.centroid_turns, gone.centroid, gone.centroid_turns) else t.centroid end,
         centroid_turns = case when t.centroid is null then gone.centroid_turns
                               when gone.embedding_model = t.embedding_model then t.centroid_turns + gone.centroid_turns else t.centroid_turns end,
         embedding_model = coalesce(t.embedding_model, gone.embedding_model),
         created_at = least(t.created_at, gone.created_at), last_active_at = greatest(t.last_active_at, gone.last_active_at),
         first_seq = least(t.first_seq, gone.first_seq), last_seq = greatest(t.last_seq, gone.last_seq),
         tags = case when cardinality(merged.tags) <= 20 and octet_length(merged.tags::text) <= 8000 then merged.tags else t.tags end,
         state = case when active then 'active' else 'archived' end,
         compacted_seq = 0, compacted_messages = 0, rehydrated = false, stale = true
    from (select kept.tags || array(select tag from unnest(gone.tags) tag where tag <> all (kept.tags)) as tags) merged
   where t.id = kept.id;
  update public.topics t
     set state = 'merged', merged_into = kept.id, summary = null, summary_tokens = 0, summary_seq = 0, stale = false, rehydrated = false,
         compacted_seq = 0, compacted_messages = 0, message_count = 0, centroid = null, embedding_model = null, centroid_turns = 0
   where t.id = gone.id;
  perform throughline.retry_work('compact', kept.id);
  return true;
end
$$;

-- Who changes turns or topics holds the lock of the brief. SECURITY DEFINER: a job has no right to the tables.
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

-- A topic that is new to its chat, came back, or is as important as somebody says now, makes it one that may have too many,
-- which the next look finds. Only a person changes an importance without the brief's lock: a job that holds it looks anyway. One that was unpacked because the
-- conversation came back to it is as others are once the conversation has left it. SECURITY DEFINER as above.
create function throughline.note_topic() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  appears constant boolean := tg_op = 'INSERT' or old.state <> 'active' or new.last_active_at < old.last_active_at or new.importance <> old.importance;
  differs constant boolean := new.centroid is not null and new.title_seq is not null
    and (tg_op = 'INSERT' or (old.state, old.embedding_model, old.centroid_turns) is distinct from (new.state, new.embedding_model, new.centroid_turns));
begin
  if appears or differs then
    update public.conversation_briefs b
       set compare_topics = b.compare_topics or differs, topics_fade_at = case when appears then least(b.topics_fade_at, now()) else b.topics_fade_at end
     where b.chat_id in (select o.chat_id from public.conversation_briefs o where o.chat_id = new.chat_id for update skip locked)
       and (differs and not b.compare_topics or appears and (b.topics_fade_at is null or b.topics_fade_at > now()));
  end if;
  update public.topics t set rehydrated = false
   where t.chat_id = new.chat_id and t.rehydrated
     and exists (select from public.topics o where o.chat_id = t.chat_id and o.state = 'active' and o.last_seq > t.last_seq);
  return null;
end
$$;

create trigger topics_note_insert after insert on public.topics for each row when (new.state = 'active') execute function throughline.note_topic();
create trigger topics_note_update
  after update of state, embedding_model, centroid_turns, last_active_at, last_seq, rehydrated, importance on public.topics
  for each row when (new.state = 'active'
    and ((old.state, old.embedding_model, old.centroid_turns, old.last_active_at, old.last_seq, old.importance)
           is distinct from (new.state, new.embedding_model, new.centroid_turns, new.last_active_at, new.last_seq, new.importance)
         or new.rehydrated and not old.rehydrated))
  execute function throughline.note_topic();

-- For decay_topics: looks at the next chats after one whose topics may have faded, and returns them. Those with no more active
-- topics than they may have are done. Chats that are locked at the moment are left for the next time. For the server itself.
create function throughline.look_at_fading(after_at timestamptz, after_chat uuid, max_topics int, most int)
returns table (chat_id uuid, fade_at timestamptz, crowded boolean)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  chats uuid[];
  times timestamptz[];
begin
  select array_agg(due.chat_id), array_agg(due.topics_fade_at) into chats, times
    from (select b.chat_id, b.topics_fade_at from public.conversation_briefs b
           where b.topics_fade_at <= now() and b.topics <> 'off' and (b.topics_fade_at, b.chat_id) > (after_at, after_chat)
           order by b.topics_fade_at, b.chat_id limit most for update skip locked) due;
  -- A statement of its own sees the commits from before the locks were there.
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
-- alike: two active topics without a name of a person have centroids with at least this cosine. The others are done. For the
-- server itself.
create function throughline.look_at_alike(model text, cosine float8, after_chat uuid, most int)
returns table (chat_id uuid, alike boolean)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
                      >= cosine * sqrt((one.centroid operator(throughline.<#>) one.centroid)
                                     * (other.centroid operator(throughline.<#>) other.centroid))) as alike
        from unnest(chats) c (id)),
    done as (
      update public.conversation_briefs b set compare_topics = false from looked_at l where b.chat_id = l.id and not l.alike)
    select l.id, l.alike from looked_at l order by l.id;
end
$$;
