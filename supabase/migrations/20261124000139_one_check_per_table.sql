-- One check constraint per table of a turn. Postgres reads the text of all check constraints again with each statement that
-- writes the table; what PL/pgSQL has read it keeps. The rules are the same: an error has the name that the constraint had,
-- and what is null breaks none. 'not valid', because no row has to be read: the rules held for all of them.
--
-- A check runs with the rights of who writes, and anyone may call it.

create function throughline.message_is_valid(
  role text, status text, token_count int, metadata jsonb, importance real, rating smallint, tool_calls jsonb, tool_call_id text, name text,
  tool_name text, created_at timestamptz, updated_at timestamptz)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
declare
  broken constant text := case
    when role not in ('user', 'assistant', 'system', 'tool') then 'messages_role_known'
    when status not in ('complete', 'streaming', 'failed', 'cancelled', 'interrupted') then 'messages_status_known'
    -- The upper bound keeps one wrong row from filling the counters of its chat, which no turn could then pass.
    when token_count not between 0 and 100000000 then 'messages_token_count_range'
    when jsonb_typeof(metadata) <> 'object' then 'messages_metadata_is_object'
    when importance not between 0 and 1 then 'messages_importance_range'
    when rating not in (-1, 0, 1) then 'messages_rating_known'
    when jsonb_typeof(tool_calls) <> 'array' then 'messages_tool_calls_is_array'
    when char_length(tool_call_id) > 256 or char_length(name) > 256 or char_length(tool_name) > 64 then 'messages_names_length'
    -- See chats_dates_storable.
    when created_at < '0001-01-01 00:00Z' or created_at >= '10000-01-01 00:00Z'
      or updated_at < '0001-01-01 00:00Z' or updated_at >= '10000-01-01 00:00Z' then 'messages_dates_storable'
  end;
begin
  if broken is not null then
    raise check_violation using
      message = format('new row for relation "messages" violates check constraint "%s"', broken),
      schema = 'public', table = 'messages', constraint = broken;
  end if;
  return true;
end
$$;

create function throughline.chat_is_valid(
  title text, system_prompt text, metadata jsonb, tags text[], memory_strategy text, ttl_hours int, max_turns int, tool_name text, topics text,
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
    -- Postgres knows infinity and years that no date in JSON can have, and a chat with one could not be shown.
    when created_at < '0001-01-01 00:00Z' or created_at >= '10000-01-01 00:00Z'
      or updated_at < '0001-01-01 00:00Z' or updated_at >= '10000-01-01 00:00Z'
      or last_message_at < '0001-01-01 00:00Z' or last_message_at >= '10000-01-01 00:00Z'
      or revived_at < '0001-01-01 00:00Z' or revived_at >= '10000-01-01 00:00Z' then 'chats_dates_storable'
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

create function throughline.brief_is_valid(
  brief jsonb, readable boolean, pending_tokens int, pending_turns int, covered_seq bigint, lease_token uuid, lease_until timestamptz,
  fold_failures int, failing_since timestamptz, fold_failure text, retry_at timestamptz, imported_topics jsonb)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
declare
  broken constant text := case
    when not (brief ?& array['global_summary', 'last_summarized_message_id']
      and brief - array['global_summary', 'last_summarized_message_id'] = '{}') then 'conversation_briefs_two_keys'
    when not readable then 'conversation_briefs_readable'
    when pending_tokens < 0 or pending_turns < 0 or covered_seq < 0 then 'conversation_briefs_counters'
    when (lease_token is null) <> (lease_until is null) then 'conversation_briefs_lease_whole'
    when (failing_since is null) <> (fold_failures = 0) or (failing_since is null) <> (retry_at is null)
      or (failing_since is null) <> (fold_failure is null) then 'conversation_briefs_failure_whole'
    when jsonb_typeof(imported_topics) <> 'array' then 'conversation_briefs_imported_topics_is_array'
  end;
begin
  if broken is not null then
    raise check_violation using
      message = format('new row for relation "conversation_briefs" violates check constraint "%s"', broken),
      schema = 'public', table = 'conversation_briefs', constraint = broken;
  end if;
  return true;
end
$$;

alter table public.messages
  drop constraint messages_role_known,
  drop constraint messages_status_known,
  drop constraint messages_token_count_range,
  drop constraint messages_metadata_is_object,
  drop constraint messages_importance_range,
  drop constraint messages_rating_known,
  drop constraint messages_tool_calls_is_array,
  drop constraint messages_names_length,
  drop constraint messages_dates_storable,
  add constraint messages_valid check (throughline.message_is_valid(
    role, status, token_count, metadata, importance, rating, tool_calls, tool_call_id, name, tool_name, created_at, updated_at)) not valid;

alter table public.chats
  drop constraint chats_title_length,
  drop constraint chats_system_prompt_length,
  drop constraint chats_metadata_is_object,
  drop constraint chats_tags_bounded,
  drop constraint chats_memory_strategy_known,
  drop constraint chats_ttl_hours_range,
  drop constraint chats_max_turns_range,
  drop constraint chats_tool_name_length,
  drop constraint chats_topics_known,
  drop constraint chats_dates_storable,
  add constraint chats_valid check (throughline.chat_is_valid(
    title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, tool_name, topics,
    created_at, updated_at, last_message_at, revived_at)) not valid;

alter table public.conversation_briefs
  drop constraint conversation_briefs_two_keys,
  drop constraint conversation_briefs_readable,
  drop constraint conversation_briefs_counters,
  drop constraint conversation_briefs_lease_whole,
  drop constraint conversation_briefs_failure_whole,
  drop constraint conversation_briefs_imported_topics_is_array,
  add constraint conversation_briefs_valid check (throughline.brief_is_valid(
    brief, readable, pending_tokens, pending_turns, covered_seq, lease_token, lease_until, fold_failures, failing_since, fold_failure, retry_at,
    imported_topics)) not valid;
