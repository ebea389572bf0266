-- Gives turns their topics, archives topics that faded and merges topics that are the same. A chat has topics unless the
-- server or the chat says off: always if one of them says on, else once it has a brief, or has topics already. As the chat's
-- owner, unless a query says otherwise.

-- name: AssignClaim :one
-- No other transaction changes the chat's topics meanwhile. No row: another one does.
select true::bool as claimed where pg_try_advisory_xact_lock(hashtextextended('topics:' || sqlc.arg(chat_id)::text, 0));

-- name: AssignReadChat :one
-- After LockOwnBrief.
select b.cleared_seq, b.indexed_seq, coalesce(b.imported_topics, '[]')::jsonb as imported,
       (sqlc.arg(mode)::text <> 'off' and c.topics <> 'off'
        and (sqlc.arg(mode)::text = 'on' or c.topics = 'on' or b.covered_seq > 0 or b.imported_topics is not null
          or exists (select from throughline.own_topics t where t.chat_id = b.chat_id)))::bool as has_topics,
       coalesce((select max(t.number) from throughline.own_topics t where t.chat_id = b.chat_id), 0)::int as last_number
  from throughline.own_briefs b join throughline.own_chats c on c.id = b.chat_id
 where b.chat_id = sqlc.arg(chat_id);

-- name: AssignReadTopics :many
-- row: topics.Topic + cleared
-- The topics that turns may join, and those from before the last clear that have turns after it, because
-- their user merged others into them: turns may leave them. Cleared topics never come back.
select t.id, t.number, t.state, t.title_seq is null as renamed, t.importance::float8 as importance, t.importance_rated as rated, t.access_count,
       t.message_count, t.centroid::real[] as centroid, coalesce(t.embedding_model, '') as model, t.centroid_turns,
       t.created_at, t.last_active_at, t.first_seq, t.last_seq, t.compacted_messages > 0 as packed,
       (t.first_seq <= (select b.cleared_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id)))::bool as cleared
  from throughline.own_topics t
 where t.chat_id = sqlc.arg(chat_id) and t.state <> 'merged'
   and t.last_seq > (select b.cleared_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
 order by t.number for update;

-- name: AssignReadTurns :many
-- row: topics.Turn
-- The first turns without a topic, and turns that have a vector of the model now and had none when their
-- topic was chosen; '' stands for no model. With the turn before each, whether that and the turn after it wait for a
-- vector, and what its messages say of importance.
with place as (select b.cleared_seq, greatest(b.cleared_seq, b.assigned_seq) as after_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id)),
waiting as materialized (
  (select i.seq, i.last_seq, i.said_at, i.topic_id, i.embedding, i.embedding_model
     from throughline.own_turn_index i
    where i.chat_id = sqlc.arg(chat_id) and i.topic_id is null and i.seq > (select p.after_seq from place p)
    order by i.seq limit sqlc.arg(most)::int)
  union all
  (select i.seq, i.last_seq, i.said_at, i.topic_id, i.embedding, i.embedding_model
     from throughline.own_turn_index i
    where sqlc.arg(model)::text <> '' and i.chat_id = sqlc.arg(chat_id) and i.topic_id is not null and i.topic_model is null
      and i.embedding_model = sqlc.arg(model)::text and i.seq > (select p.cleared_seq from place p)
    order by i.seq limit sqlc.arg(most)::int))
