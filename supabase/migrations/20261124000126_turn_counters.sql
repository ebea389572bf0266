-- Fewer statements in the triggers of a turn: starting a statement costs Postgres more than the row that it changes.

-- The same as before in fewer steps.
create or replace function throughline.tokens_of(
  content text, tool_calls jsonb, role text, name text, superseded boolean, given int)
returns int
language plpgsql immutable security invoker set search_path = '' as $$
declare
  bytes constant int := octet_length(content);
  beside int := 0;
begin
  if superseded then
    return 0;
  end if;
  if tool_calls <> '[]' then
    beside := octet_length(tool_calls::text) / 3;
  elsif btrim(content,
       E' \t\n\x0b\f\r\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000') = '' then
    return 0;
  end if;
  if role = 'tool' and name is not null then
    beside := beside + 2 + octet_length(name) / 3;
  end if;
  return greatest(coalesce(given, bytes / 4 + beside), 1 + bytes / 32 + beside);
end
$$;

-- Updates the counters of each chat and its brief, gives a chat without a title one from its first message, and announces
-- the last of the messages. An import sets throughline.quiet: nobody listens to its chat yet.
create or replace function throughline.count_inserted_messages() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off as $$
declare
  added record;
begin
  for added in
    select chat_id, min(seq) as first_seq, max(seq) as last_seq, count(*) as messages, max(created_at) as last_at, sum(token_count) as tokens,
           count(*) filter (where role = 'user' and token_count > 0) as turns
      from new_messages group by chat_id order by chat_id
  loop
    update public.chats c
       set last_seq = added.last_seq,
           message_count = c.message_count + added.messages,
           turn_count = c.turn_count + added.turns,
           last_message_at = greatest(c.last_message_at, added.last_at)
     where c.id = added.chat_id;
    if added.first_seq = 1 then
      update public.chats c
         set title = throughline.title_of(m.content)
        from new_messages m
       where m.chat_id = added.chat_id and m.seq = 1 and m.role = 'user' and m.token_count > 0 and c.id = added.chat_id and c.title = '';
    end if;
    if added.tokens > 0 then
      update public.conversation_briefs b
         set pending_tokens = b.pending_tokens + added.tokens,
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

-- A reply that ends adds its text to the buffer. For each row, without the transition tables that edits need: a statement
-- ends many replies only in as many chats. The trigger's condition leaves out leases, which are renewed many at a time. A
-- message of the user, which only a hand marks as running, is a turn and counted like an edit.
create function throughline.count_ended_reply() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off as $$
begin
  if new.token_count <> old.token_count and 'user' not in (old.role, new.role) then
    update public.conversation_briefs b
       set pending_tokens = greatest(0, b.pending_tokens + new.token_count - old.token_count)
     where b.chat_id = new.chat_id and b.covered_seq < new.seq;
  end if;
  if new.status <> 'streaming' then
    perform throughline.broadcast(new.chat_id, 'chat_updated', jsonb_build_object('chat_id', new.chat_id, 'message_id', new.id, 'seq', new.seq));
  end if;
  return null;
end
$$;

create trigger messages_count_ended after update on public.messages
  for each row when (old.status = 'streaming' and (old.status, old.token_count) is distinct from (new.status, new.token_count))
  execute function throughline.count_ended_reply();

-- Any other change of a text is an edit, superseding a reply included: a fold planned with the old words is discarded, a
-- summary that holds them becomes stale, and the index of turns is written anew. The brief is locked before covered_seq is
-- read, so that a fold that commits at this moment is seen. The first check returns early when replies end and when leases
-- are renewed.
create or replace function throughline.count_updated_messages() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off set enable_nestloop = off as $$
begin
  if not exists (select from old_messages where status <> 'streaming' or role = 'user')
     and not exists (select from new_messages where role = 'user') then
    return null;
  end if;
  if not exists (select from old_messages o join new_messages n using (id)
                  where (o.content, o.tool_calls, o.name, o.token_count, o.role, o.reply_to, o.superseded_by, o.created_at)
                        is distinct from (n.content, n.tool_calls, n.name, n.token_count, n.role, n.reply_to, n.superseded_by, n.created_at)) then
    return null;
  end if;
  -- Not for replies, which are most updates.
  if exists (select from old_messages o join new_messages n using (id) where 'user' in (o.role, n.role)) then
    update public.chats c
       set turn_count = greatest(0, c.turn_count + changed.turns)
      from (select n.chat_id, sum((n.role = 'user' and n.token_count > 0)::int - (o.role = 'user' and o.token_count > 0)::int) as turns
              from old_messages o join new_messages n using (id) group by n.chat_id) changed
     where c.id = changed.chat_id and changed.turns <> 0;
    perform throughline.renew_title(edited.chat_id, edited.seq, edited.content)
       from (select distinct on (o.chat_id) o.chat_id, o.seq, o.content from old_messages o join new_messages n using (id)
              where o.role = 'user' and o.token_count > 0 and (n.role <> 'user' or n.content <> o.content) order by o.chat_id, o.seq) edited;
  end if;
  perform from public.conversation_briefs
    where chat_id = any (array(select chat_id from new_messages)) order by chat_id for update;
  update public.conversation_briefs b
     set pending_tokens = greatest(0, b.pending_tokens + changed.tokens),
         pending_turns = greatest(0, b.pending_turns + changed.turns),
         cleared_turns = greatest(0, b.cleared_turns + changed.cleared),
         edit_count = b.edit_count + changed.edits,
         stale = b.stale or changed.covered_edits > 0
    from (select n.chat_id,
                 coalesce(sum(n.token_count - o.token_count) filter (where n.seq > c.covered_seq), 0) as tokens,
                 coalesce(sum(e.turns) filter (where n.seq > c.covered_seq), 0) as turns,
                 coalesce(sum(e.turns) filter (where n.seq <= c.cleared_seq), 0) as cleared,
                 count(*) filter (where e.edited) as edits,
                 count(*) filter (where e.edited and n.seq <= c.covered_seq) as covered_edits
            from old_messages o
            join new_messages n using (id)
            join public.conversation_briefs c on c.chat_id = n.chat_id and c.chat_id = any (array(select chat_id from new_messages))
            cross join lateral (select o.status <> 'streaming'
              and (o.content, o.tool_calls, o.name, o.role, o.reply_to, o.superseded_by)
                  is distinct from (n.content, n.tool_calls, n.name, n.role, n.reply_to, n.superseded_by) as edited,
              (n.role = 'user' and n.token_count > 0)::int - (o.role = 'user' and o.token_count > 0)::int as turns) e
           where o.status <> 'streaming' or 'user' in (o.role, n.role)
           group by n.chat_id) changed
   where b.chat_id = changed.chat_id and b.chat_id = any (array(select chat_id from new_messages))
     and (changed.tokens, changed.turns, changed.cleared, changed.edits) is distinct from (0, 0, 0, 0);
  perform throughline.index_edits(changed.chat_id, changed.seqs)
     from (select n.chat_id, array_agg(n.seq order by n.seq) as seqs
             from old_messages o join new_messages n using (id)
            where o.status <> 'streaming' and (o.token_count > 0 or n.token_count > 0)
              and (o.content, o.role, o.token_count, o.reply_to, o.created_at)
                  is distinct from (n.content, n.role, n.token_count, n.reply_to, n.created_at)
            group by n.chat_id order by n.chat_id) changed;
  return null;
end
$$;

drop trigger messages_index_updated on public.messages;
drop function throughline.index_updated_messages();

revoke all on function throughline.count_ended_reply() from public, anon, authenticated;
