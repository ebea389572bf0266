-- What people sent and heard, and what tools ran, for the checks to compare the database with.
create temp table heard_messages (
  client_id uuid primary key, user_id uuid, content text, answer text, place int, acknowledged boolean,
  chat_id uuid, message_id uuid, deletion int, path int) on commit drop;
create temp table heard_replies (
  reply_id uuid primary key, client_id uuid, text text, certain int, ended text, deletion int, path int) on commit drop;
create temp table heard_answers (reply_id uuid, call_id text, value jsonb) on commit drop;
create temp table tool_runs (reply_id uuid, call_id text, arguments jsonb) on commit drop;
create temp table prompts (client_id uuid primary key, marks text[]) on commit drop;
create index on heard_messages (message_id);
create index on heard_messages (chat_id);
create index on heard_replies (client_id);
