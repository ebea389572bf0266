-- Order, counters and staleness: kept by the database, so that every way into messages counts.
--
-- All of these are SECURITY DEFINER. They change rows of chats and briefs that the writer of a
-- message has no right to (a phone), and when a user is deleted they run as supabase_auth_admin.
-- Locks are always taken in the same order, the chat's row before the brief's. Counters stop at zero:
-- nobody's account may be impossible to delete because of a number.

-- About right for English, too high for other scripts: an estimate that errs towards folding early.
create function private.estimate_tokens(content text) returns int
language sql immutable security invoker set search_path = '' as $$
  select case when content = '' then 0 else greatest(1, octet_length(content) / 4) end
$$;

-- The lock waits for whoever wrote to this chat before us, so seq follows the order of commits. last_seq
-- itself moves once the rows are written (below): one that ON CONFLICT skips must leave no gap. Until
-- then the greatest seq counts the rows that this very statement has written.
create function private.place_message() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new.token_count := coalesce(new.token_count, private.estimate_tokens(new.content));
  select greatest(c.last_seq, (select max(m.seq) from public.messages m where m.chat_id = c.id)) + 1, c.user_id
    into new.seq, new.user_id
    from public.chats c
   where c.id = new.chat_id and (c.user_id = new.user_id or new.user_id is null)
     for no key update;
  if not found then
    raise foreign_key_violation using
      message = 'the chat does not exist, or is another user''s',
      constraint = 'messages_chat_id_fkey';
  end if;
  return new;
end
$$;

create trigger messages_place before insert on public.messages
  for each row execute function private.place_message();

-- Ids and places only: whoever listens reads the row under its own rights.
create function private.broadcast(chat_id uuid, event text, payload jsonb) returns void
language plpgsql security definer set search_path = '' as $$
begin
  if to_regprocedure('realtime.send(jsonb, text, text, boolean)') is not null then
    perform realtime.send(payload, event, 'chat:' || chat_id, true);
  end if;
end
$$;

create function private.count_inserted_messages() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.chats c
     set last_seq = added.last_seq,
         message_count = c.message_count + added.messages,
         last_message_at = greatest(c.last_message_at, added.last_at)
    from (select chat_id, max(seq) as last_seq, count(*) as messages, max(created_at) as last_at
            from new_messages group by chat_id) added
   where c.id = added.chat_id;
  update public.conversation_briefs b
     set pending_tokens = b.pending_tokens + added.tokens,
         pending_turns = b.pending_turns + added.turns
    from (select chat_id, sum(token_count) as tokens, count(*) filter (where role = 'user') as turns
            from new_messages group by chat_id) added
   where b.chat_id = added.chat_id and (added.tokens > 0 or added.turns > 0);
  perform private.broadcast(chat_id, 'message_created', jsonb_build_object('chat_id', chat_id, 'message_id', id, 'seq', seq))
     from new_messages order by chat_id, seq;
  return null;
end
$$;

create trigger messages_count_inserted after insert on public.messages
  referencing new table as new_messages
  for each statement execute function private.count_inserted_messages();

create function private.check_message_update() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (new.id, new.chat_id, new.user_id, new.seq) is distinct from (old.id, old.chat_id, old.user_id, old.seq) then
    raise check_violation using message = 'a message keeps its id, chat, user and seq';
  end if;
  if new.content is distinct from old.content and new.token_count = old.token_count then
    new.token_count := private.estimate_tokens(new.content);
  end if;
  new.updated_at := now();
  return new;
end
$$;

create trigger messages_check_update before update on public.messages
  for each row execute function private.check_message_update();

