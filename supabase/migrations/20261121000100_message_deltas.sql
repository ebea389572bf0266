-- What running replies have said so far, so that any replica can go on reading them and a killed one
-- leaves no silence; and replies that another try has taken the place of.

create table public.message_deltas (
  message_id uuid not null,
  user_id    uuid not null,
  -- Characters (Unicode code points) of the reply before this piece: its place in the text.
  start_char int  not null,
  delta      text not null,

  -- A piece never changes and its successor begins where it ends, so that all readers put the same text
  -- together, and writing one twice is writing it once.
  constraint message_deltas_pkey primary key (message_id, start_char)
)
-- Some rows per second and reply, each gone seconds later: dead rows are most of what was ever here, so
-- cleaning up goes by their number alone.
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
      autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);

-- No foreign keys: each piece would lock its message's row. A trigger below and the sweep take their
-- place. No index on user_id: it is never searched by, the policy only checks rows found by their key.

revoke all on public.message_deltas from anon, authenticated;
grant select, delete on public.message_deltas to throughline_app;
grant all on public.message_deltas to service_role;

alter table public.message_deltas enable row level security;

create policy message_deltas_server on public.message_deltas for all to throughline_app
  using ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id)
  with check ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id);

-- Words of a deleted message go with it. SECURITY DEFINER, as the other triggers: see there.
create function private.forget_deltas() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  delete from public.message_deltas d using old_messages o where d.message_id = o.id;
  return null;
end
$$;

create trigger messages_forget_deltas after delete on public.messages
  referencing old table as old_messages
  for each statement execute function private.forget_deltas();

revoke all on function private.forget_deltas() from public, anon, authenticated;

------------------------------------------------------------------------------------------------

-- The reply that was written in place of this one, after it had failed or been interrupted. Such a row
-- is history: it keeps its text, counts no tokens, and is in no prompt and no summary.
alter table public.messages add column superseded_by uuid;

-- As before, and superseding is an edit: a fold that planned with the old words is thrown away, a
-- summary that holds them is made anew. Renewed leases, many rows at a time, are let pass without a join.
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
  perform private.broadcast(n.chat_id, 'chat_updated', jsonb_build_object('chat_id', n.chat_id, 'message_id', n.id, 'seq', n.seq))
     from old_messages o join new_messages n using (id)
    where o.status = 'streaming' and n.status <> 'streaming';
  return null;
end
$$;
