-- The order and the tree of messages, the counters, and the brief that goes back when words do: maintained by the database, so that
-- every write to messages counts, whoever makes it.
--
-- They lock the chat's row before the brief's. Counters stop at zero, so that a wrong counter never blocks the
-- deletion of an account, and pending_tokens at two thousand million, so that no size of an imported chat blocks its turns.
--
-- Their plans are made once per connection, perhaps when a table had one page, and are kept while it grows:
-- until Postgres analyzes the table, or for all of a transaction that inserts thousands of rows. So their
-- settings and their conditions leave the planner nothing but the index on the ids that a statement touched.

-- Messages that were deleted within a day of their writing. A request that is read late, because its server or the network stood
-- still, does not store them again. A digest, which says nothing of the user or the message; no table refers to it.
create table throughline.deleted_messages (
  key        uuid        not null,
  deleted_at timestamptz not null default now(),

  constraint deleted_messages_pkey primary key (key)
);
create index deleted_messages_deleted_at_idx on throughline.deleted_messages (deleted_at);

revoke all on throughline.deleted_messages from public, anon, authenticated;
grant select on throughline.deleted_messages to service_role;
alter table throughline.deleted_messages enable row level security;
create policy deleted_messages_service on throughline.deleted_messages for select to service_role using (true);

create function throughline.message_key(user_id uuid, client_message_id uuid) returns uuid
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return md5(user_id::text || client_message_id::text)::uuid;
end
$$;

-- Assigns seq and the parent, and refuses what was deleted (TL004). An import names the parents of messages that are not on the path.
-- The lock waits for other writers to the chat, so seq follows the order of commits. last_seq is
-- updated only after the rows are written (see count_inserted_messages), because a row that ON CONFLICT skips
-- must leave no gap; until then the chat's last message covers the earlier rows of the same statement. Where that is a reply which waits
-- for its user, the conversation goes on without the results.
-- SECURITY DEFINER: a policy of the app's must not hide the messages that seq counts.
create function throughline.place_message() returns trigger
language plpgsql security definer set search_path = ''
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  last record;
begin
  new.token_count := throughline.tokens_of(
    new.content, new.tool_calls, new.parts, new.role, new.name, new.superseded_by is not null, new.token_count);
  select c.last_seq, c.user_id into new.seq, new.user_id
    from public.chats c
   where c.id = new.chat_id and (c.user_id = new.user_id or new.user_id is null)
     for no key update;
  if not found then
    raise foreign_key_violation using
      message = 'the chat does not exist, or is another user''s',
      constraint = 'messages_chat_id_fkey';
  end if;
  -- After the lock, to see the commits that it waited for.
  select m.id, m.seq, m.superseded_by, m.status into last from public.messages m where m.chat_id = new.chat_id order by m.seq desc limit 1;
  new.seq := greatest(new.seq, last.seq) + 1;
  if new.superseded_by is null then
    new.parent_id := last.id;
    if last.superseded_by is not null then
      new.parent_id := (select m.id from public.messages m where m.chat_id = new.chat_id and m.superseded_by is null order by m.seq desc limit 1);
    end if;
    if last.status = 'awaiting' then
      perform throughline.end_calls(last.id);
    end if;
  elsif new.parent_id is not null and not exists (select from public.messages m where m.id = new.parent_id and m.chat_id = new.chat_id) then
    raise foreign_key_violation using message = 'the parent is no message of the chat';
  end if;
  if new.client_message_id is not null
     and exists (select from throughline.deleted_messages d where d.key = throughline.message_key(new.user_id, new.client_message_id)) then
    raise exception using errcode = 'TL004', message = 'the message was deleted';
  end if;
  return new;
end
$$;

create trigger messages_place before insert on public.messages for each row execute function throughline.place_message();