-- A reply that ends is new text in the buffer; any other change of the text is an edit. The brief is
-- locked before covered_seq is read: a fold that commits at this moment must be seen.
create function private.count_updated_messages() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if not exists (select from old_messages o join new_messages n using (id)
                  where (o.content, o.token_count, o.role, o.reply_to) is distinct from (n.content, n.token_count, n.role, n.reply_to)
                     or o.status = 'streaming' and n.status <> 'streaming') then
    return null;
  end if;
  perform from public.conversation_briefs
    where chat_id in (select chat_id from new_messages) order by chat_id for update;
  update public.conversation_briefs b
     set pending_tokens = greatest(0, b.pending_tokens + changed.tokens),
         pending_turns = greatest(0, b.pending_turns + changed.turns),
         edit_count = b.edit_count + changed.edits,
         stale = b.stale or changed.covered_edits > 0
    from (select n.chat_id,
                 coalesce(sum(n.token_count - o.token_count) filter (where n.seq > c.covered_seq), 0) as tokens,
                 coalesce(sum((n.role = 'user')::int - (o.role = 'user')::int) filter (where n.seq > c.covered_seq), 0) as turns,
                 count(*) filter (where e.edited) as edits,
                 count(*) filter (where e.edited and n.seq <= c.covered_seq) as covered_edits
            from old_messages o
            join new_messages n using (id)
            join public.conversation_briefs c on c.chat_id = n.chat_id
            cross join lateral (select o.status <> 'streaming'
              and (o.content, o.role, o.reply_to) is distinct from (n.content, n.role, n.reply_to) as edited) e
           group by n.chat_id) changed
   where b.chat_id = changed.chat_id
     and (changed.tokens, changed.turns, changed.edits) is distinct from (0, 0, 0);
  perform private.broadcast(n.chat_id, 'chat_updated', jsonb_build_object('chat_id', n.chat_id, 'message_id', n.id, 'seq', n.seq))
     from old_messages o join new_messages n using (id)
    where o.status = 'streaming' and n.status <> 'streaming';
  return null;
end
$$;

create trigger messages_count_updated after update on public.messages
  referencing old table as old_messages new table as new_messages
  for each statement execute function private.count_updated_messages();

create function private.count_deleted_messages() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.chats c
     set message_count = c.message_count - gone.messages
    from (select chat_id, count(*) as messages from old_messages group by chat_id) gone
   where c.id = gone.chat_id;
  perform from public.conversation_briefs
    where chat_id in (select chat_id from old_messages) order by chat_id for update;
  update public.conversation_briefs b
     set pending_tokens = greatest(0, b.pending_tokens - gone.tokens),
         pending_turns = greatest(0, b.pending_turns - gone.turns),
         edit_count = b.edit_count + 1,
         stale = b.stale or gone.covered
    from (select o.chat_id,
                 coalesce(sum(o.token_count) filter (where o.seq > c.covered_seq), 0) as tokens,
                 count(*) filter (where o.role = 'user' and o.seq > c.covered_seq) as turns,
                 bool_or(o.seq <= c.covered_seq and o.content <> '') as covered
            from old_messages o
            join public.conversation_briefs c on c.chat_id = o.chat_id
           group by o.chat_id) gone
   where b.chat_id = gone.chat_id;
  return null;
end
$$;

create trigger messages_count_deleted after delete on public.messages
  referencing old table as old_messages
  for each statement execute function private.count_deleted_messages();

-- A phone may rename its chat; its other devices hear of it.
create function private.announce_chat() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.broadcast(new.id, 'chat_updated', jsonb_build_object('chat_id', new.id));
  return null;
end
$$;

create trigger chats_announce after update of title, system_prompt, metadata on public.chats
  for each row execute function private.announce_chat();

revoke all on function private.estimate_tokens(text), private.place_message(), private.broadcast(uuid, text, jsonb),
  private.count_inserted_messages(), private.check_message_update(), private.count_updated_messages(),
  private.count_deleted_messages(), private.announce_chat() from public, anon, authenticated;

-- Who may listen to a chat's broadcasts: its owner.
do $$
begin
  if to_regclass('realtime.messages') is not null then
    create policy throughline_chat_listeners on realtime.messages for select to authenticated
      using (extension = 'broadcast' and exists (
        select from public.chats c
         where c.user_id = (select auth.uid()) and 'chat:' || c.id = (select realtime.topic())));
  end if;
end
$$;
