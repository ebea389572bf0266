-- What is remembered from one look at the database to the next.
create schema if not exists crash;
create table if not exists crash.places (chat_id uuid, seq bigint, message_id uuid, primary key (chat_id, seq, message_id));
create table if not exists crash.pauses (user_id uuid, chat_id uuid, off_at timestamptz default clock_timestamp(), on_at timestamptz);
create table if not exists crash.memory_versions (user_id uuid primary key, version bigint);
