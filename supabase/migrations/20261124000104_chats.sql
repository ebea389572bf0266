-- One row per conversation.

-- One check per table of a turn. Postgres reads the text of all check constraints again with each statement that writes the
-- table; what PL/pgSQL has read it keeps. An error has the name of the rule; a null breaks none. A check runs with the
-- rights of who writes, so anyone may call it.
create function throughline.chat_is_valid(
  title text, system_prompt text, metadata jsonb, tags text[], memory_strategy text, ttl_hours int, max_turns int, tool_name text, topics text, recall text,
  created_at timestamptz, updated_at timestamptz, last_message_at timestamptz, revived_at timestamptz)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
declare
  broken constant text := case
    when char_length(title) > 500 then 'chats_title_length'
    when char_length(system_prompt) > 32000 then 'chats_system_prompt_length'
    when jsonb_typeof(metadata) <> 'object' then 'chats_metadata_is_object'
    when cardinality(tags) > 20 or array_position(tags, null) is not null or octet_length(tags::text) > 8000 then 'chats_tags_bounded'
    when memory_strategy not in ('simple', 'summary', 'hybrid') then 'chats_memory_strategy_known'
    when ttl_hours not between 1 and 87600 then 'chats_ttl_hours_range'
    when max_turns not between 1 and 100000 then 'chats_max_turns_range'
    when char_length(tool_name) not between 1 and 64 then 'chats_tool_name_length'
    when topics not in ('auto', 'on', 'off') then 'chats_topics_known'
    when recall not in ('all', 'chat') then 'chats_recall_known'
    -- Postgres knows infinity and years that no date in JSON can have, and a chat with one could not be shown.
    when least(created_at, updated_at, last_message_at, revived_at) < '0001-01-01 00:00Z'
      or greatest(created_at, updated_at, last_message_at, revived_at) >= '10000-01-01 00:00Z' then 'chats_dates_storable'
  end;
begin
  if broken is not null then
    raise check_violation using
      message = format('new row for relation "chats" violates check constraint "%s"', broken),
      schema = 'public', table = 'chats', constraint = broken;
  end if;
  return true;
end
$$;

create table public.chats (
  id              uuid        not null default gen_random_uuid(),
  user_id         uuid        not null default throughline.uid(),
  title           text        not null default '',
  system_prompt   text,
  metadata        jsonb       not null default '{}',
  -- These three and turn_count are maintained by the triggers on messages.
  last_seq        bigint      not null default 0,
  message_count   bigint      not null default 0,
  last_message_at timestamptz,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  tags            text[]      not null default '{}',
  -- The rules of the prompt; internal/memory implements each.
  memory_strategy text        not null default 'summary',
  -- Hours after the last turn at which the chat expires; null for never.
  ttl_hours       int,
  -- Older turns than this many leave the prompt once the brief covers them; null for no limit.
  max_turns       int,
  -- The tool that began the chat; null when a person did.
  tool_name       text,
  -- When an expired chat was last brought back without a message.
  revived_at      timestamptz,
  -- Computed by a trigger from ttl_hours and the times above. A chat is expired when now() >= expires_at.
  expires_at      timestamptz,
  -- The number of user messages.
  turn_count      bigint      not null default 0,
  -- The day (UTC) of the last activity, for the index that finds idle chats. It changes once a day at most, so
  -- that the other turns stay heap-only.
  active_on       date        not null generated always as (
    (greatest(created_at, last_message_at, revived_at) at time zone 'UTC')::date) stored,
  -- false: nothing that is said in the chat is remembered, and no memories are shown in it.
  remember        boolean     not null default true,
  -- Whether the chat has topics: auto leaves it to the server.
  topics          text        not null default 'auto',
  -- chat: prompts of the chat quote only its own turns. all: where none of them are about a question, those of the user's other
  -- chats.
  recall          text        not null default 'all',
  -- Whose the title is. Null: a person's, which stays. 0: there is none yet, or it is the first line of the first message. Else the
  -- model made it of the messages up to this seq, and it goes when one of them loses its words.
  title_seq       bigint,

  constraint chats_pkey primary key (id),
  -- Nearly every other row belongs to a chat and is deleted with it; its user_id is checked by triggers and policies. Another
  -- foreign key to accounts would let the deletion of a user deadlock with a turn: the deletion locks the account and then the
  -- chat, the turn locks the chat and would then lock the user. Nor may a transaction update a chat twice: the second time Postgres
  -- checks this key. See memory_users for the one that had to be.
  constraint chats_user_id_fkey foreign key (user_id) references throughline.accounts (user_id) on delete cascade,
  constraint chats_valid check (throughline.chat_is_valid(
    title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, tool_name, topics, recall,
    created_at, updated_at, last_message_at, revived_at))
)
-- Every turn updates the row. With room in the page and no indexed column changed, the update writes to no
-- index (a heap-only tuple).
with (fillfactor = 70);

