-- What recall asks of the index of turns, as the user who asks; see the functions in the migrations.

-- name: RecallsOthers :one
-- Whether a prompt of the chat may quote turns of the user's other chats, and there are any.
select (exists (select from public.conversation_briefs o
                 where o.user_id = c.user_id and o.chat_id <> c.id and (o.indexed_seq > o.cleared_seq or o.to_index))
        and not exists (select from public.memory_users u where u.user_id = c.user_id and not u.enabled))::bool as any
  from public.chats c where c.id = sqlc.arg(chat_id) and c.recall = 'all' and c.remember;

-- name: RecallSize :one
select turns::bigint as turns from throughline.recall_size(sqlc.narg(chat_id)::uuid, sqlc.arg(after_seq)::bigint, sqlc.arg(before_seq)::bigint);

-- name: RecallMatches :many
-- row: recall.Match
select (word - 1)::int as word, chat_id::uuid as chat_id, seq::bigint as seq, last_seq::bigint as last_seq, words_from::bigint as asked_seq,
       segment::int as segment, lexemes::int as size, said_at::timestamptz as said_at, own::float8 as own, asked::float8 as asked,
       coalesce(topic_id, '00000000-0000-0000-0000-000000000000')::uuid as topic_id
  from throughline.recall_matches(sqlc.arg(words)::text[], sqlc.narg(chat_id)::uuid, sqlc.narg(topic_id)::uuid,
         sqlc.arg(after_seq)::bigint, sqlc.arg(before_seq)::bigint, sqlc.arg(most)::int, sqlc.narg(except_chat)::uuid);

-- name: RecallNearness :many
-- row: recall.Near
select chat_id::uuid as chat_id, seq::bigint as seq, last_seq::bigint as last_seq, words_from::bigint as asked_seq, segment::int as segment,
       0 as size, said_at::timestamptz as said_at, cosine::float8 as cosine, topic_id::uuid as topic_id
  from throughline.recall_nearness(sqlc.arg(question)::text::throughline.embedding, sqlc.arg(model)::text, sqlc.narg(chat_id)::uuid,
         sqlc.narg(topic_id)::uuid, sqlc.arg(after_seq)::bigint, sqlc.arg(before_seq)::bigint, sqlc.narg(except_chat)::uuid,
         sqlc.arg(most)::int, sqlc.arg(chats)::uuid[], sqlc.arg(turns)::bigint[]);

-- name: ReadTurns :many
-- The messages of turns, with their chat's title. Those of another turn between them, such as the late reply to an earlier question, come with
-- both.
select t.chat_id::uuid as chat_id, t.turn::bigint as turn, m.id, m.seq, m.role, m.content, m.created_at, c.title
  from (select unnest(sqlc.arg(chat_ids)::uuid[]) as chat_id, unnest(sqlc.arg(turns)::bigint[]) as turn, unnest(sqlc.arg(last_seqs)::bigint[]) as last_seq) t
  join public.messages m on m.chat_id = t.chat_id and m.seq between t.turn and t.last_seq
  join public.chats c on c.id = t.chat_id
 where m.token_count > 0 and m.role <> 'system' and m.superseded_by is null
 order by t.chat_id, m.seq;
