-- Why is this remembered? Where it was said, in which words, and every change to it.
--
--   psql "$DATABASE_URL" -v memory=UUID -f sql/inspect/memory.sql
\if :{?memory} \else \warn 'usage: psql "$DATABASE_URL" -v memory=UUID -f sql/inspect/memory.sql' \quit \endif
\x on

select content, status, memory_type, confidence, durable, pinned, edited, origin, lang, valid_from, valid_to, valid_precision,
       recorded_at, retracted_at, superseded_by, superseded_by_content, last_accessed, access_count, entities, embedding_model, version
  from inspect.memories
 where memory_id = :'memory';

\x off
\echo 'Where it was said:'
select s.said_at, s.chat_id, s.seq, s.message_id, s.quote, s.fact
  from public.memory_sources s
 where s.memory_id = :'memory'
 order by s.said_at, s.seq;

\echo 'Its changes (null: redacted, because a message was deleted or edited):'
select version, created_at, actor, action, content, reason, model, prompt_ref
  from inspect.memory_history
 where memory_id = :'memory'
 order by version;
