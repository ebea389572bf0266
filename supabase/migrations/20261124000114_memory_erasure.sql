-- What becomes of memories when a message, a chat or an account is deleted, or a message is edited or superseded; and the messages not
-- read for memories, because they were sent while memories were off.
--
-- A memory is never left with words of a message that is gone. All of this runs when the transaction commits: its locks of
-- memory_users and memories come after those of chats, messages and briefs, in however many chats it deletes.

-- What a memory is when some of its sources are gone. One that was extracted becomes what the latest source that can carry
-- it says; without such a source it is deleted. If the user is remembered for just that already, the other memory gets the
-- sources. What the user wrote stays: no model changes that. The caller holds the lock of the user's row of memory_users.
--
-- A memory that this one took the place of stays closed: usually it was true no longer, for any reason why this one
-- goes.
create function throughline.restate_memory(memory uuid) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  m record;
  carries text;
  from_chat uuid;
  twin uuid;
begin
  select c.id, c.user_id, c.content, c.status, c.origin, c.pinned, c.durable, c.confidence, c.source_session_id into m
    from public.memories c where c.id = memory;
  if m.source_session_id is not null
     and not exists (select from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id and s.chat_id = m.source_session_id) then
    update public.memories set source_session_id = null where id = m.id;
  end if;
  -- What a model gave as its reasons may hold words of the message as well.
  update public.memory_revisions r set reason = null where r.memory_id = m.id and r.actor = 'model' and r.reason is not null;
  if m.origin <> 'extracted' then
    return;
  end if;

  select s.fact, s.chat_id into carries, from_chat
    from public.memory_sources s
   where s.user_id = m.user_id and s.memory_id = m.id and s.fact is not null
   order by s.fact = m.content desc, s.said_at desc, s.seq desc limit 1;
  if carries is null then
    delete from public.memories where id = m.id;
    return;
  end if;

  select t.id into twin
    from public.memories t
   where t.user_id = m.user_id and t.content_key = throughline.content_key(carries) and t.status in ('active', 'inbox')
     and t.id <> m.id and m.status in ('active', 'inbox');
  if twin is not null then
    insert into public.memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at, extraction_id)
    select twin, s.message_id, s.user_id, s.chat_id, s.seq, s.fact, s.quote, s.said_at, s.extraction_id
      from public.memory_sources s where s.user_id = m.user_id and s.memory_id = m.id
    on conflict (memory_id, message_id) do nothing;
    perform throughline.note_change('MERGE', null, 'erasure', null, null);
    update public.memories o set superseded_by = twin where o.superseded_by = m.id and o.user_id = m.user_id;
    update public.memories o set conflicts_with = twin where o.conflicts_with = m.id and o.user_id = m.user_id;
    delete from public.memories where id = m.id;
    update public.memories t
       set confidence = greatest(t.confidence, m.confidence), pinned = t.pinned or m.pinned, durable = t.durable or m.durable,
           status = case when m.status = 'active' then 'active' else t.status end
     where t.id = twin;
  elsif carries <> m.content then
    perform throughline.note_change('UPDATE', null, 'erasure', null, null);
    -- When it began may have been said in the message as well.
    update public.memories
       set content = carries, edited = false, valid_from = null, source_session_id = coalesce(source_session_id, from_chat),
           valid_precision = case when valid_to is not null then valid_precision end
     where id = m.id;
  end if;
  update public.memory_revisions r set content = null, reason = null
   where r.memory_id = m.id and r.content <> carries;
end
$$;

-- SECURITY DEFINER: the auth server deletes accounts, and phones chats.
create function throughline.forget_message() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  change text;
  changed uuid[];
  memory uuid;
begin
  if not exists (select from public.memory_sources s where s.message_id = old.id) then
    return null;
  end if;
  -- Without the row the account is being deleted, and its memories with it.
  perform from public.memory_users u where u.user_id = old.user_id for no key update;
  if not found then
    return null;
  end if;
  perform throughline.raise_memory_version(old.user_id);
  with gone as (delete from public.memory_sources s where s.message_id = old.id and s.user_id = old.user_id returning s.memory_id)
  select array_agg(g.memory_id order by g.memory_id) into changed from gone g;
  -- All other messages that the transaction takes away, so that no memory falls back to one of them.
  delete from public.memory_sources s
   where s.user_id = old.user_id and s.memory_id = any (changed)
     and not exists (select from public.messages m where m.id = s.message_id and m.superseded_by is null);
  change := current_setting('throughline.change', true);
  foreach memory in array coalesce(changed, '{}') loop
    perform throughline.restate_memory(memory);
  end loop;
  perform set_config('throughline.change', coalesce(change, ''), true);
  return null;
