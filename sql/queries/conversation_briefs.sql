-- name: ReadBrief :one
-- row: memory.Brief + pending_turns, cleared_turns, indexed_seq
-- An unreadable brief has an empty summary: replies are made without it.
select b.version, b.covered_seq, b.brief_tokens as tokens, b.pending_turns, b.cleared_seq, b.cleared_turns, b.indexed_seq,
       not b.readable as unreadable,
       (case when b.readable then b.brief ->> 'global_summary' else '' end)::text as summary,
       coalesce(case when b.readable then b.brief ->> 'last_summarized_message_id' end,
                '00000000-0000-0000-0000-000000000000')::uuid as last_summarized_message_id
  from public.conversation_briefs b
 where b.chat_id = sqlc.arg(chat_id);

-- name: ReadFold :one
-- row: memory.Brief + pending_tokens, pending_turns, edit_count, memory_strategy, max_turns, from_tool,
-- draft_plan, draft_pieces, draft_summary, draft_tokens, draft_stats, draft_duration_ms
-- Like ReadBrief, for a fold: with the draft that an earlier worker left.
select b.version, b.covered_seq, b.brief_tokens as tokens, b.pending_tokens, b.pending_turns, b.edit_count, b.cleared_seq,
       not b.readable as unreadable,
       (case when b.readable then b.brief ->> 'global_summary' else '' end)::text as summary,
       coalesce(case when b.readable then b.brief ->> 'last_summarized_message_id' end,
                '00000000-0000-0000-0000-000000000000')::uuid as last_summarized_message_id,
       c.memory_strategy, c.max_turns, (c.tool_name is not null)::bool as from_tool,
       coalesce(d.plan_sha256, '')::text as draft_plan, coalesce(d.pieces_done, 0)::int as draft_pieces, coalesce(d.global_summary, '')::text as draft_summary,
       coalesce(d.tokens, 0)::int as draft_tokens, coalesce(d.stats, '{}')::jsonb as draft_stats, coalesce(d.duration_ms, 0)::int as draft_duration_ms
  from throughline.own_briefs b join throughline.own_chats c on c.id = b.chat_id left join throughline.own_brief_drafts d on d.chat_id = c.id
 where b.chat_id = sqlc.arg(chat_id);

-- name: ReadCounters :one
-- unindexed_turns is that of simple chats, which have no folds, and of chats with topics; it is counted up to index_after. unread_turns are those
-- that were not read for memories, counted up to extract_after, which is 0 without long-term memory, unless the chat is due
-- at once already. Untitled is a chat that the model may give a title, at each third turn.
select b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, (c.tool_name is not null)::bool as from_tool,
       throughline.is_put_off('fold', b.chat_id)::bool as put_off,
       (case when c.memory_strategy = 'simple'
               or sqlc.arg(topics)::text in ('auto', 'on') and c.topics <> 'off'
                  and (sqlc.arg(topics)::text = 'on' or c.topics = 'on' or b.covered_seq > 0 or b.assigned_seq > 0) then (
         select count(*) from (select from public.messages m
                                where m.chat_id = b.chat_id and m.seq > b.indexed_seq and m.role = 'user' and m.token_count > 0
                                limit sqlc.arg(index_after)::int) unindexed) else 0 end)::int as unindexed_turns,
       (b.extract_due_at is not null)::bool as extract_due,
       (case when c.remember and b.extract_due_at is distinct from '-infinity' then (
         select count(*) from (select from public.messages m
                                where m.chat_id = b.chat_id and m.seq > b.extracted_seq and m.role = 'user' and m.token_count > 0
                                limit sqlc.arg(extract_after)::int) unread) else 0 end)::int as unread_turns,
       coalesce(c.title_seq = 0 and c.turn_count > b.cleared_turns and (c.turn_count - b.cleared_turns) % 3 = 0, false)::bool as untitled
  from public.conversation_briefs b join public.chats c on c.id = b.chat_id where b.chat_id = sqlc.arg(chat_id);

-- name: WriteDraft :execrows
-- Stores how far a change of several pieces has come. No row: what the change was planned from has changed. It waits for
-- whoever edits a message at this moment, so no draft is written that the edit would have deleted.
with planned as (select b.chat_id, b.user_id from throughline.own_briefs b
 where b.chat_id = sqlc.arg(chat_id) and b.version = sqlc.arg(planned_version) and b.edit_count = sqlc.arg(planned_edit_count) for no key update)
