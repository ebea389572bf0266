-- What did this chat talk about, how present is each topic now, and what is packed? half_life and half_life_max are
-- TOPIC_HALF_LIFE and TOPIC_HALF_LIFE_MAX, accesses is TOPIC_LONG_TERM_ACCESSES, for servers that do not have the defaults.
--
--   psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/topics.sql
--   psql "$DATABASE_URL" -v chat=UUID -v half_life=12h -v half_life_max=720h -v accesses=5 -f sql/inspect/topics.sql
\if :{?chat} \else \warn 'usage: psql "$DATABASE_URL" -v chat=UUID [-v half_life=24h] -f sql/inspect/topics.sql' \quit \endif
\if :{?half_life} \else \set half_life 24h \endif
\if :{?half_life_max} \else \set half_life_max 720h \endif
\if :{?accesses} \else \set accesses 5 \endif
\x auto

select number, title, state, active_messages as active, compressed_messages as packed, round(importance::numeric, 2) as importance, access_count as accesses,
       case when access_count < :accesses then 'short-term' when access_count < 2 * :accesses then 'transitioning' else 'long-term' end as memory_type,
       round((extract(epoch from life.half_life) / 86400)::numeric, 2) as half_life_days, date_trunc('second', inactive) as inactive,
       round(inspect.topic_priority(importance, inactive, life.half_life)::numeric, 3) as priority,
       round((greatest(0, extract(epoch from inspect.topic_fades_after(importance, life.half_life) - inactive)) / 86400)::numeric, 1) as days_until_5_percent,
       stale, job_state, topic_id
  from inspect.topics
 cross join lateral (select inspect.topic_half_life(access_count, :'half_life', :'half_life_max', :accesses) as half_life) life
 where chat_id = :'chat'
 order by state = 'merged', number;

\echo 'Turns without a topic of their own:'
select seq, last_seq, said_at, reason, job_id, job_state, job_attempt, job_last_error
  from inspect.unassigned_turns
 where chat_id = :'chat'
 order by seq;
