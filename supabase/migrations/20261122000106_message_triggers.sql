-- The order of messages, the counters and the staleness of briefs: maintained by the database, so that every
-- write to messages counts, whoever makes it.
--
-- The functions are SECURITY DEFINER because they change rows of chats and briefs to which the writer of a
-- message has no right, such as a phone, or supabase_auth_admin when it deletes a user. They lock the chat's
-- row before the brief's. Counters stop at zero, so that a wrong counter never blocks the deletion of an
-- account.

-- About right for English and too high for other scripts: a high estimate only folds early.
create function throughline.estimate_tokens(content text) returns int
language sql immutable security invoker set search_path = '' as $$
  select case when content = '' then 0 else greatest(1, octet_length(content) / 4) end
$$;

-- Assigns seq. The lock waits for other writers to the chat, so seq follows the order of commits. last_seq is
-- updated only after the rows are written (see count_inserted_messages), because a row that ON CONFLICT skips
-- must leave no gap; until then max(seq) covers the earlier rows of the same statement.
create function throughline.place_message() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new.token_count := coalesce(new.token_count, throughline.estimate_tokens(new.content));
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
  for each row execute function throughline.place_message();

-- A chat's title from its first message: the first line, cut at the end of a word within 80 characters.
create function throughline.title_of(content text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when char_length(line) <= 80 then line else coalesce(nullif(substring(left(line, 81) from '^(.*\S)\s+\S*$'), ''), left(line, 80)) end
    from (select btrim(split_part(btrim(content, E' \t\r\n'), E'\n', 1), E' \t\r') as line) first
$$;

-- Updates the chat's counters, gives a chat without a title one from its first message, and announces the
-- messages. An import sets throughline.quiet: nobody listens to its chat yet, and it has thousands of
-- messages. Realtime is looked up once per statement here, and again in broadcast for each message.
create function throughline.count_inserted_messages() returns trigger
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
       set title = throughline.title_of(m.content)
      from new_messages m
     where m.seq = 1 and m.role = 'user' and c.id = m.chat_id and c.title = '';
  end if;
  update public.conversation_briefs b
     set pending_tokens = b.pending_tokens + added.tokens,
         pending_turns = b.pending_turns + added.turns
    from (select chat_id, sum(token_count) as tokens, count(*) filter (where role = 'user') as turns
            from new_messages group by chat_id) added
   where b.chat_id = added.chat_id and (added.tokens > 0 or added.turns > 0);
  if to_regprocedure('realtime.send(jsonb, text, text, boolean)') is not null and coalesce(current_setting('throughline.quiet', true), '') <> 'on' then
    perform throughline.broadcast(chat_id, 'message_created', jsonb_build_object('chat_id', chat_id, 'message_id', id, 'seq', seq))
       from new_messages order by chat_id, seq;
  end if;
  return null;
end
$$;

create trigger messages_count_inserted after insert on public.messages
  referencing new table as new_messages
  for each statement execute function throughline.count_inserted_messages();

create function throughline.check_message_update() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (new.id, new.chat_id, new.user_id, new.seq) is distinct from (old.id, old.chat_id, old.user_id, old.seq) then
    raise check_violation using message = 'a message keeps its id, chat, user and seq';
  end if;
  if new.content is distinct from old.content and new.token_count = old.token_count then
    new.token_count := throughline.estimate_tokens(new.content);
  end if;
  new.updated_at := now();
  return new;
end
$$;

create trigger messages_check_update before update on public.messages
  for each row execute function throughline.check_message_update();

-- A reply that ends adds its text to the buffer. Any other change of a text is an edit, superseding a reply
-- included: a fold planned with the old words is discarded, and a summary that holds them becomes stale. The
-- brief is locked before covered_seq is read, so that a fold that commits at this moment is seen. The first
-- check returns early, without a join, when leases are renewed, which is many rows at a time.
create function throughline.count_updated_messages() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if not exists (select from new_messages where status <> 'streaming' or token_count <> 0)
     and not exists (select from old_messages where token_count <> 0) then
    return null;
  end if;
  if not exists (select from old_messages o join new_messages n using (id)
                  where (o.content, o.token_count, o.role, o.reply_to, o.superseded_by)
                        is distinct from (n.content, n.token_count, n.role, n.reply_to, n.superseded_by)
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
              and (o.content, o.role, o.reply_to, o.superseded_by) is distinct from (n.content, n.role, n.reply_to, n.superseded_by) as edited) e
           group by n.chat_id) changed
   where b.chat_id = changed.chat_id
     and (changed.tokens, changed.turns, changed.edits) is distinct from (0, 0, 0);
  if to_regprocedure('realtime.send(jsonb, text, text, boolean)') is not null then
    perform throughline.broadcast(n.chat_id, 'chat_updated', jsonb_build_object('chat_id', n.chat_id, 'message_id', n.id, 'seq', n.seq))
       from old_messages o join new_messages n using (id)
      where o.status = 'streaming' and n.status <> 'streaming';
  end if;
  return null;
end
$$;

create trigger messages_count_updated after update on public.messages
  referencing old table as old_messages new table as new_messages
  for each statement execute function throughline.count_updated_messages();

create function throughline.count_deleted_messages() returns trigger
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

create trigger messages_count_deleted after delete on public.messages
  referencing old table as old_messages
  for each statement execute function throughline.count_deleted_messages();

revoke all on function throughline.estimate_tokens(text), throughline.place_message(), throughline.title_of(text),
  throughline.count_inserted_messages(), throughline.check_message_update(), throughline.count_updated_messages(),
  throughline.count_deleted_messages() from public, anon, authenticated;