-- For the policies and the cascade from accounts. Without last_message_at, so that a turn's update stays heap-only.
create index chats_user_id_idx on public.chats (user_id);
-- For the job that finds expired chats. Most chats never expire and are not in the index.
create index chats_expires_at_idx on public.chats (expires_at) where expires_at is not null;
-- For the job that deletes idle chats.
create index chats_active_on_idx on public.chats (active_on);

-- For jobs, like the other views own_…: the rows of the user in the claims, with the rights of the view's owner. No
-- security barrier, which would change the order in which a job takes its locks: only our own statements use them.
create view throughline.own_chats as select * from public.chats where user_id = (select throughline.uid()) with check option;

call throughline.protect('public.chats',
  clients => 'select, delete, insert (id, user_id, title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, remember, topics, recall),
    update (title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, remember, topics, recall)',
  server => 'select, insert, update, delete',
  jobs => 'select, update (title, title_seq)', per_user => -0.05);

-- Who changes a title alone is a person; the triggers on messages say -1. An empty title gives it back.
create function throughline.keep_chat() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.expires_at := case when new.ttl_hours is not null then
    least('9999-12-31 00:00Z', greatest(new.created_at, new.last_message_at, new.revived_at) + make_interval(hours => new.ttl_hours)) end;
  if tg_op = 'UPDATE' then
    new.updated_at := now();
  end if;
  if new.title_seq = -1 then
    new.title_seq := 0;
  elsif tg_op = 'UPDATE' and new.title <> old.title and new.title_seq is not distinct from old.title_seq then
    new.title_seq := null;
  end if;
  if new.title = '' then
    new.title_seq := 0;
  end if;
  return new;
end
$$;

create trigger chats_account before insert on public.chats for each row execute function throughline.open_account();
create trigger chats_keep before insert or update on public.chats for each row execute function throughline.keep_chat();

-- Sends ids and positions only: a listener reads the row with its own rights. Does nothing without Realtime. For functions
-- with their owner's rights.
create function throughline.broadcast(chat_id uuid, event text, payload jsonb) returns void
language plpgsql security invoker set search_path = '' as $$
begin
  if to_regprocedure('realtime.send(jsonb, text, text, boolean)') is not null then
    perform realtime.send(payload, event, 'chat:' || chat_id, true);
  end if;
end
$$;

-- What follows from a change of settings: the user's other devices are told, and the brief has a copy. That nothing was to
-- fold was found by the settings of before. Messages of the time when the chat was not to be remembered are not read later.
-- The brief before topics: who gives a chat topics holds its lock. SECURITY DEFINER: a phone may change a chat, and has no
-- right to briefs and topics.
create function throughline.follow_settings() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform throughline.broadcast(new.id, 'chat_updated', jsonb_build_object('chat_id', new.id));
  if (old.memory_strategy, old.max_turns, old.topics) is distinct from (new.memory_strategy, new.max_turns, new.topics) then
    update public.conversation_briefs
       set memory_strategy = new.memory_strategy, max_turns = new.max_turns, topics = new.topics,
           settled_tokens = null, settled_turns = null
     where chat_id = new.id;
    if (old.topics = 'off') <> (new.topics = 'off') then
      update public.topics set paused = new.topics = 'off' where chat_id = new.id;
    end if;
  end if;
  if new.remember and not old.remember then
    perform throughline.skip_rest(new.id);
  elsif old.remember and not new.remember then
    -- An extraction that commits has looked at this setting under this lock.
    perform from public.conversation_briefs b where b.chat_id = new.id for no key update;
  end if;
  return null;
end
$$;
create trigger chats_follow_settings
  after update of title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, revived_at, remember, topics, recall on public.chats
  for each row execute function throughline.follow_settings();

-- Only a chat's owner may listen to its broadcasts.
do $$
begin
  if to_regclass('realtime.messages') is not null then
    create policy throughline_chat_listeners on realtime.messages for select to authenticated
      using (extension = 'broadcast' and exists (
        select from public.chats c
         where c.user_id = (select throughline.uid()) and 'chat:' || c.id = (select realtime.topic())));
  end if;
end
$$;
