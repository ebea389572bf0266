-- name: ReadBrief :one
-- An unreadable brief has an empty summary: replies are made without it.
select b.version, b.covered_seq, b.brief_tokens, b.pending_tokens, b.pending_turns, b.stale, b.edit_count, b.cleared_seq, b.cleared_turns,
       b.readable as readable,
       (case when b.readable then b.brief ->> 'global_summary' else '' end)::text as global_summary,
       coalesce(case when b.readable then b.brief ->> 'last_summarized_message_id' end,
                '00000000-0000-0000-0000-000000000000')::uuid as last_summarized_message_id
  from public.conversation_briefs b
 where b.chat_id = sqlc.arg(chat_id);

-- name: ClaimBrief :many
-- Like ReadBrief, and takes the lease for a fold. No row: another worker holds the lease, or the lock while
-- it writes. The same token may claim again, because the connection may have broken after a first claim.
update public.conversation_briefs b
   set lease_token = sqlc.arg(lease_token)::uuid, lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
  from public.chats c
 where b.chat_id = sqlc.arg(chat_id) and c.id = b.chat_id
   and (b.lease_until is null or b.lease_until <= now() or b.lease_token = sqlc.arg(lease_token)::uuid)
   and pg_try_advisory_xact_lock(hashtextextended('brief:' || b.chat_id::text, 0))
returning b.version, b.covered_seq, b.brief_tokens, b.pending_tokens, b.pending_turns, b.stale, b.edit_count, b.cleared_seq, b.cleared_turns,
       b.readable as readable,
       (case when b.readable then b.brief ->> 'global_summary' else '' end)::text as global_summary,
       coalesce(case when b.readable then b.brief ->> 'last_summarized_message_id' end,
                '00000000-0000-0000-0000-000000000000')::uuid as last_summarized_message_id,
       c.memory_strategy, c.max_turns, coalesce(c.expires_at <= now(), false)::bool as expired;

-- name: ReadCounters :one
select b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns
  from public.conversation_briefs b join public.chats c on c.id = b.chat_id where b.chat_id = sqlc.arg(chat_id);

