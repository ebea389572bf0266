-- name: CountUsage :one
-- row: api.Stats
-- Totals of the transaction's user; row level security hides other users' rows. An app may write anything to
-- metadata, so only numbers in a plausible range are added up.
with said as (
  select count(*) as messages, sum(octet_length(m.content)) as bytes,
         sum(trunc(used.input)) filter (where used.input between 0 and 1000000000) as input,
         sum(trunc(used.cached)) filter (where used.cached between 0 and 1000000000) as cached,
         sum(trunc(used.output)) filter (where used.output between 0 and 1000000000) as output
    from public.messages m
    left join lateral (
         -- Once for each reply (offset 0): Postgres would look each number up in its metadata as often as it is named.
         select case when jsonb_typeof(u.tokens -> 'input_tokens') = 'number' then (u.tokens -> 'input_tokens')::numeric end as input,
                case when jsonb_typeof(u.tokens -> 'cached_tokens') = 'number' then (u.tokens -> 'cached_tokens')::numeric end as cached,
                case when jsonb_typeof(u.tokens -> 'output_tokens') = 'number' then (u.tokens -> 'output_tokens')::numeric end as output
           from (select m.metadata -> 'usage' as tokens offset 0) u offset 0) used on m.role = 'assistant'
), summaries as (
  select sum(input_tokens) filter (where kind = 'fold') as fold_input,
         sum(output_tokens) filter (where kind = 'fold') as fold_output,
         sum(octet_length(global_summary)) as bytes
    from public.conversation_brief_revisions
), kept as (
  select count(*) filter (where expires_at is null or expires_at > now()) as chats,
         count(*) filter (where expires_at <= now()) as expired_chats,
         sum(turn_count) as turns
    from public.chats
), stored as (
  select coalesce(said.bytes, 0) as messages, coalesce((select sum(f.bytes) from public.chat_files f), 0) as files,
         coalesce(summaries.bytes, 0)
         + coalesce((select sum(octet_length(b.brief ->> 'global_summary')) from public.conversation_briefs b), 0) as briefs
    from said, summaries
)
select kept.chats, kept.expired_chats, coalesce(kept.turns, 0)::bigint as turns, said.messages,
       jsonb_build_object(
         'reply', jsonb_build_object('input', coalesce(said.input, 0), 'cached', coalesce(said.cached, 0), 'output', coalesce(said.output, 0)),
         'fold', jsonb_build_object('input', coalesce(summaries.fold_input, 0), 'output', coalesce(summaries.fold_output, 0))) as tokens,
       jsonb_build_object('messages', stored.messages, 'files', stored.files, 'briefs', stored.briefs,
         'total', stored.messages + stored.files + stored.briefs) as stored_bytes
  from kept, said, summaries, stored;
