-- Every message of every chat, stored unchanged until the chat is deleted: a tree, of which one line is read. The path of a chat is its
-- messages with superseded_by null, in the order of seq; prompts, folds and lists read it alone.

-- See throughline.chat_is_valid.
create function throughline.message_is_valid(
  role text, status text, token_count int, metadata jsonb, importance real, rating smallint, tool_calls jsonb, tool_call_id text, name text,
  tool_name text, created_at timestamptz, updated_at timestamptz, parts jsonb)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
declare
  broken constant text := case
    when role not in ('user', 'assistant', 'system', 'tool') then 'messages_role_known'
    when status not in ('complete', 'streaming', 'awaiting', 'failed', 'cancelled', 'interrupted') then 'messages_status_known'
    -- The upper bound keeps one wrong row from filling the counters of its chat, which no turn could then pass.
    when token_count not between 0 and 100000000 then 'messages_token_count_range'
    when jsonb_typeof(metadata) <> 'object' then 'messages_metadata_is_object'
    when importance not between 0 and 1 then 'messages_importance_range'
    when rating not in (-1, 0, 1) then 'messages_rating_known'
    when jsonb_typeof(tool_calls) <> 'array' then 'messages_tool_calls_is_array'
    when jsonb_typeof(parts) <> 'array' then 'messages_parts_is_array'
    when char_length(tool_call_id) > 256 or char_length(name) > 256 or char_length(tool_name) > 64 then 'messages_names_length'
    -- See chats_dates_storable.
    when least(created_at, updated_at) < '0001-01-01 00:00Z' or greatest(created_at, updated_at) >= '10000-01-01 00:00Z' then 'messages_dates_storable'
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

create table public.messages (
  id                uuid        not null default gen_random_uuid(),
  chat_id           uuid        not null,
  user_id           uuid        not null,
  -- 1, 2, 3 … within the chat, in commit order: assigned by a trigger that locks the chat's row.
  seq               bigint      not null,
  role              text        not null,
  content           text        not null default '',
  status            text        not null default 'complete',
  -- The user message that an assistant message answers. No foreign key: a reply outlives a deleted question,
  -- and the check would cost every reply a look-up.
  reply_to          uuid,
  -- Tokens of all that a prompt shows of the message; 0 when that is nothing. See throughline.tokens_of. A turn is a
  -- message of the user with tokens.
  token_count       int         not null,
  metadata          jsonb       not null default '{}',
  client_message_id uuid,
  -- While status is streaming: the generating server, and until when it counts as alive if it does not renew its own lease. While it is
  -- awaiting: no server, and when the calls that wait for the user expire.
  server_id         uuid,
  lease_until       timestamptz,
  -- While status is streaming: a request to stop, on whichever server it arrived.
  cancel_requested  boolean     not null default false,
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),
  -- The message by which this one left the path: the edited one, another reply, the version that was selected. It keeps its text, but
  -- counts no tokens and is in no prompt and no summary. No foreign keys here and below: a message outlives these.
  superseded_by     uuid,
  -- The path's last message when this one was inserted; a trigger sets it. The children of a deleted message move to its parent.
  parent_id         uuid,
  -- The parent that was deleted first. Versions of a message have parent, role and this in common: what two deletions bring together
  -- are no versions of each other.
  moved_from        uuid,
  -- The message that this one was sent to replace, so that the same request is known again.
  replaces          uuid,
  -- Shown word for word in hybrid chats while they fit their part of the prompt.
  pinned            boolean     not null default false,
  -- 0 to 1 as the app rates it; null for not rated.
  importance        real,
  -- An assistant's calls of tools, as the model's API writes them.
  tool_calls        jsonb,
  -- The call that a tool message answers.
  tool_call_id      text,
  -- The speaker within the role, such as the tool's name.
  name              text,
  -- The tool through which a user message came.
  tool_name         text,
  -- What a reply holds beside its text, in order: reasoning, calls of tools, approvals, results, sources. See memory.Part in Go.
  parts             jsonb,
  -- What the user said of a message: 1 good, -1 bad, 0 neither; null where nothing was said.
  rating            smallint,

  constraint messages_pkey primary key (id),
  constraint messages_chat_id_fkey foreign key (chat_id) references public.chats (id) on delete cascade,
  -- Also the index of every read of a chat: the buffer is a range of it.
  constraint messages_chat_id_seq_key unique (chat_id, seq),
  constraint messages_valid check (throughline.message_is_valid(
    role, status, token_count, metadata, importance, rating, tool_calls, tool_call_id, name, tool_name, created_at, updated_at, parts))
);

-- For the policies. Their condition on user_id is part of every read; with chat_id and seq in the index, the
-- end of one chat is found without reading the user's other messages.
create index messages_user_id_chat_id_seq_idx on public.messages (user_id, chat_id, seq);
-- A message that a client sends twice is stored once.
create unique index messages_client_message_id_key on public.messages (user_id, client_message_id) where client_message_id is not null;
-- At most one open reply per chat, across all servers. The index holds only open replies, so the search
-- for abandoned ones uses it too.
create unique index messages_one_generation_key on public.messages (chat_id) where status in ('streaming', 'awaiting');
-- For ReadKept. The planner uses the index only where a query repeats this condition literally, so 0.8 stands
-- there as well; in Go it is memory.KeptImportance.
create index messages_kept_idx on public.messages (chat_id, seq) where pinned or importance >= 0.8;
-- For the versions of a message. A chat without any pays nothing.
create index messages_superseded_idx on public.messages (chat_id, parent_id, seq) where superseded_by is not null;
-- For the list of tools that a chat used.
create index messages_tool_name_idx on public.messages (chat_id, tool_name) where tool_name is not null;

