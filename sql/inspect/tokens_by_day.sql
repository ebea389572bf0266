-- What does the memory cost, compared with the replies? Tokens of the last days by purpose and model, and the
-- memory's share.
--
--   psql "$DATABASE_URL" -f sql/inspect/tokens_by_day.sql
--   psql "$DATABASE_URL" -v days=7 -f sql/inspect/tokens_by_day.sql
\if :{?days} \else \set days 30 \endif

select day, purpose, model, calls, input_tokens, cached_tokens, output_tokens
  from inspect.tokens_by_day
 where day > (now() at time zone 'UTC')::date - :days
 order by day desc, purpose, model;

select day,
       sum(input_tokens + output_tokens) as tokens,
       round(100 * sum(input_tokens + output_tokens) filter (where purpose <> 'reply')
             / nullif(sum(input_tokens + output_tokens), 0), 1) as memory_percent,
       round(100 * sum(cached_tokens) filter (where purpose = 'reply')
             / nullif(sum(input_tokens) filter (where purpose = 'reply'), 0), 1) as replies_cached_percent
  from inspect.tokens_by_day
 where day > (now() at time zone 'UTC')::date - :days
 group by day
 order by day desc;
