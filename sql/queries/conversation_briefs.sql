-- name: ReadBrief :one
-- An unreadable brief has an empty summary: replies are made without it.
select b.version, b.covered_seq, b.brief_tokens, b.pending_tokens, b.pending_turns, b.stale, b.edit_count, b.cleared_seq, b.cleared_turns,
       b.indexed_seq,
       b.readable as readable,
       (case when b.readable then b.brief ->> 'global_summary' else '' end)::text as global_summary,
       coalesce(case when b.readable then b.brief ->> 'last_summarized_message_id' end,
                '00000000-0000-0000-0000-000000000000')::uuid as last_summarized_message_id
  from public.conversation_briefs b
 where b.chat_id = sqlc.arg(chat_id);

-- name: ClaimBrief :one
-- Like ReadBrief, and takes the lease for a fold; with the draft that an earlier worker left. No row: another
-- worker holds the lease, or the lock while it writes, or the user's other folds are as many as may run. The same
-- token may claim again, because the connection may have broken after a first claim.
update throughline.own_briefs b
   set lease_token = sqlc.arg(lease_token)::uuid, lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
  from throughline.own_chats c left join throughline.own_brief_drafts d on d.chat_id = c.id
 where b.chat_id = sqlc.arg(chat_id) and c.id = b.chat_id
   and (b.lease_until is null or b.lease_until <= now() or b.lease_token = sqlc.arg(lease_token)::uuid)
   and pg_try_advisory_xact_lock(hashtextextended('brief:' || b.chat_id::text, 0))
   and throughline.may_fold(b.chat_id, sqlc.arg(folds_per_user)::int)
returning b.version, b.covered_seq, b.brief_tokens, b.pending_tokens, b.pending_turns, b.stale, b.edit_count, b.cleared_seq, b.cleared_turns,
       b.readable as readable,
       (case when b.readable then b.brief ->> 'global_summary' else '' end)::text as global_summary,
       coalesce(case when b.readable then b.brief ->> 'last_summarized_message_id' end,
                '00000000-0000-0000-0000-000000000000')::uuid as last_summarized_message_id,
       c.memory_strategy, c.max_turns, (c.tool_name is not null)::bool as from_tool, coalesce(b.retry_at > now(), false)::bool as put_off,
       coalesce(d.plan_sha256, '')::text as draft_plan, coalesce(d.pieces_done, 0)::int as draft_pieces, coalesce(d.global_summary, '')::text as draft_summary,
       coalesce(d.tokens, 0)::int as draft_tokens, coalesce(d.stats, '{}')::jsonb as draft_stats, coalesce(d.duration_ms, 0)::int as draft_duration_ms;

-- name: ReadCounters :one
-- unindexed_turns is that of simple chats, which have no folds, and of chats with topics; it is counted up to index_after. unread_turns are those
-- that were not read for memories, counted up to extract_after, which is 0 without long-term memory, unless the chat is due
-- at once already.
select b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, (c.tool_name is not null)::bool as from_tool,
       coalesce(b.retry_at > now(), false)::bool as put_off,
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
                                limit sqlc.arg(extract_after)::int) unread) else 0 end)::int as unread_turns
  from public.conversation_briefs b join public.chats c on c.id = b.chat_id where b.chat_id = sqlc.arg(chat_id);

