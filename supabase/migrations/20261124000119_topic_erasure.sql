-- What becomes of topics when a message is deleted or edited, when a turn grows or moves to another topic, and when nothing is
-- left of one.
--
-- A topic never keeps words of a message that is gone: title, summary and centroid go in the same transaction, and
-- every change raises its version, so that what a model makes of the old words is discarded.

-- Makes all messages of topics active. gone: messages left them, so that no summary may stay that could hold their words, and
-- no title that was made with one, here or of topics merged into them.
create function throughline.unpack_topics(ids uuid[], gone boolean) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.turn_index i set resting = false
    from public.topics t
   where t.id = any (ids) and t.state = 'archived' and i.topic_id = t.id and i.chat_id = t.chat_id and i.resting;
  update public.topics t
     set stale = t.stale or t.summary is not null or t.compacted_seq > 0,
         summary = case when not gone then t.summary end,
         summary_tokens = case when not gone then t.summary_tokens else 0 end,
         summary_seq = case when not gone then t.summary_seq else 0 end,
         compacted_seq = 0, compacted_messages = 0, state = 'active', rehydrated = false, version = t.version + 1
   where t.id = any (ids) and t.state <> 'merged';
  perform throughline.retry_work('compact', id) from unnest(ids) id;
  if gone then
    with recursive held (id, chat_id) as (
      select t.id, t.chat_id from public.topics t where t.id = any (ids)
      union
      select t.id, t.chat_id from held h join public.topics t on t.chat_id = h.chat_id and t.merged_into = h.id)
    update public.topics t set title = '…' from held h where t.id = h.id and t.title_seq = 0 and t.title <> '…';
  end if;
end
$$;

-- Counts what topics have; takes titles of messages that they have no longer, which a job makes again; deletes those without turns,
-- and the topics merged into them. The caller holds the lock of the brief.
create function throughline.settle_topics(chat uuid, ids uuid[]) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  topic record;
  turns record;
  said record;
begin
  for topic in
    select t.id, t.title_seq, t.compacted_seq, t.compacted_messages from public.topics t where t.chat_id = chat and t.id = any (ids) and t.state <> 'merged'
      order by t.id for update
  loop
    select min(i.seq) as first_seq, max(i.last_seq) as last_seq, min(i.said_at) as first_at, max(i.said_at) as last_at into turns
      from public.turn_index i where i.topic_id = topic.id and i.chat_id = chat;
    if turns.first_seq is null then
      with recursive gone (id) as (
        select topic.id
        union
        select t.id from gone g join public.topics t on t.chat_id = chat and t.merged_into = g.id)
      delete from public.topics t using gone g where t.id = g.id;
      continue;
    end if;
    select count(*) as messages, bool_or(m.seq = topic.title_seq) as title_stays, count(*) filter (where m.seq <= topic.compacted_seq) as packed into said
      from throughline.messages_of_topics m where m.topic_id = topic.id and m.chat_id = chat;
    update public.topics t
       set message_count = said.messages, first_seq = turns.first_seq, last_seq = turns.last_seq,
           created_at = turns.first_at, last_active_at = turns.last_at
     where t.id = topic.id;
    if topic.compacted_messages <> said.packed then
      perform throughline.unpack_topics(array[topic.id], false);
    end if;
    update public.topics t set title = '…', title_seq = 0, stale = true
     where t.id = topic.id and (t.title_seq > 0 and said.title_stays is not true or t.title_seq = 0 and t.title = '…');
  end loop;
end
$$;

-- Makes centroids the mean of the vectors of those turns that were chosen by one; null for none. erased: at once; else a
-- centroid stays as it is while one of these turns has no vector.
create function throughline.recenter_topics(chat uuid, ids uuid[], erased boolean) returns void
language sql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  update public.topics t
     set centroid = throughline.mean_of(made.vectors), embedding_model = case when made.turns > 0 then t.embedding_model end, centroid_turns = made.turns
    from public.topics o
   cross join lateral (
     select array_agg(i.embedding) filter (where i.embedding_model = o.embedding_model) as vectors,
            count(*) filter (where i.embedding_model = o.embedding_model)::int as turns, count(*) as all_turns
       from public.turn_index i where i.topic_id = o.id and i.chat_id = chat and i.topic_model <> '') made
   where o.chat_id = chat and o.id = any (ids) and o.centroid is not null and t.id = o.id and (erased or made.turns = made.all_turns)
$$;

-- Both for a job, of one topic of the user in the claims, after it moved turns. SECURITY DEFINER: the topic is counted
-- also where a job may see less.
create function throughline.recount_topic(chat uuid, topic uuid) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  if exists (select from public.topics t where t.id = topic and t.chat_id = chat and t.user_id = (select throughline.uid())) then
    perform throughline.recenter_topics(chat, array[topic], false);
    perform throughline.settle_topics(chat, array[topic]);
  end if;
end
$$;

-- Gives topics of a chat of the user in the claims that have no centroid, or one of another model, the mean of their turns'
-- vectors, once none of those is missing. Returns how many. The caller holds the lock of the brief. SECURITY DEFINER: a job may have
-- no right to the schema of pgvector.
create function throughline.renew_centroids(chat uuid, model text) returns int
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  renewed int;
begin
  update public.topics t
     set centroid = throughline.mean_of(made.vectors), embedding_model = model, centroid_turns = made.turns
    from public.topics o
   cross join lateral (
     select array_agg(i.embedding) filter (where i.embedding_model = model) as vectors,
            count(*) filter (where i.embedding_model = model)::int as turns, count(*)::int as all_turns
       from public.turn_index i where i.topic_id = o.id and i.chat_id = chat and i.topic_model <> '') made
   where o.chat_id = chat and o.user_id = (select throughline.uid()) and o.state <> 'merged' and o.embedding_model is distinct from model
     and made.turns > 0 and made.turns = made.all_turns and t.id = o.id;
  get diagnostics renewed = row_count;
  return renewed;