insert into throughline.own_brief_drafts
  (chat_id, user_id, plan_sha256, pieces_done, pieces, global_summary, tokens, stats, duration_ms)
select p.chat_id, p.user_id, sqlc.arg(plan_sha256)::text, sqlc.arg(pieces_done)::int, sqlc.arg(pieces)::int,
       sqlc.arg(global_summary)::text, sqlc.arg(tokens)::int, sqlc.arg(stats)::jsonb, sqlc.arg(duration_ms)::int
  from planned p
on conflict (chat_id) do update
   set plan_sha256 = excluded.plan_sha256, pieces_done = excluded.pieces_done, pieces = excluded.pieces, global_summary = excluded.global_summary,
       tokens = excluded.tokens, stats = excluded.stats, duration_ms = excluded.duration_ms, updated_at = now();

-- name: LockPlannedBrief :many
-- Before a change is put off. No row: a message was edited or deleted since the change was planned, so there is another change to make.
select b.chat_id from throughline.own_briefs b
 where b.chat_id = sqlc.arg(chat_id) and b.edit_count = sqlc.arg(planned_edit_count) for no key update;

-- name: SettleFold :exec
-- For a fold that was due by the counters and found nothing to do. Counts again, in case the
-- counters are wrong, and notes them, so that no fold is inserted until they change; not if they have changed since the
-- chat was read, because there may be something to do by now. After LockOwnBrief, like WriteBrief.
update throughline.own_briefs b
   set pending_tokens = rest.tokens, pending_turns = rest.turns,
       settled_tokens = case when b.pending_tokens = sqlc.arg(planned_tokens) and b.pending_turns = sqlc.arg(planned_turns) then rest.tokens end,
       settled_turns = case when b.pending_tokens = sqlc.arg(planned_tokens) and b.pending_turns = sqlc.arg(planned_turns) then rest.turns end
  from (select least(coalesce(sum(m.token_count), 0), 2000000000)::int as tokens, (count(*) filter (where m.role = 'user' and m.token_count > 0))::int as turns
          from throughline.own_messages m
         where m.chat_id = sqlc.arg(chat_id)
           and m.seq > (select c.covered_seq from throughline.own_briefs c where c.chat_id = sqlc.arg(chat_id))) rest
 where b.chat_id = sqlc.arg(chat_id);

-- name: LockBrief :exec
-- Waits for jobs that claim or write the brief, then for writers of messages. A separate statement, so that the next
-- one sees the commits made while this one waited.
select pg_advisory_xact_lock(hashtextextended('brief:' || b.chat_id::text, 0))
  from public.conversation_briefs b
 where b.chat_id = sqlc.arg(chat_id)
   for update;

-- name: LockOwnBrief :exec
-- LockBrief for a job.
select pg_advisory_xact_lock(hashtextextended('brief:' || b.chat_id::text, 0))
  from throughline.own_briefs b
 where b.chat_id = sqlc.arg(chat_id)
   for update;

