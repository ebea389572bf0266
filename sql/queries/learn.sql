-- What extract_memories reads and writes. As a job, with the rights of the chat's owner, unless it says otherwise.

-- name: MakeMemoryUser :exec
-- As the server itself, in a statement of its own: it waits for a deletion of the account, which waits for the locks of jobs.
insert into public.memory_users (user_id)
select c.user_id from public.chats c where c.id = sqlc.arg(chat_id)
on conflict (user_id) do nothing;

-- name: ReadExtractionUser :one
-- No row: nothing was ever chosen by or remembered of the user.
select u.enabled, coalesce(u.time_zone, '')::text as time_zone, coalesce(u.language, '')::text as language, u.excluded
  from throughline.own_memory_users u;

-- name: ReadExtraction :one
-- A brief of turns that were skipped is left out: turns of the time when the
-- chat, or the user, was not to be remembered are no context either. A chat with messages of the future, as a file may have, rests
-- since its brief changed.
select (c.remember and coalesce(c.expires_at > now(), true))::bool as remember, c.last_seq, b.extracted_seq, b.cleared_seq,
       (case when b.readable and not exists (
                    select from throughline.own_memory_extractions x
                     where x.chat_id = b.chat_id and x.result = 'skipped' and x.seq_from <= b.covered_seq and x.seq_to > b.cleared_seq)
             then b.brief ->> 'global_summary' else '' end)::text as summary,
       coalesce(b.extract_due_at = '-infinity', false)::bool as due_now,
       greatest(extract(epoch from now() - case when c.last_message_at > now() then b.updated_at else coalesce(c.last_message_at, b.updated_at) end),
         0)::float8 as rested
  from throughline.own_briefs b join throughline.own_chats c on c.id = b.chat_id
 where b.chat_id = sqlc.arg(chat_id);

