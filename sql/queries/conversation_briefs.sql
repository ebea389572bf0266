-- name: ReadBrief :one
-- A brief that is not in its form is told as such, and empty: a reply can do without it.
select b.version, b.covered_seq, b.brief_tokens, b.pending_tokens, b.pending_turns, b.stale, b.edit_count, b.cleared_seq, b.cleared_turns,
       b.readable as readable,
       (case when b.readable then b.brief ->> 'global_summary' else '' end)::text as global_summary,
       coalesce(case when b.readable then b.brief ->> 'last_summarized_message_id' end,
                '00000000-0000-0000-0000-000000000000')::uuid as last_summarized_message_id
  from public.conversation_briefs b
 where b.chat_id = sqlc.arg(chat_id);

-- name: ClaimBrief :many
-- The same for a fold, which takes the lease. No row: another worker is at it. That one holds the lease, or
-- the lock while it writes. A token may claim again: nobody knows what became of a claim whose connection broke.
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
-- No row: somebody else has taken over.
update public.conversation_briefs
   set lease_until = now() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
 where chat_id = sqlc.arg(chat_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: ReleaseFoldLease :exec
update public.conversation_briefs set lease_token = null, lease_until = null
 where chat_id = sqlc.arg(chat_id) and lease_token = sqlc.arg(lease_token)::uuid;

-- name: LockBrief :exec
-- One fold at a time per chat: waits for whoever claims or writes the brief, then for whoever adds messages.
-- A statement of its own, so that the next one counts what committed while we waited.
select pg_advisory_xact_lock(hashtextextended('brief:' || b.chat_id::text, 0))
  from public.conversation_briefs b
 where b.chat_id = sqlc.arg(chat_id)
   for update;

-- name: WriteBrief :many
-- The compare-and-set of a fold, and its revision: the brief is as it was when the fold was planned, no
-- message was edited or deleted since, and the lease is still ours. Else there is no row, and no revision.
-- The counters are what is left after the new place.
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
  from (select coalesce(sum(m.token_count), 0)::int as tokens, (count(*) filter (where m.role = 'user'))::int as turns
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
-- Chats over the threshold or their turn limit, stale ones, and those whose brief cannot be read. As the server itself. kind says which job they need. The same rule as memory.Due, which a test holds it to.
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
    and (b.pending_turns > least(sqlc.arg(k_raw_turns)::int, c.max_turns)
      or sqlc.arg(bridge)::int > 0 and b.pending_tokens > sqlc.arg(bridge)::int and b.pending_turns > greatest(1, sqlc.arg(min_tail_turns)::int))
    and not b.stale and b.readable and c.memory_strategy <> 'simple'
  order by b.pending_tokens desc limit 1000)
union
(select b.chat_id, 'fold_brief'::text as kind from public.chats c
   join public.conversation_briefs b on b.chat_id = c.id
  where c.max_turns is not null and b.pending_turns > c.max_turns and not b.stale and b.readable
    and c.memory_strategy <> 'simple'
  limit 1000);

-- name: FindExpiredUnfolded :many
-- Chats that expired with turns out of their brief. As the server itself.
select c.id from public.chats c
  join public.conversation_briefs b on b.chat_id = c.id
 where c.expires_at <= now() and b.pending_turns > 0 and not b.stale and c.memory_strategy <> 'simple'
 order by c.expires_at
 limit 1000;

-- name: ClearDeadLeases :many
-- Leases that ran out: their workers died. As the server itself.
update public.conversation_briefs
   set lease_token = null, lease_until = null
 where lease_until < now()
returning chat_id;

-- name: OldestUnfoldedTurn :one
-- Age in seconds of the oldest message that is due to be folded, by size or by its chat's turn limit; 0 when none is.
select coalesce(extract(epoch from now() - min(first.created_at)), 0)::float8 as age
  from (select b.chat_id, b.covered_seq
          from public.conversation_briefs b
          join public.chats c on c.id = b.chat_id and c.memory_strategy <> 'simple'
         where b.pending_thousands >= (sqlc.arg(threshold)::int - sqlc.arg(largest_brief)::int) / 1000
           and b.brief_tokens + b.pending_tokens > sqlc.arg(threshold)::int
           and (b.pending_turns > least(sqlc.arg(k_raw_turns)::int, c.max_turns)
             or sqlc.arg(bridge)::int > 0 and b.pending_tokens > sqlc.arg(bridge)::int and b.pending_turns > greatest(1, sqlc.arg(min_tail_turns)::int))
        union all
        select b.chat_id, b.covered_seq
          from public.chats c
          join public.conversation_briefs b on b.chat_id = c.id and b.pending_turns > c.max_turns
         where c.max_turns is not null and c.memory_strategy <> 'simple') due
  cross join lateral (select m.created_at from public.messages m
                       where m.chat_id = due.chat_id and m.seq > due.covered_seq order by m.seq limit 1) first;