end
$$;

create constraint trigger messages_forget_deleted after delete on public.messages
  deferrable initially deferred
  for each row execute function throughline.forget_message();
-- A turn pays nothing: a reply that ends was open.
create constraint trigger messages_forget_updated after update of content, role, superseded_by on public.messages
  deferrable initially deferred
  for each row when (old.status not in ('streaming', 'awaiting') and ((old.content, old.role) is distinct from (new.content, new.role)
    or old.superseded_by is null and new.superseded_by is not null))
  execute function throughline.forget_message();

-- Nothing names a memory that is gone. SECURITY DEFINER: the auth server deletes accounts.
create function throughline.unname_memories() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  change constant text := current_setting('throughline.change', true);
begin
  update public.memories m set conflicts_with = null from old_memories g where m.user_id = g.user_id and m.conflicts_with = g.id;
  if exists (select from old_memories g join public.memories m on m.superseded_by = g.id) then
    perform throughline.note_change('EDIT', null, 'erasure', null, null);
    update public.memories m set superseded_by = null
      from old_memories g where m.superseded_by = g.id and m.user_id = g.user_id;
    perform set_config('throughline.change', coalesce(change, ''), true);
  end if;
  return null;
end
$$;

create trigger memories_unname after delete on public.memories
  referencing old table as old_memories
  for each statement execute function throughline.unname_memories();

-- Locks messages of the user in the claims until the transaction ends, so that they are neither edited nor deleted before,
-- and returns the ones on the path with the same text: digests are the MD5 of their contents, in hexadecimal. The caller holds
-- the lock of the chat, "for key share", and nothing after messages in the order of locks. SECURITY DEFINER: a job may read messages, and not lock them.
create function throughline.hold_evidence(ids uuid[], digests text[]) returns setof uuid
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform from public.messages m where m.id = any (ids) and m.user_id = (select throughline.uid()) order by m.chat_id, m.seq for share;
  return query
    select m.id from unnest(ids, digests) e (id, digest)
      join public.messages m on m.id = e.id and m.user_id = (select throughline.uid()) and md5(m.content) = e.digest
       and m.superseded_by is null;
end
$$;

-- Messages that came back to the path, from a seq on, are read for memories again, but for what comes before a message that was not to
-- be read. Null for none. The caller holds the lock of the brief.
create function throughline.read_again(chat uuid, from_seq bigint) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  first constant bigint := greatest(from_seq,
    (select e.seq_to + 1 from public.memory_extractions e where e.chat_id = chat and e.result = 'skipped' order by e.seq_from desc limit 1));
begin
  if from_seq is null or not exists (select from public.conversation_briefs b where b.chat_id = chat and b.extracted_seq >= first) then
    return;
  end if;
  delete from public.memory_extractions e where e.chat_id = chat and e.seq_from >= first;
  update public.memory_extractions e
     set seq_to = first - 1,
         turns = (select count(*) from public.messages m
                   where m.chat_id = chat and m.seq >= e.seq_from and m.seq < first and m.role = 'user' and m.token_count > 0)
   where e.chat_id = chat and e.seq_to >= first;
  update public.conversation_briefs b set extracted_seq = first - 1 where b.chat_id = chat;
end
$$;

-- Writes all of a chat that was not read for memories to the ledger as skipped, and returns the id of the row; null where
-- there is nothing left. It waits for no deletion of the chat: that may wait for another chat which the caller has skipped. The
-- transaction fails then and can be repeated.
create function throughline.skip_rest(chat uuid) returns uuid
language plpgsql volatile security invoker set search_path = '' as $$
declare
  b record;
  last bigint;
  entry uuid;