-- name: RenewFoldLease :execrows
-- No row: another worker has taken over.
update public.conversation_briefs
   set lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
 where chat_id = sqlc.arg(chat_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: ReleaseFoldLease :exec
update public.conversation_briefs set lease_token = null, lease_until = null
 where chat_id = sqlc.arg(chat_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: LockBrief :exec
-- Waits for other workers that claim or write the brief, then for writers of messages. A separate statement,
-- so that the next one sees what was committed while this one waited.
select pg_advisory_xact_lock(hashtextextended('brief:' || b.chat_id::text, 0))
  from public.conversation_briefs b
 where b.chat_id = sqlc.arg(chat_id)
   for update;

-- name: WriteBrief :many
-- Writes the result of a fold and its revision, if the brief is as it was when the fold was planned, no
-- message was edited or deleted since, and the lease is still ours; otherwise writes nothing and returns no
-- row. The counters are counted again after the new covered_seq.
with written as (update public.conversation_briefs b
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
  from (select coalesce(sum(m.weight), 0)::int as tokens, (count(*) filter (where m.role = 'user' and m.weight > 0))::int as turns
          from public.messages m
         where m.chat_id = sqlc.arg(chat_id) and m.seq > sqlc.arg(covered_seq)) rest
 where b.chat_id = sqlc.arg(chat_id)
   and b.version = sqlc.arg(planned_version)
   and (not b.readable
     or (b.brief ->> 'last_summarized_message_id')::uuid is not distinct from sqlc.narg(planned_last_summarized_message_id)::uuid)
   and b.edit_count = sqlc.arg(planned_edit_count)
   and b.lease_token = sqlc.arg(lease_token)::uuid
returning b.chat_id, b.user_id, b.version, b.covered_seq, b.brief_tokens, b.pending_tokens, b.pending_turns),
recorded as (insert into public.conversation_brief_revisions
  (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens,
   prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
select w.chat_id, w.user_id, w.version, sqlc.arg(kind)::text, sqlc.arg(seq_from)::bigint, w.covered_seq, sqlc.arg(turns)::int,
       sqlc.arg(global_summary)::text, sqlc.arg(input_tokens)::int, sqlc.arg(output_tokens)::int, sqlc.arg(prompt_mode)::text,
       sqlc.arg(prompt_ref)::text, sqlc.arg(model)::text, sqlc.arg(duration_ms)::int, sqlc.arg(input_sha256)::text, sqlc.arg(details)::jsonb
  from written w)
select brief_tokens, pending_tokens, pending_turns from written;

-- name: FindDueBriefs :many
-- Chats that need a job, and its kind: a rebuild for a stale or unreadable brief, else a fold. As the server
-- itself. A fold can only be due over the threshold or over the chat's turn limit: those conditions narrow
-- the search by the indexes on pending_thousands and max_turns, and fold_is_due decides.
(select b.chat_id, 'rebuild_brief'::text as kind from public.conversation_briefs b
  where b.stale limit 1000)
union
(select b.chat_id, 'rebuild_brief'::text as kind from public.conversation_briefs b
  where not b.readable limit 1000)
union
(select b.chat_id, 'fold_brief'::text as kind
   from public.conversation_briefs b
   join public.chats c on c.id = b.chat_id
  where b.pending_thousands >= (sqlc.arg(threshold)::int - sqlc.arg(largest_brief)::int) / 1000
    and b.brief_tokens + b.pending_tokens > sqlc.arg(threshold)::int
    and not b.stale and b.readable
    and throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, false,
          sqlc.arg(threshold)::int, sqlc.arg(k_raw_turns)::int, sqlc.arg(bridge)::int, sqlc.arg(min_tail_turns)::int, sqlc.arg(prompt)::int)
  order by b.pending_tokens desc limit 1000)
union
(select b.chat_id, 'fold_brief'::text as kind
   from public.chats c
   join public.conversation_briefs b on b.chat_id = c.id
  where c.max_turns is not null and b.pending_turns > c.max_turns
    and not b.stale and b.readable
    and throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, false,
          sqlc.arg(threshold)::int, sqlc.arg(k_raw_turns)::int, sqlc.arg(bridge)::int, sqlc.arg(min_tail_turns)::int, sqlc.arg(prompt)::int)
  limit 1000);

-- name: FindExpiredUnfolded :many
-- Expired chats with turns that their brief does not cover. As the server itself. The limits are zero because
-- they make no difference once a chat is expired.
select c.id from public.chats c
  join public.conversation_briefs b on b.chat_id = c.id
 where c.expires_at <= now() and not b.stale
   and throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, true, 0, 0, 0, 0, 0)
 order by c.expires_at
 limit 1000;

-- name: ClearDeadLeases :many
-- Leases that ran out: their workers died. As the server itself.
update public.conversation_briefs
   set lease_token = null, lease_until = null
 where lease_until < now()
returning chat_id;

-- name: OldestUnfoldedTurn :one
-- The age in seconds of the oldest message that is due to be folded, by size or by its chat's turn limit; 0
-- if there is none. Searches as FindDueBriefs does.
select coalesce(extract(epoch from now() - min(first.created_at)), 0)::float8 as age
  from (select b.chat_id, b.covered_seq
          from public.conversation_briefs b
          join public.chats c on c.id = b.chat_id
         where b.pending_thousands >= (sqlc.arg(threshold)::int - sqlc.arg(largest_brief)::int) / 1000
           and b.brief_tokens + b.pending_tokens > sqlc.arg(threshold)::int
           and throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, false,
                 sqlc.arg(threshold)::int, sqlc.arg(k_raw_turns)::int, sqlc.arg(bridge)::int, sqlc.arg(min_tail_turns)::int, sqlc.arg(prompt)::int)
        union all
        select b.chat_id, b.covered_seq
          from public.chats c
          join public.conversation_briefs b on b.chat_id = c.id
         where c.max_turns is not null and b.pending_turns > c.max_turns
           and throughline.fold_is_due(b.brief_tokens, b.pending_tokens, b.pending_turns, c.memory_strategy, c.max_turns, false,
                 sqlc.arg(threshold)::int, sqlc.arg(k_raw_turns)::int, sqlc.arg(bridge)::int, sqlc.arg(min_tail_turns)::int, sqlc.arg(prompt)::int)) due
 cross join lateral (select m.created_at from public.messages m
                      where m.chat_id = due.chat_id and m.seq > due.covered_seq order by m.seq limit 1) first;
