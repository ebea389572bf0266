-- What gives turns their topics, and what merges topics and finds those with something to do.

-- Every turn up to assigned_seq, after the last clear, has its topic. Chats without topics stay at 0.
alter table public.conversation_briefs
  add column assigned_seq bigint not null default 0;

-- With the new column.
create or replace view throughline.own_briefs as
select * from public.conversation_briefs where user_id = (select auth.uid())
  with check option;

-- For the sweep: chats with turns that have no topic; of most servers only those with a brief have any.
create index conversation_briefs_to_assign_idx on public.conversation_briefs ((covered_seq > 0), chat_id) where assigned_seq < indexed_seq;
create index chats_topics_on_idx on public.chats (id) where topics = 'on';

-- Turns whose topic is to be chosen again, because they have a vector now.
create index turn_index_to_choose_idx on public.turn_index (chat_id, seq)
  where topic_id is not null and topic_model is null and embedding_model is not null;
-- For the sweep: topics that were put off.
create index topics_retry_at_idx on public.topics (retry_at) where retry_at is not null;
-- For the sweep: topics that were archived before they had a summary.
create index topics_archived_bare_idx on public.topics (message_count) where state = 'archived' and summary_seq = 0;

-- A turn that appears among older ones has no topic yet. Whoever writes the index holds the lock of the brief.
create function throughline.note_new_turn() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  update public.conversation_briefs b set assigned_seq = new.seq - 1
   where b.chat_id = new.chat_id and b.assigned_seq >= new.seq;
  return null;
end
$$;

create trigger turn_index_note_new after insert on public.turn_index
  for each row execute function throughline.note_new_turn();

-- The mean of two means, of so many vectors each. pgvector's functions are named here, in whichever schema they are.
do $$
declare
  place text := (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
begin
  execute format($create$
    create function throughline.mean_of_means(one throughline.embedding, ones int, other throughline.embedding, others int) returns throughline.embedding
    language sql immutable parallel safe security invoker set search_path = '' as $body$
      select case when ones = 0 or one is null then other
                  when others = 0 or other is null then one
                  else %1$I.halfvec_add(
                         %1$I.halfvec_mul(one, %1$I.array_to_halfvec(array_fill((ones::real / (ones + others))::real, array[512]), 512, false)),
                         %1$I.halfvec_mul(other, %1$I.array_to_halfvec(array_fill((others::real / (ones + others))::real, array[512]), 512, false))) end
    $body$ $create$, place);
end
$$;

-- Makes one topic part of another of the same chat: its turns, and what it counted. The other's summary stays until a job has
-- made it again. Returns whether it did: not if one of them is gone, of another user or chat, merged already, or the same.
-- SECURITY DEFINER: nobody else has a right to change turn_index; of topics of the user in the claims alone.
create function throughline.merge_topics(from_topic uuid, into_topic uuid) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare
  asking uuid := (select auth.uid());
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
         archive = null, archive_messages = null, archive_raw_bytes = null, archive_sha256 = null, compacted_seq = 0, rehydrated = false, stale = true, retry_at = null
    from (select kept.tags || array(select tag from unnest(gone.tags) tag where tag <> all (kept.tags)) as tags) merged
   where t.id = kept.id;
  update public.topics t
     set state = 'merged', merged_into = kept.id, summary = null, summary_tokens = 0, summary_seq = 0, stale = false, rehydrated = false, retry_at = null,
         archive = null, archive_messages = null, archive_raw_bytes = null, archive_sha256 = null, compacted_seq = 0,
         message_count = 0, centroid = null, embedding_model = null, centroid_turns = 0
   where t.id = gone.id;
  return true;
end
$$;

revoke all on function throughline.note_new_turn(), throughline.mean_of_means(throughline.embedding, int, throughline.embedding, int),
  throughline.merge_topics(uuid, uuid) from public, anon, authenticated;
grant execute on function throughline.merge_topics(uuid, uuid) to throughline_app, throughline_worker;