begin
  perform from public.chats c where c.id = chat for key share nowait;
  select s.user_id, s.extracted_seq, s.extract_due_at into b from public.conversation_briefs s where s.chat_id = chat for update;
  select c.last_seq into last from public.chats c where c.id = chat;
  if b.user_id is null or last is null then
    return null;
  end if;
  if last > b.extracted_seq then
    insert into public.memory_extractions (chat_id, user_id, seq_from, seq_to, turns, result)
    select chat, b.user_id, b.extracted_seq + 1, last, count(*), 'skipped'
      from public.messages m
     where m.chat_id = chat and m.seq > b.extracted_seq and m.seq <= last and m.role = 'user' and m.token_count > 0
    returning id into entry;
  end if;
  if entry is not null or b.extract_due_at is not null then
    update public.conversation_briefs s set extracted_seq = greatest(s.extracted_seq, last), extract_due_at = null where s.chat_id = chat;
  end if;
  return entry;
end
$$;

-- The same for a chat of the user in the claims. SECURITY DEFINER: a user has no right to write the ledger.
create function throughline.skip_extraction(chat uuid) returns uuid
language sql volatile security definer set search_path = '' as $$
  select throughline.skip_rest(c.id) from public.chats c where c.id = chat and c.user_id = (select throughline.uid())
$$;

-- Since when a user's memories are off.
create function throughline.keep_memory_user() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.paused_at := case when not new.enabled then coalesce(new.paused_at, now()) end;
  if tg_op = 'UPDATE' then
    new.updated_at := now();
  end if;
  return new;
end
$$;
create trigger memory_users_keep before insert or update of enabled, time_zone, language, excluded on public.memory_users
  for each row execute function throughline.keep_memory_user();

-- Messages of the time when a user's memories were off are not read later. For the user in the claims before the statement, because
-- chats and briefs are locked before memory_users; if the statement leaves them off, there is as little to read. After it
-- where somebody else switches them on. SECURITY DEFINER: a phone may switch them on, and has no right to the ledger.
create function throughline.skip_pause() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  owner uuid := throughline.uid();
  since timestamptz;
  chat uuid;
begin
  if tg_level = 'STATEMENT' then
    perform from throughline.accounts a where a.user_id = owner for key share; -- first of all, as who deletes it does
    select u.paused_at into since from public.memory_users u where u.user_id = owner and not u.enabled;
    if not found then
      return null;
    end if;
  elsif new.user_id = owner then
    return null;
  else
    owner := new.user_id;
    since := old.paused_at;
  end if;
  for chat in
    select c.id from public.chats c
     where c.user_id = owner and (c.last_message_at >= since
       or exists (select from public.conversation_briefs b where b.chat_id = c.id and b.extract_due_at is not null))
     order by c.id
  loop
    perform throughline.skip_rest(chat);
  end loop;
  return null;
end
$$;

create trigger memory_users_skip_own_pause before update of enabled on public.memory_users
  for each statement execute function throughline.skip_pause();
create trigger memory_users_skip_pause after update of enabled on public.memory_users
  for each row when (new.enabled and not old.enabled)
  execute function throughline.skip_pause();

-- Makes the memories that were said in a chat of the user in the claims the user's own, so that they outlive it. To be
-- called in the transaction that deletes the chat, before that. Returns how many. SECURITY DEFINER: what a rule of the app's
-- hides is kept as well, or it would be deleted with the chat.
create function throughline.keep_memories(chat uuid) returns bigint
language plpgsql volatile security definer set search_path = '' as $$
declare
  owner constant uuid := throughline.uid();
  change constant text := current_setting('throughline.change', true);
  kept bigint;
begin
  perform from public.chats c where c.id = chat and c.user_id = owner for update;
  if not found then
    return 0;
  end if;
  perform from public.memory_users u where u.user_id = owner for no key update;
  if not exists (select from public.memory_sources s where s.user_id = owner and s.chat_id = chat) then
    return 0;
  end if;
  perform throughline.raise_memory_version(owner);
  perform throughline.note_change('EDIT', 'kept when the chat was deleted', 'user', null, null);
  update public.memories m set origin = 'user', pinned = m.pinned, source_session_id = nullif(m.source_session_id, chat)
   where m.user_id = owner and m.id in (select s.memory_id from public.memory_sources s where s.user_id = owner and s.chat_id = chat);
  get diagnostics kept = row_count;
  delete from public.memory_sources s where s.user_id = owner and s.chat_id = chat;
  perform set_config('throughline.change', coalesce(change, ''), true);
  return kept;
end
$$;
