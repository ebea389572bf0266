-- What a turn pays for, measured in Postgres's CPU time: less for full text, for counters and for broadcasts.

-- New entries of the full-text index wait in a list. Left to itself, whoever fills the list up to 4 MB merges it into the
-- index within their own turn; here the sweep does so every few seconds. A search reads what waits as well.
alter index public.messages_search_idx set (fastupdate = on, gin_pending_list_limit = 65536); -- kB; far more than comes between two sweeps

-- Only an index's owner may ask for it, which the role that serves need not be.
create function private.merge_search_entries() returns bigint
language sql volatile security definer set search_path = '' as $$
  select pg_catalog.gin_clean_pending_list('public.messages_search_idx')
$$;
revoke all on function private.merge_search_entries() from public, anon, authenticated;

-- A row that changes in place (a heap-only tuple) writes to no index, if its page has room and no column of any index
-- changes. Each turn moved updated_at and pending_tokens, which stood in one each.
alter table public.chats set (fillfactor = 70);
alter table public.conversation_briefs set (fillfactor = 70);
drop index public.conversation_briefs_stale_idx;
create index conversation_briefs_stale_idx on public.conversation_briefs (chat_id) where stale;

-- The sweep looks for long buffers, and that they are about so long is enough for an index.
alter table public.conversation_briefs
  add column pending_thousands int not null generated always as (pending_tokens / 1000) stored;
drop index public.conversation_briefs_pending_tokens_idx;
create index conversation_briefs_pending_thousands_idx on public.conversation_briefs (pending_thousands);

-- As before, but a database without Realtime is asked for it once a statement, and not for each message.
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
  if to_regprocedure('realtime.send(jsonb, text, text, boolean)') is not null and coalesce(current_setting('throughline.quiet', true), '') <> 'on' then
    perform private.broadcast(chat_id, 'message_created', jsonb_build_object('chat_id', chat_id, 'message_id', id, 'seq', seq))
       from new_messages order by chat_id, seq;
  end if;
  return null;
end
$$;

create or replace function private.count_updated_messages() returns trigger
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
    perform private.broadcast(n.chat_id, 'chat_updated', jsonb_build_object('chat_id', n.chat_id, 'message_id', n.id, 'seq', n.seq))
       from old_messages o join new_messages n using (id)
      where o.status = 'streaming' and n.status <> 'streaming';
  end if;
  return null;
end
$$;
