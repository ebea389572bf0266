-- What users see of their topics and change, with their rights. The current topic is the active one with the latest turn; a
-- nil topic_id asks for it.

-- name: UserTopicList :many
-- row: UserTopicFindRow
-- A page, the latest activity first. Merged ones only where they are asked for: their turns are in another.
select t.id, t.number, t.title, t.summary, t.tags, t.importance, t.access_count, t.message_count, t.state, t.created_at, t.last_active_at, t.merged_into,
       extract(epoch from now() - t.last_active_at)::float8 as inactive_seconds
  from public.topics t
 where t.chat_id = sqlc.arg(chat_id) and t.user_id = (select throughline.uid())
   and (t.state = sqlc.arg(state)::text or sqlc.arg(state)::text = '' and t.state <> 'merged')
   and (sqlc.arg(tag)::text = '' or t.tags @> array[sqlc.arg(tag)::text])
   and (sqlc.narg(after_active_at)::timestamptz is null or (t.last_active_at, t.id) < (sqlc.narg(after_active_at)::timestamptz, sqlc.arg(after_id)::uuid))
 order by t.last_active_at desc, t.id desc
 limit sqlc.arg(most)::int;

-- name: UserTopicSearch :many
-- row: UserTopicFindRow
-- The topics with any of the words. A word counts by its rarity among the chat's topics.
with asked as (
  select w.lexeme from unnest(tsvector_to_array(to_tsvector('throughline.words'::regconfig, throughline.searchable(sqlc.arg(words)::text)))) w (lexeme)
   where w.lexeme !~ '^[a-z]$'),
own as (
  select t.id, tsvector_to_array(to_tsvector('throughline.words'::regconfig,
           throughline.searchable(t.title || E'\n' || coalesce(t.summary, '') || E'\n' || array_to_string(t.tags, E'\n')))) as lexemes,
         count(*) over () as total
    from public.topics t
   where t.chat_id = sqlc.arg(chat_id) and t.user_id = (select throughline.uid())
     and (t.state = sqlc.arg(state)::text or sqlc.arg(state)::text = '' and t.state <> 'merged')
     and (sqlc.arg(tag)::text = '' or t.tags @> array[sqlc.arg(tag)::text])),
hits as (
  select o.id, a.lexeme, o.total, count(*) over (partition by a.lexeme) as having_it from own o join asked a on a.lexeme = any (o.lexemes)),
ranked as (
  select h.id, sum(ln(1 + h.total::float8 / h.having_it)) as score from hits h group by h.id)
select t.id, t.number, t.title, t.summary, t.tags, t.importance, t.access_count, t.message_count, t.state, t.created_at, t.last_active_at, t.merged_into,
       extract(epoch from now() - t.last_active_at)::float8 as inactive_seconds
  from ranked r join public.topics t on t.id = r.id
 order by r.score desc, t.last_active_at desc, t.id desc
 limit sqlc.arg(most)::int;

-- name: UserTopicFind :one
-- row: api.OneTopic + inactive_seconds
select t.id, t.number, t.title, t.summary, t.tags, t.importance, t.access_count, t.message_count, t.state, t.created_at, t.last_active_at, t.merged_into,
       extract(epoch from now() - t.last_active_at)::float8 as inactive_seconds
  from public.topics t
 where t.chat_id = sqlc.arg(chat_id) and t.user_id = (select throughline.uid())
   and t.id = coalesce(sqlc.narg(topic_id)::uuid,
                       (select c.id from public.topics c where c.chat_id = sqlc.arg(chat_id) and c.state = 'active' order by c.last_seq desc limit 1));

-- name: UserTopicChange :execrows
-- Null keeps a column. What the user says, the user has said, even if it was so before. Not in an expired chat.
update public.topics t
   set title = coalesce(sqlc.narg(title)::text, t.title),
       title_seq = case when sqlc.narg(title)::text is null then t.title_seq end,
       tags = coalesce(sqlc.narg(tags)::text[], t.tags),
       importance = coalesce(sqlc.narg(importance)::real, t.importance),
       importance_rated = t.importance_rated or sqlc.narg(importance)::real is not null
  from public.chats c
 where c.id = t.chat_id and (c.expires_at is null or c.expires_at > now())
   and t.chat_id = sqlc.arg(chat_id) and t.user_id = (select throughline.uid()) and t.id = sqlc.arg(topic_id)::uuid;

-- name: UserTopicCounts :one
-- row: api.TopicStats
-- How many messages are packed and how many are not, of at most one topic.
select t.id as topic_id, t.title as topic_title, said.active::int as active_messages, said.compressed::int as compressed_messages,
       (said.active + said.compressed)::int as total_messages, coalesce(t.summary, '') <> '' as has_summary, t.importance as importance_score, t.access_count,
       extract(epoch from now() - t.created_at)::float8 as age_seconds, extract(epoch from now() - t.last_active_at)::float8 as inactive_seconds
  from public.topics t
 cross join lateral (
   select count(*) filter (where m.seq > t.compacted_seq) as active, count(*) filter (where m.seq <= t.compacted_seq) as compressed
     from throughline.topic_messages(t.id) m) said
 where t.chat_id = sqlc.arg(chat_id) and t.user_id = (select throughline.uid())
   and t.id = coalesce(sqlc.narg(topic_id)::uuid,
                       (select c.id from public.topics c where c.chat_id = sqlc.arg(chat_id) and c.state = 'active' order by c.last_seq desc limit 1));