select w.seq, w.last_seq, w.said_at, coalesce(w.topic_id, '00000000-0000-0000-0000-000000000000')::uuid as topic_id,
       (case when w.embedding_model = sqlc.arg(model)::text then w.embedding end)::real[] as vector,
       coalesce(before.seq, 0)::bigint as before, coalesce(before.topic_id, '00000000-0000-0000-0000-000000000000')::uuid as before_topic,
       coalesce(before.waits, false)::bool as before_waits,
       coalesce((select i.topic_model is null and i.embedding_model is distinct from sqlc.arg(model)::text from throughline.own_turn_index i
                  where i.chat_id = sqlc.arg(chat_id) and i.seq > w.seq order by i.seq limit 1), false)::bool as next_waits,
       said.question, said.opening, said.opening_seq, said.messages::int as messages, said.importance, said.pinned, said.ratings, null::jsonb as given
  from (select * from waiting order by waiting.seq limit sqlc.arg(most)::int) w
  left join lateral (
       select i.seq, i.topic_id, i.topic_model is null and i.embedding_model is distinct from sqlc.arg(model)::text as waits
         from throughline.own_turn_index i
        where i.chat_id = sqlc.arg(chat_id) and i.seq < w.seq and i.seq > (select p.cleared_seq from place p) order by i.seq desc limit 1) before on true
 cross join lateral (
       select coalesce(string_agg(left(m.content, 5000), E'\n' order by m.seq) filter (where m.role = 'user'), '') as question,
              coalesce((array_agg(left(m.content, 600) order by m.role = 'user' desc, m.seq))[1], '') as opening,
              coalesce((array_agg(m.seq order by m.role = 'user' desc, m.seq))[1], 0)::bigint as opening_seq,
              count(*) as messages, bool_or(m.pinned) is true as pinned,
              coalesce((array_agg(m.importance order by m.seq desc) filter (where m.importance is not null))[1], null)::float8 as importance,
              coalesce(array_agg(m.rating::int order by m.seq) filter (where m.rating is not null), '{}') as ratings
         from (select o.seq, o.role, o.content, o.pinned, o.importance, o.rating from throughline.own_messages o
                where o.chat_id = sqlc.arg(chat_id) and o.seq between w.seq and w.last_seq and o.token_count > 0
                  and o.role in ('user', 'assistant') and o.superseded_by is null offset 0) m) said
 order by w.seq;

-- name: AssignRenew :exec
-- Centroids of topics whose turns' vectors were all made again by this model.
select throughline.renew_centroids(sqlc.arg(chat_id)::uuid, sqlc.arg(model)::text);

-- name: AssignInsertTopic :exec
insert into throughline.own_topics (id, chat_id, user_id, number, title, title_seq, importance, importance_rated, access_count, message_count,
   centroid, embedding_model, centroid_turns, created_at, last_active_at, first_seq, last_seq)
select sqlc.arg(id)::uuid, c.id, c.user_id, sqlc.arg(number)::int, sqlc.arg(title)::text, sqlc.arg(title_seq)::bigint, sqlc.arg(importance)::float8,
       sqlc.arg(importance_rated)::bool, sqlc.arg(access_count)::int, sqlc.arg(message_count)::int, sqlc.narg(centroid)::throughline.embedding,
       sqlc.narg(embedding_model)::text, sqlc.arg(centroid_turns)::int, sqlc.arg(created_at)::timestamptz, sqlc.arg(last_active_at)::timestamptz,
       sqlc.arg(first_seq)::bigint, sqlc.arg(last_seq)::bigint
  from throughline.own_chats c where c.id = sqlc.arg(chat_id);

-- name: AssignUpdateTopic :exec
update throughline.own_topics t
   set importance = sqlc.arg(importance)::float8, importance_rated = sqlc.arg(importance_rated)::bool, access_count = sqlc.arg(access_count)::int,
       message_count = sqlc.arg(message_count)::int, centroid = sqlc.narg(centroid)::throughline.embedding, embedding_model = sqlc.narg(embedding_model)::text,
       centroid_turns = sqlc.arg(centroid_turns)::int, created_at = sqlc.arg(created_at)::timestamptz, last_active_at = sqlc.arg(last_active_at)::timestamptz,
       first_seq = sqlc.arg(first_seq)::bigint, last_seq = sqlc.arg(last_seq)::bigint
 where t.id = sqlc.arg(id) and t.chat_id = sqlc.arg(chat_id);

-- name: AssignGive :exec
-- What a person chose for a topic of an imported chat.
update throughline.own_topics t
   set title = coalesce(sqlc.narg(title)::text, t.title), title_seq = case when sqlc.narg(title)::text is null then t.title_seq end,
     tags = sqlc.arg(tags)::text[]
 where t.id = sqlc.arg(id) and t.chat_id = sqlc.arg(chat_id);

