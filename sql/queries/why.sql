-- What the prompt of a reply held, and what became of a brief, with the user's rights.

-- name: FindWhyReply :one
-- The reply with that id, or the reply to the message with that id: that on the path, or else the latest.
select r.id, r.chat_id, r.seq, r.status, r.metadata, q.id as user_message_id, coalesce(q.seq, r.seq)::bigint as asked_seq
  from public.messages m
  join public.messages r on r.chat_id = m.chat_id and r.role = 'assistant' and (r.id = m.id or m.role = 'user' and r.reply_to = m.id)
  left join public.messages q on q.chat_id = r.chat_id and q.id = r.reply_to
 where m.id = sqlc.arg(message_id)
 order by r.superseded_by is null desc, r.seq desc
 limit 1;

-- name: ReadWhyBrief :one
-- row: api.WhyBrief
select r.version, r.kind, r.created_at, r.global_summary as text
  from public.conversation_brief_revisions r
 where r.chat_id = sqlc.arg(chat_id) and r.version = sqlc.arg(version);

-- name: ReadWhyRecalled :many
-- row: api.WhyMessage + chat_id, title, turn
-- The rest of the turns that begin with these messages: up to the next message of the user.
select t.chat_id::uuid as chat_id, c.title, t.seq::bigint as turn, m.id as message_id, m.seq, m.role, m.created_at, m.content
  from (select unnest(sqlc.arg(chat_ids)::uuid[]) as chat_id, unnest(sqlc.arg(seqs)::bigint[]) as seq,
               generate_subscripts(sqlc.arg(seqs)::bigint[], 1) as place) t
  join public.chats c on c.id = t.chat_id and (c.expires_at is null or c.expires_at > now())
  join public.messages m on m.chat_id = t.chat_id and m.seq >= t.seq and m.token_count > 0 and m.role <> 'system' and m.superseded_by is null
   and m.seq < coalesce((select u.seq from public.messages u
                          where u.chat_id = t.chat_id and u.seq > t.seq and u.role = 'user' and u.token_count > 0
                          order by u.seq limit 1), 9223372036854775807)
 order by t.place, m.seq;

-- name: ReadWhyMemories :many
-- row: api.WhyMemory
-- The memories that still exist, in the order of the ids, with their sources.
select m.id, m.content, m.status,
       coalesce((select jsonb_agg(jsonb_build_object('message_id', s.message_id, 'chat_id', s.chat_id, 'seq', s.seq, 'quote', s.quote,
                          'said_at', to_char(s.said_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) order by s.said_at, s.seq)
                   from public.memory_sources s where s.memory_id = m.id and s.user_id = m.user_id), '[]')::jsonb as sources
  from unnest(sqlc.arg(ids)::uuid[]) with ordinality i (id, place)
  join public.memories m on m.id = i.id
 order by i.place;

-- name: ReadWhyTopic :one
-- row: api.WhyTopic
select t.id, t.title, t.summary, t.state from public.topics t where t.id = sqlc.arg(topic_id) and t.chat_id = sqlc.arg(chat_id);

-- name: ReadWhyRecent :many
-- row: api.WhyMessage
-- The messages of so many turns before a question, of the ones that the brief did not cover.
select m.id as message_id, m.seq, m.role, m.created_at, null::text as content
  from public.messages m
 where m.chat_id = sqlc.arg(chat_id) and m.seq < sqlc.arg(asked_seq) and m.token_count > 0 and m.superseded_by is null
   and m.seq >= (select min(u.seq)
                   from (select t.seq from public.messages t
                          where t.chat_id = sqlc.arg(chat_id) and t.seq < sqlc.arg(asked_seq) and t.seq > sqlc.arg(covered_seq)
                            and t.role = 'user' and t.token_count > 0
                          order by t.seq desc limit sqlc.arg(turns)::int) u)
 order by m.seq;

-- name: ListBriefRevisions :many
-- row: api.BriefRevision
-- The versions of a brief before one, the latest first.
select r.version, r.kind, r.seq_from, r.seq_to, r.turns, r.undone_by, r.global_summary as text,
       r.input_tokens, r.output_tokens, r.model, r.prompt_ref, r.created_at
  from public.conversation_brief_revisions r
 where r.chat_id = sqlc.arg(chat_id) and r.version < sqlc.arg(before_version)
 order by r.version desc
 limit sqlc.arg(most)::int;