end
$$;

-- A turn that moved or grew. What moved into what a topic has summarised or packed is to be in it; what left must not. The
-- vector of a turn that grew is of other words: a job chooses again. SECURITY DEFINER: a job may move turns, and has no right
-- to the tables.
create function throughline.turn_changed() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if old.topic_id is not distinct from new.topic_id then
    perform throughline.unpack_topics(array[t.id], new.last_seq < old.last_seq) from public.topics t
      where t.id = new.topic_id and (throughline.is_at_work('compact', t.id) or least(old.last_seq, new.last_seq) < greatest(t.summary_seq, t.compacted_seq));
    update public.turn_index i set topic_model = null where i.chat_id = new.chat_id and i.seq = new.seq;
    perform throughline.recenter_topics(new.chat_id, array[new.topic_id], false);
    perform throughline.settle_topics(new.chat_id, array[new.topic_id]);
    return null;
  end if;
  perform throughline.unpack_topics(array[t.id], true) from public.topics t
    where t.id = old.topic_id and t.state <> 'merged' and (throughline.is_at_work('compact', t.id) or old.seq <= greatest(t.summary_seq, t.compacted_seq));
  perform throughline.unpack_topics(array[t.id], false) from public.topics t
    where t.id = new.topic_id and new.seq <= greatest(t.summary_seq, t.compacted_seq);
  return null;
end
$$;
create trigger turn_index_changed after update of topic_id, last_seq on public.turn_index
  for each row when (old.topic_id is distinct from new.topic_id or new.topic_id is not null and old.last_seq <> new.last_seq)
  execute function throughline.turn_changed();

-- What index_changes did, for messages of a chat in ascending order, and the same for its topics. Nothing where the chat is
-- being deleted, and its index and topics with it.
create function throughline.index_edits(chat uuid, seqs bigint[]) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off set enable_nestloop = on as $$
declare
  done bigint;
  first constant bigint := seqs[1];
  last constant bigint := seqs[cardinality(seqs)];
  from_seq bigint;
  to_seq bigint;
  touched uuid[] := '{}';
  turns_before bigint[];
  ends_before bigint[];
  topics_before uuid[];
  left_by uuid[];
begin
  if not exists (select from public.chats c where c.id = chat) then
    return;
  end if;
  select b.indexed_seq into done from public.conversation_briefs b where b.chat_id = chat for update;
  if first > done or done is null then
    return;
  end if;
  from_seq := coalesce((select i.seq from public.turn_index i where i.chat_id = chat and i.seq < first order by i.seq desc limit 1), 1);
  to_seq := coalesce((select i.seq - 1 from public.turn_index i where i.chat_id = chat and i.seq > last and i.words_from > last order by i.seq limit 1), done);
  if not exists (select from public.topics t where t.chat_id = chat) then
    perform throughline.write_turn_index(chat, from_seq, to_seq);
    return;
  end if;

  select coalesce(array_agg(distinct i.topic_id), '{}') into touched
    from unnest(seqs) s (seq)
   cross join lateral (
     select x.last_seq, x.topic_id from public.turn_index x where x.chat_id = chat and x.seq <= s.seq order by x.seq desc limit 1) i
   where i.last_seq >= s.seq and i.topic_id is not null;
  select array_agg(i.seq order by i.seq), array_agg(i.last_seq order by i.seq), array_agg(i.topic_id order by i.seq) into turns_before, ends_before,
    topics_before
    from public.turn_index i where i.chat_id = chat and i.seq between from_seq and to_seq and i.topic_id is not null;
  perform from public.topics t where t.chat_id = chat and (t.id = any (touched || topics_before) or t.title_seq = any (seqs)) order by t.id for update;
  -- Also where the turn went to another topic since.
  with untitled as (
    update public.topics t set title = '…', title_seq = 0 where t.chat_id = chat and t.title_seq = any (seqs) returning t.id)
  select touched || coalesce(array_agg(u.id), '{}') into touched from untitled u;
  perform throughline.unpack_topics(touched, true);

  perform throughline.write_turn_index(chat, from_seq, to_seq);

  -- The rest of a turn that lost its beginning keeps the topic: that is no visit. Without a question none is chosen again.
  update public.turn_index i
     set topic_id = b.topic,
         topic_model = case when not exists (
           select from public.messages m where m.chat_id = chat and m.seq between i.seq and i.last_seq and m.role = 'user' and m.token_count > 0) then '' end
    from unnest(turns_before, ends_before, topics_before) b (seq, last_seq, topic)
   where i.chat_id = chat and i.seq between from_seq and to_seq and i.topic_id is null and i.seq > b.seq and i.seq <= b.last_seq;
  -- Turns that are none any more, with messages that no one changed.
  select array_agg(distinct b.topic) into left_by
    from unnest(turns_before, topics_before) b (seq, topic)
   where b.topic <> all (touched) and not exists (select from public.turn_index i where i.chat_id = chat and i.seq = b.seq);
  perform throughline.unpack_topics(left_by, true);
  touched := touched || left_by;
  -- A job chooses again for what says something else now.
  update public.turn_index i set topic_model = null
   where i.chat_id = chat and i.seq between from_seq and to_seq and i.topic_id = any (touched) and i.embedding is null
     and exists (select from unnest(seqs) s (seq) where s.seq between i.seq and i.last_seq);
  perform throughline.recenter_topics(chat, touched, true);
  perform throughline.settle_topics(chat, touched);
end
$$;