-- name: AssignKeepImported :exec
-- The rest of an import's work. None is left when all turns up to the last of its topics have theirs, and
-- none waits for its vector.
update throughline.own_briefs b
   set imported_topics = case when b.assigned_seq < sqlc.arg(last_seq)::bigint
       or exists (select from throughline.own_turn_index i where i.chat_id = b.chat_id and i.topic_id is not null and i.topic_model is null)
       then sqlc.arg(imported)::jsonb end
 where b.chat_id = sqlc.arg(chat_id);

-- name: AssignRetitle :exec
-- A title that a user has set stays.
update throughline.own_topics t set title = sqlc.arg(title)::text, title_seq = sqlc.arg(title_seq)::bigint
 where t.id = sqlc.arg(id) and t.chat_id = sqlc.arg(chat_id) and t.title_seq is not null;

-- name: AssignTurns :exec
-- Of an open turn the topic is chosen again once it has a vector.
update throughline.own_turn_index i
   set topic_id = n.topic_id, topic_model = case when n.open then null else n.topic_model end
  from (select unnest(sqlc.arg(seqs)::bigint[]) as seq, unnest(sqlc.arg(topic_ids)::uuid[]) as topic_id,
               unnest(sqlc.arg(topic_models)::text[]) as topic_model, unnest(sqlc.arg(open)::bool[]) as open) n
 where i.chat_id = sqlc.arg(chat_id) and i.seq = n.seq;

-- name: AssignRecount :exec
-- What a topic has, after turns have joined or left it out of turn. Without any it is deleted.
select throughline.recount_topic(sqlc.arg(chat_id)::uuid, sqlc.arg(topic_id)::uuid);

-- name: AssignAdvance :exec
-- all: nothing is left, nor to be chosen again by vectors of the model; '' stands for no model.
update throughline.own_briefs b
   set assigned_seq = case when sqlc.arg(is_all)::bool then b.indexed_seq else greatest(b.assigned_seq, sqlc.arg(assigned_seq)::bigint) end,
       choose_model = case when not sqlc.arg(is_all)::bool or sqlc.arg(model)::text = '' then b.choose_model end
 where b.chat_id = sqlc.arg(chat_id);

-- name: AssignNothing :exec
-- A chat without topics has none to choose again.
update throughline.own_briefs b set choose_model = null where b.chat_id = sqlc.arg(chat_id) and b.choose_model is not null;

-- name: AssignReadDue :many
-- Topics that are to be compacted. See AssignFindTopics.
select t.id from throughline.own_topics t
 where t.chat_id = sqlc.arg(chat_id) and t.state <> 'merged' and not throughline.is_put_off('compact', t.id)
   and (t.stale or t.state = 'active' and (t.summary_seq < t.compacted_seq
     or t.message_count - t.compacted_messages > sqlc.arg(max_messages)::int
        and (not t.rehydrated or exists (select from throughline.own_topics o where o.chat_id = t.chat_id and o.state = 'active' and o.last_seq > t.last_seq))))
 order by t.number;

-- name: AssignCountActive :one
select count(*)::int as topics from throughline.own_topics t where t.chat_id = sqlc.arg(chat_id) and t.state = 'active';

-- name: AssignMerge :one
-- As the chat's owner or the user.
select throughline.merge_topics(sqlc.arg(from_topic)::uuid, sqlc.arg(into_topic)::uuid)::bool as merged;

-- name: AssignWanted :many
-- Whether a chat has topics, and turns for them. As the server itself.
select (sqlc.arg(mode)::text <> 'off' and c.topics <> 'off'
        and (sqlc.arg(mode)::text = 'on' or c.topics = 'on' or b.covered_seq > 0 or b.imported_topics is not null
          or exists (select from public.topics t where t.chat_id = b.chat_id))
        and (b.assigned_seq < b.indexed_seq
          or sqlc.arg(model)::text <> '' and b.choose_model is not distinct from sqlc.arg(model)::text
          or sqlc.arg(model)::text <> '' and exists (select from public.topics t where t.chat_id = b.chat_id
               and t.state = 'active' and t.embedding_model <> sqlc.arg(model)::text)))::bool as wanted
  from public.conversation_briefs b join public.chats c on c.id = b.chat_id where b.chat_id = sqlc.arg(chat_id);