-- A chat's messages are one user's. Postgres took chat and user for independent, as if they had a message in common: so an
-- index of both looked as good as the primary key, and saving a reply read all messages of its chat.
create statistics throughline.messages_of_a_chat (dependencies) on chat_id, user_id from public.messages;

-- The servers that generate replies. Each renews its lease, however many replies it has.
create table throughline.servers (
  id          uuid        not null,
  lease_until timestamptz not null,
  constraint servers_pkey primary key (id)
);
revoke all on throughline.servers from public, anon, authenticated;
grant select on throughline.servers to service_role;
alter table throughline.servers enable row level security;
create policy servers_service on throughline.servers for select to service_role using (true);

-- Whether the server of a running reply is dead: neither the reply's lease nor the server's lasts. A reply without either, inserted by
-- hand, counts as abandoned after a minute. After a restart of Postgres servers get ten seconds to renew leases that ran out in the
-- meantime. SECURITY DEFINER: no user has a right to servers.
create function throughline.is_abandoned(server uuid, lease_until timestamptz, updated_at timestamptz) returns boolean
language plpgsql stable security definer set search_path = '' as $$
declare
  alive_until constant timestamptz := greatest(lease_until, (select s.lease_until from throughline.servers s where s.id = server));
begin
  return coalesce(alive_until, updated_at + interval '1 minute') < now()
     and (pg_postmaster_start_time() < alive_until or pg_postmaster_start_time() < now() - interval '10 seconds');
end
$$;

-- Of the parts of a reply: calls, and results as far as a prompt shows them. Reasoning and sources are in none.
create function throughline.tokens_of_parts(parts jsonb) returns int
language plpgsql immutable security invoker set search_path = '' as $$
begin
  if parts is null or parts = '[]' then
    return 0;
  end if;
  return (select coalesce(sum(case p.part ->> 'type'
                                when 'tool_call' then 2 + (octet_length(p.part ->> 'name') + octet_length(p.part ->> 'arguments')) / 3
                                when 'tool_result' then 2 + least(octet_length(p.part ->> 'output'), 1600) / 3 end), 0)
            from jsonb_array_elements(parts) p (part));
end
$$;

-- The tokens of all that a prompt shows of a message: content, tool calls, parts, a tool's name. 0 when that is nothing: a
-- superseded reply, and a blank message, which holds only white space as Unicode defines it (memory.Message.Blank in
-- Go). given is what its writer counted; null asks for an estimate, which is about right for English and too high for
-- other scripts: a high one only folds early. No text counts less than a thirty-second of its bytes, also with a smaller one given; parts,
-- of which the estimate is high, no less than an eighth of that.
create function throughline.tokens_of(
  content text, tool_calls jsonb, parts jsonb, role text, name text, superseded boolean, given int)
returns int
language plpgsql immutable security invoker set search_path = '' as $$
declare
  bytes constant int := octet_length(content);
  of_parts constant int := throughline.tokens_of_parts(parts);
  beside int := 0;
begin
  if superseded then
    return 0;
  end if;
  if tool_calls <> '[]' then
    beside := beside + octet_length(tool_calls::text) / 3;
  elsif of_parts = 0 and btrim(content,
       E' \t\n\x0b\f\r\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000') = '' then
    return 0;
  end if;
  if role = 'tool' and name is not null then
    beside := beside + 2 + octet_length(name) / 3;
  end if;
  return greatest(coalesce(given, bytes / 4 + beside + of_parts), 1 + bytes / 32 + beside + of_parts / 8);
end
$$;

-- The parts of a reply that goes on without its user: each call without a result has one, in the order of the calls. how says what became
-- of them: skipped or expired.
create function throughline.close_parts(parts jsonb, content text, how text) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select parts || coalesce((
    select jsonb_agg(jsonb_build_object('type', 'tool_result', 'at', char_length(content), 'call_id', c.part -> 'call_id', 'status', how, 'output', null)
                     order by c.place)
      from jsonb_array_elements(parts) with ordinality c (part, place)
     where c.part ->> 'type' = 'tool_call'
       and not exists (select from jsonb_array_elements(parts) r (part)
                        where r.part ->> 'type' = 'tool_result' and r.part -> 'call_id' = c.part -> 'call_id')), '[]')
$$;

-- Ends a reply that waits for its user, and reports whether it did; a trigger says that its calls were skipped. The caller holds the chat's
-- lock, or none of the chat's rows.
create function throughline.end_calls(message uuid) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.messages m
     set status = 'cancelled', server_id = null, lease_until = null
   where m.id = message and m.status = 'awaiting';
  return found;
end
$$;

create view throughline.own_messages as select * from public.messages where user_id = (select throughline.uid()) with check option;

call throughline.protect('public.messages', clients => 'select', server => 'select, insert, update, delete', jobs => 'select', per_user => -0.01);