-- name: ReadUnread :many
-- row: ReadBufferRow
-- The messages of the path after the ones read, up to the turn after so many, in the form of ReadFoldable; without the content
-- of tools, and of what a program wrote in the user's name.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.seq, m.role, m.status,
       (case when m.role in ('user', 'assistant') and not (m.role = 'user' and m.metadata ? 'client_id')
             then m.content else '' end)::text as content, m.token_count as tokens, m.created_at,
       m.pinned, coalesce(m.importance, 0)::real as importance, null::text as name, null::jsonb as tool_calls, null::jsonb as parts,
       coalesce(m.metadata ->> 'time_zone', '')::text as time_zone
  from throughline.own_messages m
 where m.chat_id = sqlc.arg(chat_id)
   and m.seq > (select b.extracted_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
   and m.seq < coalesce((select o.seq from throughline.own_messages o
                          where o.chat_id = sqlc.arg(chat_id) and o.role = 'user' and o.token_count > 0
                            and o.seq > (select b.extracted_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
                          order by o.seq offset sqlc.arg(most_turns)::int limit 1), 9223372036854775807)
   and m.superseded_by is null
 order by m.seq;

-- name: ReadBefore :many
-- row: ReadBufferRow
-- The last messages before the unskipped ones, the newest first.
select m.id, coalesce(m.reply_to, '00000000-0000-0000-0000-000000000000')::uuid as reply_to, m.seq, m.role, m.status,
       m.content, m.token_count as tokens, m.created_at,
       m.pinned, coalesce(m.importance, 0)::real as importance, null::text as name, null::jsonb as tool_calls, null::jsonb as parts,
       ''::text as time_zone
  from throughline.own_messages m
 where m.chat_id = sqlc.arg(chat_id) and m.token_count > 0 and (m.role = 'assistant' or m.role = 'user' and not m.metadata ? 'client_id')
   and m.seq <= (select b.extracted_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
   and m.seq > (select b.cleared_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
   and not exists (select from throughline.own_memory_extractions x
                    where x.chat_id = m.chat_id and x.result = 'skipped' and m.seq between x.seq_from and x.seq_to)
 order by m.seq desc limit sqlc.arg(most)::int;

-- name: ReadShown :many
-- row: longterm.Shown
-- The memories that the prompts of replies held which were not read yet.
select m.id as reply_id, o.id as memory_id, o.content
  from throughline.own_messages m
 cross join lateral jsonb_array_elements_text(
       case when jsonb_typeof(m.metadata #> '{memory,memories}') = 'array' then m.metadata #> '{memory,memories}' else '[]' end) shown (id)
  join throughline.own_memories o on o.id::text = shown.id
 where m.chat_id = sqlc.arg(chat_id) and m.role = 'assistant'
   and m.seq > (select b.extracted_seq from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
 order by m.seq limit 500;

-- name: ReadOutputs :many
-- row: longterm.Output
-- What tools said lately, in unread turns and shortly before them, the newest first.
select m.seq, o.value::jsonb as value
  from throughline.own_messages m
 cross join lateral (
       select to_jsonb(m.content) as value where m.role = 'tool'
        union all
       select p.part -> 'output' from jsonb_array_elements(m.parts) p (part) where p.part ->> 'type' = 'tool_result') o
 where m.chat_id = sqlc.arg(chat_id) and (m.role = 'tool' or m.parts is not null) and o.value <> 'null'
   and m.seq > (select greatest(b.cleared_seq, b.extracted_seq - 100) from throughline.own_briefs b where b.chat_id = sqlc.arg(chat_id))
   and m.superseded_by is null
 order by m.seq desc limit 30;

-- name: SettleExtraction :exec
-- Notes that nothing is due, unless something was said since. Messages off the path are nothing, here and below.
update throughline.own_briefs b set extract_due_at = null
 where b.chat_id = sqlc.arg(chat_id) and b.extract_due_at is not null
   and not exists (select from throughline.own_messages m where m.chat_id = b.chat_id and m.seq > b.extracted_seq and m.superseded_by is null);

-- name: ReadMemoryVersion :one
select version from throughline.own_memory_users;

-- name: SimilarMemories :many
-- row: longterm.Known + candidate
-- embedding '' stands for none.
select s.candidate::int as candidate, s.same_key::bool as same_key, coalesce(s.vector_rank, 0)::int as vector_place,
       coalesce(s.words_rank, 0)::int as words_place,
       s.cosine is not null as has_cosine, coalesce(s.cosine, 0)::float8 as cosine,
       m.id, m.content, m.memory_type as type, m.confidence, m.pinned, m.edited, m.status, m.valid_from, coalesce(m.valid_precision, '') as precision,
       coalesce((select max(o.said_at) from throughline.own_memory_sources o where o.memory_id = m.id), m.recorded_at)::timestamptz as said_at
  from throughline.similar_memories(sqlc.arg(contents)::text[], sqlc.arg(embeddings)::text[], sqlc.arg(model)::text, sqlc.arg(most)::int) s
  join throughline.own_memories m on m.id = s.memory_id;

-- name: HoldEvidence :many
-- Locks messages until the commit, and returns the ones unchanged since they were read.
select throughline.hold_evidence(sqlc.arg(ids)::uuid[], sqlc.arg(digests)::text[])::uuid as id;

-- name: LockExtraction :one
-- After the chat's and the messages' locks. No row: the range was read or skipped by somebody else.
select b.cleared_seq from throughline.own_briefs b
 where b.chat_id = sqlc.arg(chat_id) and b.extracted_seq = sqlc.arg(extracted_seq) for no key update;

-- name: FindReturned :one
-- After the brief's lock: whether a message of the range came back to the path since it was read.
select exists (
  select from throughline.own_messages m
   where m.chat_id = sqlc.arg(chat_id) and m.seq > sqlc.arg(extracted_seq)::bigint and m.seq <= sqlc.arg(seq_to)::bigint
      and m.role = 'user' and m.token_count > 0
     and m.id <> all (sqlc.arg(read_ids)::uuid[]))::bool as returned;

-- name: LockMemories :one
-- After the brief's lock, which whoever switches a chat's memories off takes, too.
select u.version, u.excluded,
       (u.enabled and exists (select from throughline.own_chats c where c.id = sqlc.arg(chat_id) and c.remember
                                 and coalesce(c.expires_at > now(), true)))::bool as wanted
  from throughline.own_memory_users u for no key update;

-- name: InsertMemory :exec
insert into throughline.own_memories
  (id, user_id, content, memory_type, confidence, durable, status, source_session_id, embedding, embedding_model, lang,
   valid_from, valid_to, valid_precision, superseded_by, conflicts_with, retracted_at, origin)
values (sqlc.arg(id), sqlc.arg(user_id), sqlc.arg(content), sqlc.arg(memory_type), sqlc.arg(confidence), sqlc.arg(durable), sqlc.arg(status),
   sqlc.arg(chat_id)::uuid, sqlc.narg(embedding)::throughline.embedding, sqlc.narg(embedding_model), sqlc.narg(lang),
   sqlc.narg(valid_from), sqlc.narg(valid_to), sqlc.narg(valid_precision), sqlc.narg(superseded_by), sqlc.narg(conflicts_with),
   case when sqlc.arg(status) = 'superseded' then now() end, 'extracted');

-- name: MergeMemory :exec
-- Without a content the memory was said again: content and vector stay.
update throughline.own_memories m
   set content = coalesce(sqlc.narg(content)::text, m.content), confidence = sqlc.arg(confidence), durable = m.durable or sqlc.arg(durable)::bool,
       status = coalesce(sqlc.narg(status), m.status),
       embedding = case when sqlc.narg(content)::text is null then m.embedding else sqlc.narg(embedding)::throughline.embedding end,
       embedding_model = case when sqlc.narg(content)::text is null then m.embedding_model else sqlc.narg(embedding_model) end,
       valid_precision = case when m.valid_from is null then sqlc.narg(valid_precision) else m.valid_precision end,
       valid_from = coalesce(m.valid_from, sqlc.narg(valid_from))
 where m.id = sqlc.arg(id);

-- name: SupersedeMemories :exec
update throughline.own_memories m
   set status = 'superseded', superseded_by = sqlc.arg(superseded_by)::uuid, valid_to = coalesce(sqlc.narg(valid_to), m.valid_to, now()),
       retracted_at = now()
 where m.id = any (sqlc.arg(ids)::uuid[]);

-- name: InsertSources :exec
insert into throughline.own_memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at, extraction_id)
select sqlc.arg(memory_id)::uuid, s.message_id, sqlc.arg(user_id)::uuid, sqlc.arg(chat_id)::uuid, s.seq, nullif(s.fact, ''), s.quote, s.said_at,
  sqlc.arg(extraction_id)::uuid
  from (select unnest(sqlc.arg(message_ids)::uuid[]) as message_id, unnest(sqlc.arg(seqs)::bigint[]) as seq,
               unnest(sqlc.arg(facts)::text[]) as fact, unnest(sqlc.arg(quotes)::text[]) as quote, unnest(sqlc.arg(said_ats)::timestamptz[]) as said_at) s
on conflict do nothing;

-- name: LinkMemory :exec
select throughline.link_memory(sqlc.arg(memory_id)::uuid, sqlc.arg(entities)::jsonb, sqlc.arg(relationships)::jsonb);

-- name: TouchUsedMemories :exec
-- Makes no version: to be used changes nothing of what a memory says. An import may bring the greatest count there is.
update throughline.own_memories set last_accessed = now(), access_count = least(access_count, 2147483646) + 1 where id = any (sqlc.arg(ids)::uuid[]);

-- name: InsertExtraction :exec
-- Its calls are those of all attempts at the range.
insert into throughline.own_memory_extractions
  (id, chat_id, user_id, seq_from, seq_to, turns, result, candidates, added, updated, superseded, noops, dropped,
   calls, input_tokens, output_tokens, model, prompt_ref, duration_ms)
select sqlc.arg(id), sqlc.arg(chat_id), sqlc.arg(user_id), sqlc.arg(seq_from), sqlc.arg(seq_to), sqlc.arg(turns), sqlc.arg(result),
   sqlc.arg(candidates), sqlc.arg(added), sqlc.arg(updated), sqlc.arg(superseded), sqlc.arg(noops), sqlc.arg(dropped),
   spent.calls, spent.input_tokens, spent.output_tokens, sqlc.arg(model), sqlc.arg(prompt_ref), sqlc.arg(duration_ms)
  from (select greatest(count(*), sqlc.arg(calls)::int)::int as calls,
               least(greatest(sum(e.input_tokens), sqlc.arg(input_tokens)::bigint), 2147483647)::int as input_tokens,
               least(greatest(sum(e.output_tokens), sqlc.arg(output_tokens)::bigint), 2147483647)::int as output_tokens
          from throughline.own_usage_events e
         where e.chat_id = sqlc.arg(chat_id) and e.purpose in ('extract', 'consolidate')
           and e.created_at > coalesce((select max(x.created_at) from throughline.own_memory_extractions x
                                         where x.chat_id = sqlc.arg(chat_id)), '-infinity')) spent;

-- name: AdvanceExtraction :one
-- Says how far the chat is read, and when the rest is due: never, at once where that was wanted or there are six turns, or
-- when the chat has rested: no later than if it was said now, for a file may have any date. A reply that has not ended is not
-- the rest that was wanted.
update throughline.own_briefs b
   set extracted_seq = sqlc.arg(seq_to)::bigint,
       extract_due_at = case when not rest.any then null
                             when rest.turns >= 6 or b.extract_due_at = '-infinity' and rest.turns > rest.running then '-infinity'::timestamptz
                             else greatest(now(), least(now(), rest.said_at) + make_interval(secs => sqlc.arg(delay_seconds)::float8)) end
  from (select coalesce(bool_or(true), false) as any, count(*) filter (where m.role = 'user' and m.token_count > 0) as turns,
               (count(*) filter (where m.status in ('streaming', 'awaiting')) > 0)::int as running,
               coalesce(max(m.created_at), now()) as said_at
          from (select r.role, r.token_count, r.status, r.created_at from throughline.own_messages r
                 where r.chat_id = sqlc.arg(chat_id) and r.seq > sqlc.arg(seq_to)::bigint and r.superseded_by is null order by r.seq limit 200) m) rest
 where b.chat_id = sqlc.arg(chat_id)
returning (b.extract_due_at is not null)::bool as due, coalesce(b.extract_due_at = '-infinity', false)::bool as due_now,
          (case when b.extract_due_at > '-infinity' then b.extract_due_at else now() end)::timestamptz as due_at;

-- name: FindDueExtractions :many
-- Chats that are due to be read and have no job. As the server itself.
select b.chat_id from public.conversation_briefs b
 where b.extract_due_at <= now() and not throughline.is_put_off('extract', b.chat_id)
   and b.chat_id::text not in (
     select j.args ->> 'chat_id' from river.river_job j
      where j.queue = 'memories' and j.kind = 'extract_memories' and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled')
        and j.args ? 'chat_id')
 order by b.extract_due_at limit 1000;

-- name: SetExtractDue :exec
-- As the server itself.
select throughline.set_extract_due(sqlc.arg(chat_id), sqlc.arg(at_once)::bool, sqlc.arg(delay_seconds)::float8);

-- name: MakeExtractionsDue :many
-- As the server itself.
select h.chat_id::uuid as chat_id from throughline.hurry_extractions(sqlc.arg(user_id), sqlc.arg(chat_id)) h (chat_id);

-- name: NotifyRead :exec
-- Tells who waits for it that a chat was read.
select pg_notify('throughline_read', sqlc.arg(chat_id)::uuid::text);

-- name: ReadExtractionState :one
-- row: api.Extraction + extracted_seq, whole_seq
-- As the user. whole_seq is the last message before the turn of a reply that has not ended; with the last row of the ledger.
select b.extracted_seq,
       coalesce(running.seq - 1, (select m.seq from public.messages m where m.chat_id = b.chat_id and m.superseded_by is null
                                   order by m.seq desc limit 1), 0)::bigint as whole_seq,
       coalesce(e.id, '00000000-0000-0000-0000-000000000000')::uuid as id, b.chat_id, coalesce(e.seq_from, 0)::bigint as seq_from,
         coalesce(e.seq_to, 0)::bigint as seq_to, coalesce(e.turns, 0)::int as turns,
       coalesce(e.result, '')::text as result, coalesce(e.candidates, 0)::int as candidates, coalesce(e.added, 0)::int as added,
       coalesce(e.updated, 0)::int as updated, coalesce(e.superseded, 0)::int as superseded, coalesce(e.noops, 0)::int as noops,
       coalesce(e.dropped, '{}')::jsonb as dropped, coalesce(e.calls, 0)::int as calls, coalesce(e.input_tokens, 0)::int as input_tokens,
       coalesce(e.output_tokens, 0)::int as output_tokens, nullif(e.model, '') as model, nullif(e.prompt_ref, '') as prompt_ref,
       coalesce(e.duration_ms, 0)::int as duration_ms, coalesce(e.created_at, now())::timestamptz as created_at
  from public.conversation_briefs b
  left join lateral (
       select coalesce((select q.seq from public.messages q where q.chat_id = b.chat_id and q.role = 'user' and q.seq < s.seq order by q.seq desc limit 1),
         s.seq) as seq
         from public.messages s where s.chat_id = b.chat_id and s.seq > b.extracted_seq and s.status in ('streaming', 'awaiting') and s.superseded_by is null
        order by s.seq limit 1) running on true
  left join lateral (
       select x.* from public.memory_extractions x where x.chat_id = b.chat_id order by x.seq_from desc limit 1) e on true
 where b.chat_id = sqlc.arg(chat_id);