-- name: AssignFindChats :many
-- Chats with turns for topics and without a job that would give them one, or the vectors that it goes by; a chat without vectors
-- waits longer than one turn of that job. As the server itself.
with due as (
  (select b.chat_id from public.conversation_briefs b
    where (case when b.covered_seq > 0 or b.topics = 'on' then 'auto' else 'on' end) = 'auto' and b.assigned_seq < b.indexed_seq
      and b.topics <> 'off' limit 1000)
  union
  (select b.chat_id from public.conversation_briefs b
    where sqlc.arg(mode)::text = 'on' and (case when b.covered_seq > 0 or b.topics = 'on' then 'auto' else 'on' end) = 'on'
      and b.assigned_seq < b.indexed_seq and b.topics <> 'off' limit 1000)
  union
  (select b.chat_id from public.conversation_briefs b
    where sqlc.arg(model)::text <> '' and b.choose_model = sqlc.arg(model)::text and b.topics <> 'off' limit 1000))
select d.chat_id from due d
 where d.chat_id::text not in (
     select j.args ->> 'chat_id' from river.river_job j
      where j.queue in ('topics', 'vectors') and j.kind in ('assign_topics', 'embed_turns')
        and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled') and j.args ? 'chat_id'
        and (j.kind = 'assign_topics' or j.state <> 'running' or j.attempted_at > now() - interval '30 seconds'))
 order by d.chat_id limit 200;

-- name: AssignFindTopics :many
-- Topics that are to be compacted and have no job. One that the conversation has come back to is not, while it is talked
-- about. One that was archived before it had a summary still gets it. As the server itself.
with due as (
  (select t.id from public.topics t where t.stale and not t.paused limit 1000)
  union
  (select t.id from public.topics t where t.state = 'active' and not t.rehydrated and not t.paused
      and t.message_count - t.compacted_messages > sqlc.arg(max_messages)::int limit 1000)
  union
  (select t.id from public.topics t where t.state = 'archived' and t.summary_seq = 0 and not t.paused
      and t.message_count > sqlc.arg(max_messages)::int limit 1000)
  union
  (select t.id from public.topics t where t.state = 'active' and t.summary_seq < t.compacted_seq and not t.paused limit 1000))
select t.chat_id, t.id from due d join public.topics t on t.id = d.id
 where t.state <> 'merged' and not throughline.is_put_off('compact', t.id)
   and t.id::text not in (
     select j.args ->> 'topic_id' from river.river_job j
      where j.queue = 'memories' and j.kind = 'compact_topic' and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled')
        and j.args ? 'topic_id')
 order by t.chat_id, t.number limit 200;

-- name: AssignLookAtFading :many
-- row: topics.Faded
-- The next chats whose topics may have faded. As the server itself.
select f.chat_id::uuid as chat_id, f.fade_at::timestamptz as at, f.crowded::bool as crowded
  from throughline.look_at_fading(sqlc.arg(after_at)::timestamptz, sqlc.arg(after)::uuid, sqlc.arg(max_topics)::int, sqlc.arg(most)::int) f;

-- name: AssignLookAtAlike :many
-- row: topics.Compared
-- The next chats whose topics have changed since they were compared. As the server itself.
select a.chat_id::uuid as chat_id, a.alike::bool as alike
  from throughline.look_at_alike(sqlc.arg(model)::text, sqlc.arg(cosine)::float8, sqlc.arg(after)::uuid, sqlc.arg(most)::int) a;

-- name: AssignFadeAt :exec
-- When topics of the chat may have faded; null for a chat with no more than it may have.
update throughline.own_briefs b set topics_fade_at = sqlc.narg(fade_at)::timestamptz where b.chat_id = sqlc.arg(chat_id);

-- name: AssignCompared :exec
-- Its topics are compared. A topic merged then is to be compared again.
update throughline.own_briefs b set compare_topics = false where b.chat_id = sqlc.arg(chat_id);
