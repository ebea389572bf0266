-- What a chat can be told about itself: tags, how it is remembered, when it expires, and where its context
-- begins anew.

alter table public.chats
  add column tags            text[]      not null default '{}',
  -- Which rules the prompt follows: internal/memory has one implementation for each.
  add column memory_strategy text        not null default 'summary',
  -- Hours after its last turn at which the chat expires; null for never.
  add column ttl_hours       int,
  -- Turns beyond so many leave the prompt once they are in the brief; null for no limit.
  add column max_turns       int,
  -- The tool that began the chat; null for one that a person began.
  add column tool_name       text,
  -- When an expired chat was last brought back without a message.
  add column revived_at      timestamptz,
  -- Follows from the columns above and last_message_at; a trigger keeps it. Expired is now() >= expires_at.
  add column expires_at      timestamptz,
  -- User messages, kept by the triggers on messages.
  add column turn_count      bigint      not null default 0,
  add constraint chats_tags_bounded check (
    cardinality(tags) <= 20 and array_position(tags, null) is null and octet_length(tags::text) <= 8000),
  add constraint chats_memory_strategy_known check (memory_strategy in ('simple', 'summary', 'hybrid')),
  add constraint chats_ttl_hours_range check (ttl_hours between 1 and 87600),
  add constraint chats_max_turns_range check (max_turns between 1 and 100000),
  add constraint chats_tool_name_length check (char_length(tool_name) between 1 and 64),
  add constraint chats_system_prompt_length check (char_length(system_prompt) <= 32000) not valid;

update public.chats c set turn_count = counted.turns
  from (select m.chat_id, count(*) as turns from public.messages m where m.role = 'user' group by m.chat_id) counted
 where counted.chat_id = c.id;

-- For the job that looks for expired chats. Most chats never expire and are not in it.
create index chats_expires_at_idx on public.chats (expires_at) where expires_at is not null;
-- For the sweep: a turn limit makes a fold due whatever the buffer's size.
create index chats_max_turns_idx on public.chats (id) where max_turns is not null;

grant insert (tags, memory_strategy, ttl_hours, max_turns), update (tags, memory_strategy, ttl_hours, max_turns)
  on public.chats to authenticated;

create function private.keep_chat() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.expires_at := greatest(new.created_at, new.last_message_at, new.revived_at) + make_interval(hours => new.ttl_hours);
  if tg_op = 'UPDATE' then
    new.updated_at := now();
  end if;
  return new;
end
$$;

drop trigger chats_touch_updated_at on public.chats;
create trigger chats_keep before insert or update on public.chats
  for each row execute function private.keep_chat();

drop trigger chats_announce on public.chats;
create trigger chats_announce after update of title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, revived_at on public.chats
  for each row execute function private.announce_chat();

------------------------------------------------------------------------------------------------

alter table public.messages
  -- hybrid chats show these word for word for as long as they fit a part of the prompt.
  add column pinned       boolean not null default false,
  -- 0 to 1 as the app sees it; null for not rated.
  add column importance   real,
  -- What an assistant asked of tools, as the model's API writes it: an array of calls.
  add column tool_calls   jsonb,
  -- The call that a tool message answers.
  add column tool_call_id text,
  -- Who speaks within the role, such as the tool's name.
  add column name         text,
  -- The tool through which a user message came.
  add column tool_name    text,
  add constraint messages_importance_range check (importance between 0 and 1),
  add constraint messages_tool_calls_is_array check (jsonb_typeof(tool_calls) = 'array'),
  add constraint messages_names_length check (char_length(tool_call_id) <= 256 and char_length(name) <= 256 and char_length(tool_name) <= 64);

create index messages_kept_idx on public.messages (chat_id, seq) where pinned or importance >= 0.8;
-- For the tools that were used in a chat; what people say is not in it.
create index messages_tool_name_idx on public.messages (chat_id, tool_name) where tool_name is not null;

------------------------------------------------------------------------------------------------

-- Where the context began anew: messages up to here are in no prompt and no summary. They stay stored.
alter table public.conversation_briefs
  add column cleared_seq   bigint not null default 0,
  -- User messages up to there: the rest of chats.turn_count is what the memory answers for.
  add column cleared_turns bigint not null default 0;

