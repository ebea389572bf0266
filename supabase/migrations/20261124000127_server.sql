-- What a server does for all users at once, as throughline_server: by functions that give back ids and numbers, never words, and by
-- grants on tables without any. They are SECURITY DEFINER, because the role itself sees no row of a user: a forgotten one shows
-- nothing.

-- Skips replies that have ended or that another server generates, and pieces that are stored. "offset 0" makes Postgres find each message
-- by its key: it assumes that there are hardly any running replies, and would scan all of them for each piece. "on conflict do nothing" would write a
-- third more ahead. Without it a batch fails that is sent again while it is being committed, and is sent once more.
create function throughline.record_deltas(message_ids uuid[], user_ids uuid[], servers uuid[], start_chars int[], deltas text[]) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  insert into public.message_deltas (message_id, user_id, start_char, delta)
  select m.id, m.user_id, new.start_char, new.delta
    from (select unnest(message_ids) as message_id, unnest(user_ids) as user_id, unnest(servers) as server,
                 unnest(start_chars) as start_char, unnest(deltas) as delta) new
    join lateral (select found.id, found.user_id, found.status, found.server_id from public.messages found
                   where found.id = new.message_id
                     and not exists (select from public.message_deltas d where d.message_id = new.message_id and d.start_char = new.start_char) offset 0) m
      on m.user_id = new.user_id and m.status = 'streaming' and coalesce(m.server_id, new.server) = new.server;
end
$$;

-- What somebody has locked is left, here and below: these hold rows of several users, so they may wait for none. A deletion of the account
-- may be waiting for the others. A reply that another server goes on with keeps its pieces, and one that may go on what that takes.
create function throughline.delete_deltas(message_ids uuid[]) returns void
language sql volatile security definer set search_path = '' set enable_seqscan = off set jit = off as $$
  delete from public.message_deltas
   where ctid = any (array(
           select d.ctid from public.message_deltas d
            where d.start_char >= 0
              and d.message_id = any (array(select i.id from unnest(message_ids) i (id)
                                             where (select m.status from public.messages m where m.id = i.id) is distinct from 'streaming'))
              for update skip locked))
$$;

-- Replies that no server generates.
create function throughline.abandon_replies(message_ids uuid[]) returns void
language sql volatile security definer set search_path = '' as $$
  update public.messages set server_id = null, lease_until = now()
   where id = any (array(
           select m.id from public.messages m where m.id = any (message_ids) and m.status = 'streaming' for no key update skip locked))
$$;

-- Says that a server is alive, and forgets those that have long been dead. A reply that the server began and does not generate has only its
-- own lease: it could not be saved, or was stored after its server had given up. Otherwise it would run as long as the server.
create function throughline.renew_server(server uuid, running uuid[], seconds float8) returns void
language sql volatile security definer set search_path = '' as $$
  with dead as (delete from throughline.servers where lease_until < now() - interval '1 day'),
  left_over as (
    update public.messages set server_id = null
     where id = any (array(select m.id from public.messages m
                            where m.status = 'streaming' and m.server_id = server and m.lease_until < now()
                              and not exists (select from unnest(running) r (id) where r.id = m.id)
                              for no key update skip locked)))
  insert into throughline.servers (id, lease_until) values (server, now() + make_interval(secs => seconds))
  on conflict (id) do update set lease_until = excluded.lease_until
$$;

create function throughline.cancelled_replies(message_ids uuid[]) returns setof uuid
language sql stable security definer set search_path = '' as $$
  select id from public.messages where id = any (message_ids) and status = 'streaming' and cancel_requested
$$;

-- Ends the replies whose server is dead, and those that have waited too long for their user. The deltas of a reply become its text. No
-- server saves such a reply, so its chat becomes due to be read for memories here, unless the delay is null: then there are none. The
-- sweep inserts the job.
create function throughline.interrupt_replies(extract_delay float8) returns setof uuid
language sql volatile security definer set search_path = '' as $$
  with abandoned as (
    select m.id, m.chat_id, throughline.recorded_after(m.id, char_length(m.content)) as said
      from public.messages m join public.chats c on c.id = m.chat_id join public.conversation_briefs b on b.chat_id = m.chat_id
     where m.status in ('streaming', 'awaiting')
       and case m.status when 'awaiting' then m.lease_until < now() else throughline.is_abandoned(m.server_id, m.lease_until, m.updated_at) end
     limit 1000 for key share of c skip locked for update of b, m skip locked),
  spent as (delete from public.message_deltas d using abandoned where d.message_id = abandoned.id and d.start_char >= 0),
  due as (
    update public.conversation_briefs b
       set extract_due_at = now() + make_interval(secs => extract_delay)
      from abandoned join public.chats c on c.id = abandoned.chat_id
     where b.chat_id = abandoned.chat_id and b.extract_due_at is null and c.remember and extract_delay is not null
       and exists (select from public.messages u where u.chat_id = b.chat_id and u.seq > b.extracted_seq and u.role = 'user' and u.token_count > 0))
  update public.messages m
     set status = case when m.cancel_requested or m.status = 'awaiting' then 'cancelled' else 'interrupted' end, server_id = null, lease_until = null,
         content = m.content || abandoned.said,
         parts = case m.status when 'awaiting' then throughline.close_parts(m.parts, m.content, 'expired') else m.parts end
    from abandoned
   where m.id = abandoned.id
  returning m.id