-- A chat's title from its first message: the first line, cut at the end of a word within 80 characters.
create function throughline.title_of(content text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when char_length(line) <= 80 then line else coalesce(nullif(substring(left(line, 81) from '^(.*\S)\s+\S*$'), ''), left(line, 80)) end
    from (select btrim(split_part(btrim(content, E' \t\r\n'), E'\n', 1), E' \t\r') as line) first
$$;

-- The new title of a chat whose title was made of messages that lost their words: from what its first message is now, so that they do
-- not survive as the title. Null for another title, such as one of a person's own words, which stays. seq is of the first of them, content
-- what the first one of the user held. The lock comes first: the model's title may be written at this moment.
create function throughline.renewed_title(chat_id uuid, seq bigint, content text) returns text
language plpgsql volatile security invoker set search_path = '' as $$
declare
  had record;
begin
  select c.title, c.title_seq into had from public.chats c where c.id = $1 for no key update;
  if had.title_seq >= $2 or coalesce(had.title_seq, 0) = 0 and had.title <> '' and had.title = throughline.title_of($3) then
    return coalesce((select throughline.title_of(m.content) from public.messages m
                      where m.chat_id = $1 and m.role = 'user' and m.token_count > 0 order by m.seq limit 1), '');
  end if;
  return null;
end
$$;

-- Adds to a chat's counters. Title is null where it stays: who names that column tells the user's other devices. All is one
-- update: the second of a transaction would wait for the deletion of the account, which waits for this one.
create function throughline.recount_chat(chat_id uuid, messages bigint, turns bigint, last_seq bigint, last_at timestamptz, title text) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if title is null then
    update public.chats c
       set last_seq = greatest(c.last_seq, $4), message_count = c.message_count + messages, turn_count = greatest(0, c.turn_count + turns),
           last_message_at = greatest(c.last_message_at, last_at)
     where c.id = $1;
  else
    update public.chats c
       set last_seq = greatest(c.last_seq, $4), message_count = c.message_count + messages, turn_count = greatest(0, c.turn_count + turns),
           last_message_at = greatest(c.last_message_at, last_at), title = $6, title_seq = -1
     where c.id = $1;
  end if;
end
$$;

-- Updates the counters of each chat and its brief, gives a chat without a title one from its first message, and announces
-- the last of the messages. An import sets throughline.quiet: no one listens to its chat yet. SECURITY DEFINER: the counters
-- are right for a writer with fewer rights as well.
create function throughline.count_inserted_messages() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  added record;
begin
  for added in
    select chat_id, max(seq) as last_seq, bool_or(parent_id is null and superseded_by is null) as begins, count(*) as messages,
           max(created_at) as last_at, sum(token_count) as tokens,
           count(*) filter (where role = 'user' and token_count > 0) as turns
      from new_messages group by chat_id order by chat_id
  loop
    perform throughline.recount_chat(added.chat_id, added.messages, added.turns, added.last_seq, added.last_at,
      case when added.begins then (
        select throughline.title_of(m.content) from new_messages m join public.chats c on c.id = m.chat_id
         where m.chat_id = added.chat_id and m.parent_id is null and m.role = 'user' and m.token_count > 0 and c.title = '') end);
    if added.tokens > 0 then
      update public.conversation_briefs b
         set pending_tokens = least(b.pending_tokens + added.tokens, 2000000000),
             pending_turns = b.pending_turns + added.turns
       where b.chat_id = added.chat_id;
    end if;
    if coalesce(current_setting('throughline.quiet', true), '') <> 'on' then
      perform throughline.broadcast(added.chat_id, 'message_created', jsonb_build_object('chat_id', added.chat_id, 'message_id', m.id, 'seq', m.seq))
         from new_messages m where m.chat_id = added.chat_id and m.seq = added.last_seq;
    end if;
  end loop;
  return null;
end
$$;

create trigger messages_count_inserted after insert on public.messages
  referencing new table as new_messages
  for each statement execute function throughline.count_inserted_messages();

-- A reply that waits for its user and leaves the path waits no more. One that is cancelled has a result of each call, whoever ends it: also the
-- sweep, where its server died. SECURITY DEFINER: whoever may change a message, as the app decides, needs no right to our functions.
create function throughline.check_message_update() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (new.id, new.chat_id, new.user_id, new.seq) is distinct from (old.id, old.chat_id, old.user_id, old.seq) then
    raise check_violation using message = 'a message keeps its id, chat, user and seq';
  end if;
  if new.status = 'awaiting' and new.superseded_by is not null then
    new.status := 'cancelled';
    new.server_id := null;
    new.lease_until := null;
  end if;
  if new.status = 'cancelled' then
    new.parts := throughline.close_parts(new.parts, new.content, 'skipped');
  end if;
  if new.token_count is distinct from old.token_count then
    new.token_count := throughline.tokens_of(
      new.content, new.tool_calls, new.parts, new.role, new.name, new.superseded_by is not null, new.token_count);
  elsif (new.content, new.tool_calls, new.role, new.superseded_by) is distinct from (old.content, old.tool_calls, old.role, old.superseded_by)
     or new.role = 'tool' and new.name is distinct from old.name then
    new.token_count := throughline.tokens_of(new.content, new.tool_calls, new.parts, new.role, new.name, new.superseded_by is not null, null);
  elsif new.parts is distinct from old.parts then
    new.token_count := throughline.tokens_of(new.content, new.tool_calls, new.parts, new.role, new.name, new.superseded_by is not null,
      old.token_count - throughline.tokens_of_parts(old.parts) + throughline.tokens_of_parts(new.parts));
  end if;
  new.updated_at := now();
  return new;
end
$$;

create trigger messages_check_update before update on public.messages for each row execute function throughline.check_message_update();

-- A reply that ends adds its text to the buffer, and one that waits for its user what it has so far. For each row, without the transition
-- tables that edits need: a statement ends many replies only in as many chats. The trigger's condition leaves out leases, which are renewed
-- many at a time. A message of the user, which only a hand marks as running, is a turn and counted like an edit. One that was indexed
-- before it went on is indexed again. SECURITY DEFINER as above.
create function throughline.count_ended_reply() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if new.token_count <> old.token_count and 'user' not in (old.role, new.role) then
    update public.conversation_briefs b
       set pending_tokens = least(greatest(0, b.pending_tokens::bigint + new.token_count - old.token_count), 2000000000)
     where b.chat_id = new.chat_id and b.covered_seq < new.seq;
  end if;
  if new.status not in ('streaming', old.status) then
    perform throughline.broadcast(new.chat_id, 'chat_updated',
      jsonb_build_object('chat_id', new.chat_id, 'message_id', new.id, 'seq', new.seq, 'status', new.status));
  end if;
  if new.parts is null or new.status in ('streaming', 'awaiting') then
    return null;
  end if;
  if exists (select from public.conversation_briefs b where b.chat_id = new.chat_id and b.indexed_seq >= new.seq) then
    perform from public.conversation_briefs b where b.chat_id = new.chat_id for update;
    perform throughline.index_edits(new.chat_id, array[new.seq]);
  end if;
  return null;
end
$$;

create trigger messages_count_ended after update on public.messages
  for each row when (old.status in ('streaming', 'awaiting') and (old.status, old.token_count) is distinct from (new.status, new.token_count))
  execute function throughline.count_ended_reply();

-- A reply that has its end, or has left the path, does not go on: what that would take is deleted. It may have been interrupted in between,
-- where its server was thought dead. Other pieces are deleted by the server that wrote them. SECURITY DEFINER as above.
create function throughline.forget_state() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  delete from public.message_deltas d where d.message_id = new.id and d.start_char = -1;
  return null;
end
$$;

create trigger messages_forget_state after update on public.messages
  for each row when (new.parts is not null and (new.status in ('complete', 'cancelled') and old.status <> new.status
    or new.superseded_by is not null and old.superseded_by is null))
  execute function throughline.forget_state();

-- Any other change of a text is an edit, and so are leaving the path, coming back to it, and going on with a reply that had ended: a fold
-- planned with the old words is discarded, the brief goes back to before them, and the index of turns is written again. The brief is
-- locked before covered_seq is read, so that a fold that commits at this moment is seen. The first check returns early when replies end and when leases
-- are renewed. SECURITY DEFINER as above.
create function throughline.count_updated_messages() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off set enable_nestloop = off as $$
begin
  if not exists (select from old_messages where status not in ('streaming', 'awaiting') or role = 'user')
     and not exists (select from new_messages where role = 'user') then
    return null;
  end if;
  if not exists (select from old_messages o join new_messages n using (id)
                  where (o.content, o.tool_calls, o.parts, o.name, o.token_count, o.role, o.reply_to, o.superseded_by, o.created_at)
                        is distinct from (n.content, n.tool_calls, n.parts, n.name, n.token_count, n.role, n.reply_to, n.superseded_by, n.created_at)
                     or n.status in ('streaming', 'awaiting') and o.status <> n.status) then
    return null;
  end if;
  perform throughline.recount_chat(changed.chat_id, 0, changed.turns, null, null, changed.title)
     from (select n.chat_id, sum((n.role = 'user' and n.token_count > 0)::int - (o.role = 'user' and o.token_count > 0)::int) as turns,
                  (select throughline.renewed_title(n.chat_id, min(e.seq), (array_agg(e.content order by e.seq) filter (where e.role = 'user'))[1])
                     from old_messages e join new_messages a using (id)
                    where e.chat_id = n.chat_id and e.token_count > 0 and (a.role <> e.role or a.content <> e.content or a.token_count = 0)
                   having count(*) > 0) as title
             from old_messages o join new_messages n using (id) group by n.chat_id order by n.chat_id) changed
    where changed.turns <> 0 or changed.title is not null;
  perform from public.conversation_briefs
    where chat_id = any (array(select chat_id from new_messages)) order by chat_id for update;
  update public.conversation_briefs b
     set pending_tokens = least(greatest(0, b.pending_tokens + changed.tokens), 2000000000),
         pending_turns = greatest(0, b.pending_turns + changed.turns),
         cleared_turns = greatest(0, b.cleared_turns + changed.cleared),
         edit_count = b.edit_count + changed.edits
    from (select n.chat_id,
                 coalesce(sum(n.token_count - o.token_count) filter (where n.seq > c.covered_seq), 0) as tokens,
                 coalesce(sum(e.turns) filter (where n.seq > c.covered_seq), 0) as turns,
                 coalesce(sum(e.turns) filter (where n.seq <= c.cleared_seq), 0) as cleared,
                 count(*) filter (where e.edited) as edits
            from old_messages o
            join new_messages n using (id)
            join public.conversation_briefs c on c.chat_id = n.chat_id and c.chat_id = any (array(select chat_id from new_messages))
            cross join lateral (select o.status not in ('streaming', 'awaiting')
              and (n.status in ('streaming', 'awaiting') or (o.content, o.tool_calls, o.parts, o.name, o.role, o.reply_to, o.superseded_by)
                  is distinct from (n.content, n.tool_calls, n.parts, n.name, n.role, n.reply_to, n.superseded_by)) as edited,
              (n.role = 'user' and n.token_count > 0)::int - (o.role = 'user' and o.token_count > 0)::int as turns) e
           where o.status not in ('streaming', 'awaiting') or 'user' in (o.role, n.role)
           group by n.chat_id) changed
   where b.chat_id = changed.chat_id and b.chat_id = any (array(select chat_id from new_messages))
     and (changed.tokens, changed.turns, changed.cleared, changed.edits) is distinct from (0, 0, 0, 0);
  perform throughline.forget_summaries(changed.chat_id, changed.seqs)
     from (select n.chat_id, array_agg(n.seq) as seqs
             from old_messages o join new_messages n using (id)
            where o.status not in ('streaming', 'awaiting') and (o.token_count > 0 or n.token_count > 0)
              and (n.status in ('streaming', 'awaiting') or (o.content, o.tool_calls, o.parts, o.name, o.role, o.reply_to, o.superseded_by)
                  is distinct from (n.content, n.tool_calls, n.parts, n.name, n.role, n.reply_to, n.superseded_by))
            group by n.chat_id order by n.chat_id) changed;
  perform throughline.broadcast(moved.chat_id, 'chat_updated', jsonb_build_object('chat_id', moved.chat_id, 'seq', moved.seq)),
          throughline.read_again(moved.chat_id, moved.back)
     from (select n.chat_id, min(n.seq) as seq, case when bool_or(n.superseded_by is null) then min(n.seq) end as back
             from old_messages o join new_messages n using (id)
            where o.superseded_by is distinct from n.superseded_by group by n.chat_id order by n.chat_id) moved;
  perform throughline.index_edits(changed.chat_id, changed.seqs)
     from (select n.chat_id, array_agg(n.seq order by n.seq) as seqs
             from old_messages o join new_messages n using (id)
            where o.status not in ('streaming', 'awaiting') and (o.token_count > 0 or n.token_count > 0)
              and (o.content, o.role, o.token_count, o.reply_to, o.created_at)
                  is distinct from (n.content, n.role, n.token_count, n.reply_to, n.created_at)
            group by n.chat_id order by n.chat_id) changed;
  return null;
end
$$;

create trigger messages_count_updated after update on public.messages
  referencing old table as old_messages new table as new_messages
  for each statement execute function throughline.count_updated_messages();

-- Takes deleted messages out of the counters, the title, the brief and the index, gives their children to their parents, and deletes
-- the pieces of their replies. SECURITY DEFINER: the auth server deletes accounts, and phones chats.
create function throughline.count_deleted_messages() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off set enable_nestloop = off as $$
begin
  perform throughline.recount_chat(gone.chat_id, - gone.messages, - gone.turns, null, null,
            throughline.renewed_title(gone.chat_id, gone.seq,
              (select o.content from old_messages o where o.chat_id = gone.chat_id and o.seq = gone.first and o.role = 'user')))
     from (select chat_id, count(*) as messages, count(*) filter (where role = 'user' and token_count > 0) as turns,
                  min(seq) filter (where token_count > 0) as seq, min(seq) filter (where role = 'user' and token_count > 0) as first
             from old_messages group by chat_id order by chat_id) gone;
  -- Before the brief is locked: a reply that ends locks its row first.
  with recursive heirs (id, parent_id, moved_from) as (
    select m.id, o.parent_id, coalesce(m.moved_from, o.id) from public.messages m join old_messages o on o.id = m.parent_id
     where m.chat_id = any (array(select chat_id from old_messages)) and m.seq > (select min(seq) from old_messages)
    union all
    select h.id, o.parent_id, h.moved_from from heirs h join old_messages o on o.id = h.parent_id)
  update public.messages m set parent_id = h.parent_id, moved_from = h.moved_from
    from heirs h
   where m.id = h.id and m.chat_id = any (array(select chat_id from old_messages)) and not exists (select from old_messages o where o.id = h.parent_id);
  perform from public.conversation_briefs
    where chat_id = any (array(select chat_id from old_messages)) order by chat_id for update;
  update public.conversation_briefs b
     set pending_tokens = greatest(0, b.pending_tokens - gone.tokens),
         pending_turns = greatest(0, b.pending_turns - gone.turns),
         cleared_turns = greatest(0, b.cleared_turns - gone.cleared),
         edit_count = b.edit_count + 1
    from (select o.chat_id,
                 coalesce(sum(o.token_count) filter (where o.seq > c.covered_seq), 0) as tokens,
                 count(*) filter (where o.role = 'user' and o.token_count > 0 and o.seq > c.covered_seq) as turns,
                 count(*) filter (where o.role = 'user' and o.token_count > 0 and o.seq <= c.cleared_seq) as cleared
            from old_messages o
            join public.conversation_briefs c on c.chat_id = o.chat_id and c.chat_id = any (array(select chat_id from old_messages))
           group by o.chat_id) gone
   where b.chat_id = gone.chat_id and b.chat_id = any (array(select chat_id from old_messages));
  perform throughline.forget_summaries(gone.chat_id, gone.seqs), throughline.index_edits(gone.chat_id, gone.seqs)
     from (select chat_id, array_agg(seq order by seq) as seqs from old_messages where token_count > 0 group by chat_id order by chat_id) gone;
  delete from public.message_deltas where message_id = any (array(select id from old_messages));
  insert into throughline.deleted_messages (key)
  select throughline.message_key(o.user_id, o.client_message_id) from old_messages o
   where o.client_message_id is not null and o.created_at > now() - interval '1 day'
     -- Nothing is kept of who was erased.
     and exists (select from throughline.accounts a where a.user_id = o.user_id)
      on conflict do nothing;
  return null;
end
$$;

create trigger messages_count_deleted after delete on public.messages
  referencing old table as old_messages
  for each statement execute function throughline.count_deleted_messages();

-- Leads the path of a chat through a message that is not on it, and on to the latest message that follows it. Returns the first seq that
-- changed and the path's last message. The caller holds the chat's lock, and no reply is running. offset 0: a message at a time, by the
-- indexes; Postgres, which knows nothing of a new branch, would read all of the chat for each.
create function throughline.select_version(message uuid, out from_seq bigint, out last_message_id uuid)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  chat constant uuid := (select m.chat_id from public.messages m where m.id = message);
  fork bigint;
  line uuid[];
begin
  with recursive after (id, seq) as (
    select m.id, m.seq from public.messages m where m.id = message
    union all
    select c.id, c.seq from after a
     cross join lateral (
           select m.id, m.seq from public.messages m where m.chat_id = chat and m.parent_id = a.id and m.superseded_by is not null offset 0) c)
  select a.id into last_message_id from after a order by a.seq desc limit 1;
  with recursive before (id, parent_id, seq, superseded_by) as (
    select m.id, m.parent_id, m.seq, m.superseded_by from public.messages m where m.id = last_message_id
    union all
    select p.id, p.parent_id, p.seq, p.superseded_by from before b
     cross join lateral (select m.* from public.messages m where m.id = b.parent_id offset 0) p
     where b.superseded_by is not null)
  select array_agg(b.id) filter (where b.superseded_by is not null), coalesce(max(b.seq) filter (where b.superseded_by is null), 0)
    into line, fork from before b;
  with moved as (
    update public.messages m set superseded_by = case when m.id = any (line) then null else message end
     where m.chat_id = chat and m.seq > fork and (m.superseded_by is null or m.id = any (line))
    returning m.seq)
  select min(v.seq) into from_seq from moved v;
end
$$;

-- First of all in a transaction that takes messages off the path and adds others, which updates the chat twice: the second time Postgres
-- locks the account, and who deletes that holds it and waits for the chat. SECURITY DEFINER: no user has a right to accounts.
create function throughline.hold_account() returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform from throughline.accounts a where a.user_id = (select throughline.uid()) for key share;
end
$$;

-- How many turns a chat has, after messages left its path for the one named. Raises (TL008) where that was not stored after all: then
-- they stay. The caller holds the chat's lock.
create function throughline.count_replaced(chat uuid, by uuid) returns bigint
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if not exists (select from public.messages m where m.id = by)
     and exists (select from public.messages m where m.chat_id = chat and m.superseded_by = by) then
    raise exception using errcode = 'TL008', message = 'nothing came in place of what was superseded';
  end if;
  return coalesce((select c.turn_count from public.chats c where c.id = chat), 0);
end
$$;

-- The versions of each message, itself among them: what was said instead of it at its place, without replies that failed before they
-- said a word. On the path they have no index and need none: the message that follows another there is the next of it.
create view throughline.message_versions with (security_invoker = true) as
select m.id as message_id, v.id as version_id, v.seq, v.superseded_by is null as selected
  from public.messages m
 cross join lateral (
       select s.* from public.messages s where s.superseded_by is not null and s.chat_id = m.chat_id and s.parent_id = m.parent_id
       union all
       select s.* from public.messages s where s.superseded_by is not null and s.chat_id = m.chat_id and s.parent_id is null and m.parent_id is null
       union all
       select s.* from public.messages s where s.id = m.id and m.superseded_by is null
       union all
       (select s.* from public.messages s
         where m.superseded_by is not null and s.superseded_by is null and s.chat_id = m.chat_id
           and s.seq > case when m.parent_id is null then 0
                            else (select p.seq from public.messages p where p.id = m.parent_id and p.superseded_by is null) end
         order by s.seq limit 1)) v
 where v.role = m.role and v.parent_id is not distinct from m.parent_id and v.moved_from is not distinct from m.moved_from
   and (m.role <> 'assistant' or v.reply_to is not distinct from m.reply_to)
   and not (v.role = 'assistant' and v.status = 'failed' and v.content = '');

-- Messages as their owner lists them.
create view throughline.listed_messages with (security_invoker = true) as
select m.id, m.client_message_id, m.chat_id, m.seq, m.role, m.content, m.status, m.reply_to, m.parent_id, m.superseded_by, v.version, v.versions,
       m.token_count, m.pinned, m.importance, m.rating, m.tool_calls, m.tool_call_id, m.name, m.tool_name, m.metadata, m.parts,
       coalesce((select jsonb_agg(jsonb_build_object('path', f.path, 'sha256', encode(f.sha256, 'hex'), 'bytes', c.bytes) order by f.place)
                   from public.message_files f join public.chat_files c on c.chat_id = f.chat_id and c.sha256 = f.sha256
                  where f.message_id = m.id), '[]') as files, m.created_at, m.updated_at
  from public.messages m
 cross join lateral (
       select 1 + count(*) filter (where v.seq < m.seq) as version, count(*) as versions from throughline.message_versions v where v.message_id = m.id) v;

revoke all on throughline.message_versions, throughline.listed_messages from public, anon, authenticated;
grant select on throughline.message_versions, throughline.listed_messages to throughline_app;
