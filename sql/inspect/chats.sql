-- The latest chats, with their ids for the other scripts.
--
--   psql "$DATABASE_URL" -f sql/inspect/chats.sql
--   psql "$DATABASE_URL" -v limit=100 -f sql/inspect/chats.sql
\if :{?limit} \else \set limit 20 \endif

select chat_id, title, last_seq as messages, version, covered_turns, pending_turns, pending_tokens, last_message_at
  from inspect.briefs
 order by last_message_at desc nulls last
 limit :limit;