$$;

-- Takes briefs that cannot be read back to the last change that stands. Returns how many.
create function throughline.restore_briefs() returns bigint
language sql volatile security definer set search_path = '' as $$
  with unreadable as (
    select b.chat_id, b.covered_seq from public.conversation_briefs b where not b.readable limit 1000 for update skip locked)
  select count(*) from (select throughline.roll_back_brief(u.chat_id, u.covered_seq + 1) from unreadable u offset 0) restored
$$;

-- When a chat is read for memories: at once, or after so many seconds.
create function throughline.set_extract_due(chat uuid, at_once boolean, seconds float8) returns void
language sql volatile security definer set search_path = '' as $$
  update public.conversation_briefs
     set extract_due_at = case when at_once then '-infinity'::timestamptz else now() + make_interval(secs => seconds) end
   where chat_id = chat
$$;

-- Makes the chats of a user that are due later due at once, but for the one that begins.
create function throughline.hurry_extractions(of_user uuid, but uuid) returns setof uuid
language sql volatile security definer set search_path = '' as $$
  update public.conversation_briefs b set extract_due_at = '-infinity'
   where b.chat_id = any (array(select d.chat_id from public.conversation_briefs d
           where d.user_id = of_user and d.extract_due_at > '-infinity' and d.chat_id <> but
           order by d.chat_id limit 20 for no key update skip locked))
  returning b.chat_id
$$;

-- For how many seconds the chat has been due that has waited longest to be read for memories; 0 if none waits. A chat due at
-- once has waited since its brief changed; of a thousand of these the oldest.
create function throughline.oldest_unextracted() returns float8
language sql stable security definer set search_path = '' as $$
  select greatest(0, extract(epoch from now() - least(
           (select b.extract_due_at from public.conversation_briefs b where b.extract_due_at > '-infinity' order by b.extract_due_at limit 1),
           (select min(h.updated_at)
             from (select b.updated_at from public.conversation_briefs b where b.extract_due_at = '-infinity' limit 1000) h))))::float8
$$;

-- Turns without a vector of the model, up to 100 000 without any and as many of other models on either side of it.
create function throughline.count_bare_turns(model text) returns bigint
language sql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
  select (select count(*) from (select from public.turn_index i where i.embedding_model is null and not i.resting limit 100000) n)
       + (select count(*) from (select from public.turn_index i where i.embedding_model < model limit 100000) l)
       + (select count(*) from (select from public.turn_index i where i.embedding_model > model limit 100000) g)
$$;

revoke all on function throughline.record_deltas, throughline.delete_deltas, throughline.abandon_replies, throughline.renew_server,
  throughline.cancelled_replies, throughline.interrupt_replies, throughline.restore_briefs, throughline.set_extract_due,
  throughline.hurry_extractions, throughline.oldest_unextracted,
  throughline.count_bare_turns from public, anon, authenticated;
grant execute on function throughline.record_deltas, throughline.delete_deltas, throughline.abandon_replies, throughline.renew_server,
  throughline.cancelled_replies, throughline.interrupt_replies, throughline.restore_briefs, throughline.set_extract_due,
  throughline.hurry_extractions, throughline.oldest_unextracted,
  throughline.count_bare_turns, throughline.count_memories, throughline.retry_work, throughline.admit_user, throughline.erase_account
  to throughline_server;

-- Tables without words: what calls cost, what work fails, the scales of embedding models, the listed issuers, River's jobs, which have
-- ids alone, and the names of migrations.
grant select, insert on public.usage_events to throughline_server;
create policy usage_events_charged on public.usage_events to throughline_server using (true) with check (true);
grant select on throughline.work to throughline_server;
create policy work_server on throughline.work for select to throughline_server using (true);
grant select, insert, update on public.embedding_models to throughline_server;
create policy embedding_models_measured on public.embedding_models to throughline_server using (true) with check (true);
grant select on throughline.issuers to throughline_server;
create policy issuers_server on throughline.issuers for select to throughline_server using (true);
grant usage on schema river to throughline_server;
grant select, insert, update, delete on all tables in schema river to throughline_server;
grant usage on all sequences in schema river to throughline_server;
do $$
begin
  if to_regclass('supabase_migrations.schema_migrations') is not null then -- else another tool keeps the history
    grant usage on schema supabase_migrations to throughline_server;
    grant select (version, name) on supabase_migrations.schema_migrations to throughline_server;
  end if;
end
$$;