-- name: RenewFoldLease :execrows
-- No row: another worker has taken over.
update throughline.own_briefs
   set lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
 where chat_id = sqlc.arg(chat_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: ReleaseFoldLease :exec
update throughline.own_briefs set lease_token = null, lease_until = null
 where chat_id = sqlc.arg(chat_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: WriteDraft :execrows
-- Stores how far a change of several pieces has come, and renews its lease. No row: the lease was lost, or what
-- the change was planned from has changed. The update waits for whoever edits a message at this moment, so no
-- draft is written that the edit would have deleted.
with held as (update throughline.own_briefs b
   set lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
 where b.chat_id = sqlc.arg(chat_id) and b.lease_token = sqlc.arg(lease_token)::uuid
   and b.version = sqlc.arg(planned_version) and b.edit_count = sqlc.arg(planned_edit_count)
returning b.chat_id, b.user_id)
insert into throughline.own_brief_drafts
  (chat_id, user_id, plan_sha256, pieces_done, pieces, global_summary, tokens, stats, duration_ms)
select held.chat_id, held.user_id, sqlc.arg(plan_sha256)::text, sqlc.arg(pieces_done)::int, sqlc.arg(pieces)::int,
       sqlc.arg(global_summary)::text, sqlc.arg(tokens)::int, sqlc.arg(stats)::jsonb, sqlc.arg(duration_ms)::int
  from held
on conflict (chat_id) do update
   set plan_sha256 = excluded.plan_sha256, pieces_done = excluded.pieces_done, pieces = excluded.pieces, global_summary = excluded.global_summary,
       tokens = excluded.tokens, stats = excluded.stats, duration_ms = excluded.duration_ms, updated_at = now();

-- name: PutOffFold :one
-- Releases the lease of a change that was given up, and lets nobody try again for a while: one of soon_seconds after another,
-- and then first_seconds, which doubles each time.
-- With a lease, not if it was lost or a message was edited or deleted since the change was planned: then there is
-- another change to make. A stale brief goes: it and the revisions may hold deleted words, which must not wait for
-- a summary that passes. Returns how often the chat was put off, and for how many seconds.
with put_off as (update throughline.own_briefs b
   set lease_token = null, lease_until = null, fold_failures = b.fold_failures + 1, fold_failure = sqlc.arg(failure)::text,
       failing_since = coalesce(b.failing_since, now()),
       retry_at = now() + make_interval(secs => coalesce((sqlc.arg(soon_seconds)::float8[])[b.fold_failures + 1], least(
         sqlc.arg(longest_seconds)::float8, sqlc.arg(first_seconds)::float8 * 2 ^ least(b.fold_failures - cardinality(sqlc.arg(soon_seconds)::float8[]), 30)))),
       brief = case when b.stale then jsonb_build_object('global_summary', '',
                      'last_summarized_message_id', case when b.readable then b.brief -> 'last_summarized_message_id' end)
               else b.brief end,
       brief_tokens = case when b.stale then 0 else b.brief_tokens end
 where b.chat_id = sqlc.arg(chat_id)
   and (sqlc.narg(lease_token)::uuid is null or b.lease_token = sqlc.narg(lease_token)::uuid and b.edit_count = sqlc.arg(planned_edit_count))
returning b.chat_id, b.stale, b.fold_failures, b.retry_at),
redacted as (update throughline.own_brief_revisions r set global_summary = null
  from put_off
 where r.chat_id = put_off.chat_id and put_off.stale and r.global_summary is not null)
select fold_failures, extract(epoch from retry_at - now())::float8 as wait_seconds from put_off;

-- name: SettleFold :exec
-- Releases the lease of a fold that was due by the counters and found nothing to do. Counts again, in case the
-- counters are wrong, and notes them, so that no fold is inserted until they change; not if they have changed since the
-- claim, because there may be something to do by now. After LockOwnBrief, like WriteBrief.
update throughline.own_briefs b
   set lease_token = null, lease_until = null, pending_tokens = rest.tokens, pending_turns = rest.turns,
       settled_tokens = case when b.pending_tokens = sqlc.arg(planned_tokens) and b.pending_turns = sqlc.arg(planned_turns) then rest.tokens end,
       settled_turns = case when b.pending_tokens = sqlc.arg(planned_tokens) and b.pending_turns = sqlc.arg(planned_turns) then rest.turns end
  from (select coalesce(sum(m.token_count), 0)::int as tokens, (count(*) filter (where m.role = 'user' and m.token_count > 0))::int as turns
          from throughline.own_messages m
         where m.chat_id = sqlc.arg(chat_id)
           and m.seq > (select c.covered_seq from throughline.own_briefs c where c.chat_id = sqlc.arg(chat_id))) rest
 where b.chat_id = sqlc.arg(chat_id) and b.lease_token = sqlc.arg(lease_token)::uuid;

-- name: LockBrief :exec
-- Waits for jobs that claim or write the brief, then for writers of messages. A separate statement, so that the next
-- one sees what was committed while this one waited.
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
-- Writes the result of a fold and its revision, if the brief is as it was when the fold was planned, no
-- message was edited or deleted since, and the lease is still ours; otherwise writes nothing and returns no
-- row. The counters are counted again after the new covered_seq.
with written as (update throughline.own_briefs b
   set brief = jsonb_build_object('global_summary', sqlc.arg(global_summary)::text,
                                  'last_summarized_message_id', sqlc.narg(last_summarized_message_id)::uuid),
       brief_tokens = sqlc.arg(brief_tokens),
       version = b.version + 1,
       covered_seq = sqlc.arg(covered_seq),
       pending_tokens = rest.tokens,
       pending_turns = rest.turns,
       stale = false,
       lease_token = null,
       lease_until = null
  from (select coalesce(sum(m.token_count), 0)::int as tokens, (count(*) filter (where m.role = 'user' and m.token_count > 0))::int as turns
          from throughline.own_messages m
         where m.chat_id = sqlc.arg(chat_id) and m.seq > sqlc.arg(covered_seq)) rest
 where b.chat_id = sqlc.arg(chat_id)
   and b.version = sqlc.arg(planned_version)
   and (not b.readable
     or (b.brief ->> 'last_summarized_message_id')::uuid is not distinct from sqlc.narg(planned_last_summarized_message_id)::uuid)
   and b.edit_count = sqlc.arg(planned_edit_count)
   and b.lease_token = sqlc.arg(lease_token)::uuid
returning b.chat_id, b.user_id, b.version, b.covered_seq, b.brief_tokens, b.pending_tokens, b.pending_turns),
recorded as (insert into throughline.own_brief_revisions
  (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens,
   prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
select w.chat_id, w.user_id, w.version, sqlc.arg(kind)::text, sqlc.arg(seq_from)::bigint, w.covered_seq, sqlc.arg(turns)::int,
       sqlc.arg(global_summary)::text, sqlc.arg(input_tokens)::int, sqlc.arg(output_tokens)::int, sqlc.arg(prompt_mode)::text,
       sqlc.arg(prompt_ref)::text, sqlc.arg(model)::text, sqlc.arg(duration_ms)::int, sqlc.arg(input_sha256)::text, sqlc.arg(details)::jsonb
  from written w)
select brief_tokens, pending_tokens, pending_turns from written;

-- name: FindDueBriefs :many
-- Chats that need a job and have none, and its kind: a rebuild for a stale or unreadable brief, else a fold. Not
-- those whose folds were put off, nor those where the last fold found nothing to do. Chats with a job are left out
-- here, so that thousands that wait, such as those of an import, do not fill the limits. As the server itself. A
-- fold can only be due over the threshold or over the chat's turn limit: two indexes find those chats, however
-- many others there are, and fold_is_due decides. The longest buffers come first.
with waiting as (select j.kind, j.args ->> 'chat_id' as chat from river.river_job j
  where j.queue = 'memory' and j.kind in ('fold_brief', 'rebuild_brief') and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled')
    and j.args ? 'chat_id')
(select b.chat_id, 'rebuild_brief'::text as kind from public.conversation_briefs b
  where b.chat_id::text not in (select w.chat from waiting w where w.kind = 'rebuild_brief') and b.stale
    and (b.retry_at is null or b.retry_at <= now()) limit 1000)
union
(select b.chat_id, 'rebuild_brief'::text as kind from public.conversation_briefs b
  where b.chat_id::text not in (select w.chat from waiting w where w.kind = 'rebuild_brief') and not b.readable
    and (b.retry_at is null or b.retry_at <= now()) limit 1000)
union
(select b.chat_id, 'fold_brief'::text as kind
   from public.conversation_briefs b
  where b.thousands_to_fold >= sqlc.arg(threshold)::int / 1000
    and b.chat_id::text not in (select w.chat from waiting w)
    and not b.stale and b.readable and (b.retry_at is null or b.retry_at <= now())
    and (b.settled_tokens, b.settled_turns) is distinct from (b.pending_tokens, b.pending_turns)
    and throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, b.memory_strategy, b.max_turns,
          sqlc.arg(threshold)::int, sqlc.arg(k_raw_turns)::int, sqlc.arg(bridge)::int, sqlc.arg(min_tail_turns)::int, sqlc.arg(prompt)::int,
          (select c.tool_name is not null from public.chats c where c.id = b.chat_id), sqlc.arg(history)::int)
  order by b.thousands_to_fold desc limit 1000)
union
(select b.chat_id, 'fold_brief'::text as kind
   from public.conversation_briefs b
  where b.over_max_turns
    and b.chat_id::text not in (select w.chat from waiting w)
    and not b.stale and b.readable and (b.retry_at is null or b.retry_at <= now())
    and (b.settled_tokens, b.settled_turns) is distinct from (b.pending_tokens, b.pending_turns)
  limit 1000);

-- name: SettleRestedBriefs :exec
-- Chats over the threshold in which nothing is due and nothing has happened for an hour, such as those of three long turns:
-- they leave the index that FindDueBriefs reads, until their counters change. As the server itself.
update public.conversation_briefs
   set settled_tokens = pending_tokens, settled_turns = pending_turns
 where chat_id in (
   select b.chat_id from public.conversation_briefs b
    where b.thousands_to_fold >= sqlc.arg(threshold)::int / 1000
      and b.updated_at < now() - interval '1 hour' and b.lease_until is null and b.retry_at is null and not b.stale and b.readable
      and not throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, b.memory_strategy, b.max_turns,
            sqlc.arg(threshold)::int, sqlc.arg(k_raw_turns)::int, sqlc.arg(bridge)::int, sqlc.arg(min_tail_turns)::int, sqlc.arg(prompt)::int,
          (select c.tool_name is not null from public.chats c where c.id = b.chat_id), sqlc.arg(history)::int)
    limit 1000 for update skip locked);

-- name: ClearDeadLeases :execrows
-- Leases that ran out: their workers died. As the server itself.
update public.conversation_briefs
   set lease_token = null, lease_until = null
 where lease_until < now();

-- name: FoldBacklog :one
-- For how many seconds the chat has waited longest whose brief should have changed, and the number of chats whose
-- folds were put off. A chat has waited since its job was inserted, which happens with what made it due, or since
-- its folds began to fail. As the server itself.
select coalesce(extract(epoch from now() - least(waiting.since, failing.since)), 0)::float8 as age, failing.chats::int as put_off
  from (select min(j.created_at) as since from river.river_job j
         where j.queue = 'memory' and j.kind in ('fold_brief', 'rebuild_brief')
           and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled')) waiting,
       (select min(b.failing_since) as since, count(*) as chats from public.conversation_briefs b where b.failing_since is not null) failing;