-- Whether a brief is in its form. SQL by hand, without the constraint, is the only way to another one; then a
-- reply does without it, and the sweep has it made anew.
alter table public.conversation_briefs
  add column readable boolean not null generated always as (
    coalesce(jsonb_typeof(brief -> 'global_summary') = 'string' and (jsonb_typeof(brief -> 'last_summarized_message_id') = 'null'
      or brief ->> 'last_summarized_message_id' ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'), false)) stored,
  add constraint conversation_briefs_readable check (readable);

create index conversation_briefs_unreadable_idx on public.conversation_briefs (chat_id) where not readable;

alter table public.conversation_brief_revisions
  drop constraint conversation_brief_revisions_kind_known,
  add constraint conversation_brief_revisions_kind_known check (kind in ('fold', 'rebuild', 'rollback', 'clear')),
  -- A clear leaves behind what no fold had covered, which may be nothing; so may a rebuild after a clear.
  drop constraint conversation_brief_revisions_range,
  add constraint conversation_brief_revisions_range check (
    seq_from >= 1 and seq_to >= seq_from - (kind in ('clear', 'rebuild'))::int);

------------------------------------------------------------------------------------------------

-- A chat's title from its first message: the first line, cut at a word's end within 80 characters.
create function private.title_of(content text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when char_length(line) <= 80 then line else coalesce(nullif(substring(left(line, 81) from '^(.*\S)\s+\S*$'), ''), left(line, 80)) end
    from (select btrim(split_part(btrim(content, E' \t\r\n'), E'\n', 1), E' \t\r') as line) first
$$;

-- As before, with the turns of the chat counted as well, and a title for a chat that began without one. An
-- import is quiet: nobody listens to a chat that is not there yet, and its messages are thousands.
create or replace function private.count_inserted_messages() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.chats c
     set last_seq = added.last_seq,
         message_count = c.message_count + added.messages,
         turn_count = c.turn_count + added.turns,
         last_message_at = greatest(c.last_message_at, added.last_at)
    from (select chat_id, max(seq) as last_seq, count(*) as messages, count(*) filter (where role = 'user') as turns, max(created_at) as last_at
            from new_messages group by chat_id) added
   where c.id = added.chat_id;
  if exists (select from new_messages where seq = 1) then
    update public.chats c
       set title = private.title_of(m.content)
      from new_messages m
     where m.seq = 1 and m.role = 'user' and c.id = m.chat_id and c.title = '';
  end if;
  update public.conversation_briefs b
     set pending_tokens = b.pending_tokens + added.tokens,
         pending_turns = b.pending_turns + added.turns
    from (select chat_id, sum(token_count) as tokens, count(*) filter (where role = 'user') as turns
            from new_messages group by chat_id) added
   where b.chat_id = added.chat_id and (added.tokens > 0 or added.turns > 0);
  if coalesce(current_setting('throughline.quiet', true), '') <> 'on' then
    perform private.broadcast(chat_id, 'message_created', jsonb_build_object('chat_id', chat_id, 'message_id', id, 'seq', seq))
       from new_messages order by chat_id, seq;
  end if;
  return null;
end
$$;

create or replace function private.count_deleted_messages() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.chats c
     set message_count = c.message_count - gone.messages,
         turn_count = greatest(0, c.turn_count - gone.turns)
    from (select chat_id, count(*) as messages, count(*) filter (where role = 'user') as turns from old_messages group by chat_id) gone
   where c.id = gone.chat_id;
  perform from public.conversation_briefs
    where chat_id in (select chat_id from old_messages) order by chat_id for update;
  update public.conversation_briefs b
     set pending_tokens = greatest(0, b.pending_tokens - gone.tokens),
         pending_turns = greatest(0, b.pending_turns - gone.turns),
         cleared_turns = greatest(0, b.cleared_turns - gone.cleared),
         edit_count = b.edit_count + 1,
         stale = b.stale or gone.covered
    from (select o.chat_id,
                 coalesce(sum(o.token_count) filter (where o.seq > c.covered_seq), 0) as tokens,
                 count(*) filter (where o.role = 'user' and o.seq > c.covered_seq) as turns,
                 count(*) filter (where o.role = 'user' and o.seq <= c.cleared_seq) as cleared,
                 bool_or(o.seq <= c.covered_seq and (o.content <> '' or o.tool_calls is not null)) as covered
            from old_messages o
            join public.conversation_briefs c on c.chat_id = o.chat_id
           group by o.chat_id) gone
   where b.chat_id = gone.chat_id;
  return null;
end
$$;

revoke all on function private.keep_chat(), private.title_of(text) from public, anon, authenticated;
