-- name: CountUsage :one
-- Totals of the transaction's user; row level security hides other users' rows. An app may write anything to
-- metadata, so only numbers in a plausible range are added up; jsonb compares numbers only with numbers.
with used as (
  select case when role = 'assistant' and jsonb_typeof(metadata -> 'usage') = 'object' then metadata -> 'usage' else '{}' end as tokens,
         octet_length(content) as bytes
    from public.messages
), said as (
  select count(*) as messages, sum(bytes) as bytes,
         sum(trunc((tokens -> 'input_tokens')::numeric)) filter (where tokens -> 'input_tokens' between '0' and '1000000000') as input,
         sum(trunc((tokens -> 'cached_tokens')::numeric)) filter (where tokens -> 'cached_tokens' between '0' and '1000000000') as cached,
         sum(trunc((tokens -> 'output_tokens')::numeric)) filter (where tokens -> 'output_tokens' between '0' and '1000000000') as output
    from used
), summaries as (
  select sum(input_tokens) filter (where kind = 'fold') as fold_input,
         sum(output_tokens) filter (where kind = 'fold') as fold_output,
         sum(input_tokens) filter (where kind = 'rebuild') as rebuild_input,
         sum(output_tokens) filter (where kind = 'rebuild') as rebuild_output,
         sum(octet_length(global_summary)) as bytes
    from public.conversation_brief_revisions
), kept as (
  select count(*) filter (where expires_at is null or expires_at > now()) as chats,
         count(*) filter (where expires_at <= now()) as expired_chats,
         sum(turn_count) as turns
    from public.chats
)
select kept.chats, kept.expired_chats, coalesce(kept.turns, 0)::bigint as turns, said.messages,
       coalesce(said.input, 0)::bigint as reply_input, coalesce(said.cached, 0)::bigint as reply_cached,
       coalesce(said.output, 0)::bigint as reply_output,
       coalesce(summaries.fold_input, 0)::bigint as fold_input, coalesce(summaries.fold_output, 0)::bigint as fold_output,
       coalesce(summaries.rebuild_input, 0)::bigint as rebuild_input, coalesce(summaries.rebuild_output, 0)::bigint as rebuild_output,
       coalesce(said.bytes, 0)::bigint as message_bytes,
       coalesce((select sum(f.bytes) from public.chat_files f), 0)::bigint as file_bytes,
       (coalesce(summaries.bytes, 0)
         + coalesce((select sum(octet_length(b.brief ->> 'global_summary')) from public.conversation_briefs b), 0))::bigint as brief_bytes
  from kept, said, summaries;
