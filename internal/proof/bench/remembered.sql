-- Sums up the receipts of all replies in a database. Memory grows with each turn and shrinks with a fold: its growth is that of the
-- means of the turns from one fold to the next, neither before the first nor after the last one.
with receipts as (
  select r.seq, (m->>'brief_version')::int as version, (m->>'dropped_turns')::int as dropped,
         (m->>'brief_tokens')::int + (m->>'bridge_tokens')::int + (m->>'tail_tokens')::int
           + coalesce((m->>'recall_tokens')::int, 0) + coalesce((m->>'memory_tokens')::int, 0) as tokens,
         (select coalesce(sum(before.token_count), 0) from public.messages before where before.seq < r.seq - 1) as history
    from public.messages r cross join lateral (select r.metadata->'memory') as memory (m) where r.role = 'assistant'
), whole as (
  select version, avg(tokens) as mean from receipts where version > 0 and version < (select max(version) from receipts) group by version
)
select last.tokens, last.history, last.version, (select sum(dropped) from receipts),
       coalesce((select (array_agg(mean order by version desc))[1] / (array_agg(mean order by version))[1] from whole having count(*) > 1), 0)::float8
  from receipts last order by last.seq desc limit 1
