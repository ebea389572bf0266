-- What a prompt asks of topics, as the user who asks.

-- name: LookUpTopics :many
-- row: recall.TopicPlace
-- The topics of a chat that begin after a message; none where the chat has none. left: turns of the topic are before the
-- first message that the prompt shows, and the chat has talked of something else after the last of those. cosine is that of
-- the centroid and the question, where both are of the same model.
select t.id, (t.place = 1)::boolean as latest,
       (t.first_seq < sqlc.arg(before_seq)::bigint and (t.place > 1 or coalesce(t.other_last_seq >
         (select i.seq from public.turn_index i where i.topic_id = t.id and i.seq < sqlc.arg(before_seq) order by i.seq desc limit 1),
           false)))::boolean as "left",
       coalesce(t.cosine, 0)::real::float8 as cosine, (t.cosine is not null)::boolean as has_cosine
  from (select o.id, o.chat_id, o.first_seq, row_number() over newest as place, lead(o.last_seq) over newest as other_last_seq,
               case when o.embedding_model = sqlc.arg(model)::text
                    then -(o.centroid operator(throughline.<#>) (select sqlc.narg(question)::text::throughline.embedding)) end as cosine
          from public.topics o
         where o.chat_id = sqlc.arg(chat_id) and o.state <> 'merged' and o.first_seq > sqlc.arg(after_seq)
           and exists (select from public.chats c where c.id = sqlc.arg(chat_id) and c.topics <> 'off')
        window newest as (order by o.last_seq desc, o.id)) t;

-- name: LookUpTopic :one
-- row: recall.Topic
-- What a prompt shows of a topic.
select t.id, t.title, coalesce(t.summary, '')::text as summary, t.created_at as since,
       (select count(*) from public.turn_index i where i.topic_id = t.id and i.chat_id = t.chat_id)::int as turns
  from public.topics t
 where t.id = sqlc.arg(topic_id) and t.state <> 'merged';