-- name: UserTopicMessages :one
-- The messages of at most one topic, as they are at one moment, or the active messages alone. compressed is how many of the
-- messages, from the first one on, are packed.
select t.id, said.compressed::int as compressed, said.roles::text[] as roles, said.contents::text[] as contents, said.said_at::timestamptz[] as said_at
  from public.topics t
 cross join lateral (
   select count(*) filter (where m.seq <= t.compacted_seq) as compressed,
          coalesce(array_agg(m.role order by m.seq), '{}') as roles, coalesce(array_agg(m.content order by m.seq), '{}') as contents,
          coalesce(array_agg(m.created_at order by m.seq), '{}') as said_at
     from throughline.topic_messages(t.id) m
    where sqlc.arg(all_of_them)::bool or m.seq > t.compacted_seq) said
 where t.chat_id = sqlc.arg(chat_id) and t.user_id = (select throughline.uid())
   and t.id = coalesce(sqlc.narg(topic_id)::uuid,
                       (select c.id from public.topics c where c.chat_id = sqlc.arg(chat_id) and c.state = 'active' order by c.last_seq desc limit 1));

-- name: UserTopicContext :many
-- row: api.ContextMessage
-- The summary of a topic as a system message with seq 0, and the active messages. The current topic is one that was talked
-- about after the last clear; it has the messages since that are in no topic yet, at most so many messages. Without one these
-- are the chat's latest messages.
with topic as (
  select t.id, t.summary, t.compacted_seq, sqlc.narg(topic_id)::uuid is null as is_current, b.cleared_seq
    from public.topics t join public.conversation_briefs b on b.chat_id = t.chat_id
   where t.chat_id = sqlc.arg(chat_id) and t.user_id = (select throughline.uid())
     and t.id = coalesce(sqlc.narg(topic_id)::uuid,
                         (select c.id from public.topics c where c.chat_id = sqlc.arg(chat_id) and c.state = 'active' order by c.last_seq desc limit 1))
     and (sqlc.narg(topic_id)::uuid is not null or t.last_seq > b.cleared_seq)),
assigned as (
  select greatest(b.cleared_seq, coalesce((select max(i.last_seq) from public.turn_index i where i.chat_id = b.chat_id and i.topic_id is not null), 0)) as seq
    from public.conversation_briefs b where b.chat_id = sqlc.arg(chat_id)),
rest as (
  select m.seq, m.role, m.content
    from public.messages m
   where sqlc.narg(topic_id)::uuid is null and m.chat_id = sqlc.arg(chat_id) and m.seq > (select a.seq from assigned a)
     and m.role in ('user', 'assistant') and m.token_count > 0 and m.superseded_by is null
   order by m.seq desc
   limit (case when exists (select from topic) then sqlc.arg(most)::int else sqlc.arg(most_without)::int end))
select found.role::text as role, found.content::text as content
  from (select 0 as seq, 'system' as role, t.summary as content from topic t where t.summary <> ''
        union all
        select m.seq, m.role, m.content from topic t cross join lateral throughline.topic_messages(t.id) m
         where m.seq > t.compacted_seq and (not t.is_current or m.seq > t.cleared_seq)
        union all
        select r.seq, r.role, r.content from rest r) found
 order by found.seq;

-- name: UserTopicUnindexed :one
-- Whether the chat has topics (see topics_assign.sql), and whole turns that are not indexed: those have no topic, and no job
-- is on its way to them.
select coalesce((
  select c.topics <> 'off' and b.to_index
         and (sqlc.arg(from_the_first_turn)::bool or c.topics = 'on' or b.covered_seq > 0 or exists (select from public.topics t where t.chat_id = c.id))
         and exists (select from public.messages m where m.chat_id = c.id and m.seq > b.indexed_seq and m.role = 'user' and m.token_count > 0)
         and not exists (select from public.messages m where m.chat_id = c.id and m.status in ('streaming', 'awaiting'))
    from public.chats c join public.conversation_briefs b on b.chat_id = c.id
   where c.id = sqlc.arg(chat_id)), false)::bool;

-- name: UserTopicOfMessage :one
-- The topic of a message's turn, locked.
select t.id, t.importance
  from public.messages m
 cross join lateral (
       select i.topic_id, i.last_seq from public.turn_index i where i.chat_id = m.chat_id and i.seq <= m.seq order by i.seq desc limit 1) turn
  join public.topics t on t.id = turn.topic_id
 where m.id = sqlc.arg(message_id) and turn.last_seq >= m.seq
   for no key update of t;

-- name: UserTopicLock :execrows
-- Those of the topics that the app's owner lets the user change.
select t.id from public.topics t
 where t.user_id = (select throughline.uid()) and t.id in (sqlc.arg(one)::uuid, sqlc.arg(other)::uuid)
 order by t.id
   for no key update;