-- name: WriteBrief :many
-- row: brief.Counters
-- Writes the result of a fold and its revision, if the brief is as it was when the fold was planned, no message was edited or
-- deleted since; otherwise writes nothing and returns no row. The counters are counted again after the new covered_seq.
with written as (update throughline.own_briefs b
   set brief = jsonb_build_object('global_summary', sqlc.arg(global_summary)::text,
                                  'last_summarized_message_id', sqlc.narg(last_summarized_message_id)::uuid),
       brief_tokens = sqlc.arg(brief_tokens),
       version = b.version + 1,
       covered_seq = sqlc.arg(covered_seq),
       pending_tokens = rest.tokens,
       pending_turns = rest.turns
  from (select least(coalesce(sum(m.token_count), 0), 2000000000)::int as tokens, (count(*) filter (where m.role = 'user' and m.token_count > 0))::int as turns
          from throughline.own_messages m
         where m.chat_id = sqlc.arg(chat_id) and m.seq > sqlc.arg(covered_seq)) rest
 where b.chat_id = sqlc.arg(chat_id)
   and b.version = sqlc.arg(planned_version)
   and (not b.readable
     or (b.brief ->> 'last_summarized_message_id')::uuid is not distinct from sqlc.narg(planned_last_summarized_message_id)::uuid)
   and b.edit_count = sqlc.arg(planned_edit_count)
returning b.chat_id, b.user_id, b.version, b.covered_seq, b.brief_tokens, b.pending_tokens, b.pending_turns),
recorded as (insert into throughline.own_brief_revisions
  (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens,
   prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
select w.chat_id, w.user_id, w.version, 'fold', sqlc.arg(seq_from)::bigint, w.covered_seq, sqlc.arg(turns)::int,
       sqlc.arg(global_summary)::text, least(sqlc.arg(input_tokens)::bigint, 2147483647)::int,
       least(sqlc.arg(output_tokens)::bigint, 2147483647)::int, sqlc.arg(prompt_mode)::text,
       sqlc.arg(prompt_ref)::text, sqlc.arg(model)::text, sqlc.arg(duration_ms)::int, sqlc.arg(input_sha256)::text, sqlc.arg(details)::jsonb
  from written w)
select brief_tokens, pending_tokens, pending_turns from written;

-- name: FindDueBriefs :many
-- Chats that need a fold and have no job. Not
-- those whose folds were put off, nor those where the last fold found nothing to do. Chats with a job are left out
-- here, so that thousands that wait, such as those of an import, do not fill the limits. As the server itself. A
-- fold can only be due over the threshold or over the chat's turn limit: two indexes find those chats, however
-- many others there are, and fold_is_due decides. The longest buffers come first.
with waiting as (select j.args ->> 'chat_id' as chat from river.river_job j
  where j.queue = 'memory' and j.kind = 'fold_brief' and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled')
    and j.args ? 'chat_id')
(select b.chat_id
   from public.conversation_briefs b
  where b.thousands_to_fold >= sqlc.arg(threshold)::int / 1000
    and b.chat_id::text not in (select w.chat from waiting w)
    and not throughline.is_put_off('fold', b.chat_id)
    and (b.settled_tokens, b.settled_turns) is distinct from (b.pending_tokens, b.pending_turns)
    and throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, b.memory_strategy, b.max_turns,
          sqlc.arg(threshold)::int, sqlc.arg(k_raw_turns)::int, sqlc.arg(bridge)::int, sqlc.arg(min_tail_turns)::int, sqlc.arg(prompt)::int,
          (select c.tool_name is not null from public.chats c where c.id = b.chat_id), sqlc.arg(history)::int)
  order by b.thousands_to_fold desc limit 1000)
union
(select b.chat_id
   from public.conversation_briefs b
  where b.over_max_turns
    and b.chat_id::text not in (select w.chat from waiting w)
    and not throughline.is_put_off('fold', b.chat_id)
    and (b.settled_tokens, b.settled_turns) is distinct from (b.pending_tokens, b.pending_turns)
  limit 1000);

-- name: RestoreBriefs :one
-- As the server itself. Returns the number of briefs that could not be read.
select throughline.restore_briefs()::bigint as briefs;

-- name: SettleRestedBriefs :exec
-- Chats over the threshold in which nothing is due and nothing has happened for an hour, such as those of three long turns:
-- they leave the index that FindDueBriefs reads, until their counters change. As the server itself.
update public.conversation_briefs
   set settled_tokens = pending_tokens, settled_turns = pending_turns
 where chat_id = any (array(
   select b.chat_id from public.conversation_briefs b
    where b.thousands_to_fold >= sqlc.arg(threshold)::int / 1000
      and b.updated_at < now() - interval '1 hour' and not exists (select from throughline.work w where w.kind = 'fold' and w.key = b.chat_id)
      and b.readable
      and not throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, b.memory_strategy, b.max_turns,
            sqlc.arg(threshold)::int, sqlc.arg(k_raw_turns)::int, sqlc.arg(bridge)::int, sqlc.arg(min_tail_turns)::int, sqlc.arg(prompt)::int,
          (select c.tool_name is not null from public.chats c where c.id = b.chat_id), sqlc.arg(history)::int)
    limit 1000 for update skip locked));

-- name: FoldBacklog :one
-- For how many seconds the chat has waited longest whose brief should have changed, and the number of chats whose
-- folds were put off. A chat has waited since its job was inserted, which happens with what made it due, or since
-- its folds began to fail. As the server itself.
select coalesce(extract(epoch from now() - least(waiting.since, failing.since)), 0)::float8 as age, failing.chats::int as put_off
  from (select min(j.created_at) as since from river.river_job j
         where j.queue = 'memory' and j.kind = 'fold_brief'
           and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled')) waiting,
       (select min(w.failing_since) as since, count(*) as chats from throughline.work w where w.kind = 'fold' and w.failing_since is not null) failing;
