-- What keeps memories in order without a model: they fade while nobody uses them, and are archived; what is said again
-- grows surer. And what update_memory_graph and the metrics look up.

-- The day for which a memory has faded last: however often the job runs, a day counts once.
alter table public.memories add column decayed_on date;

-- The worker that asks for the entities of the user's memories, and until when it counts as alive.
alter table public.memory_users
  add column graph_token uuid,
  add column graph_until timestamptz;

-- When a memory was last of use: to a reply, or to the user who edited or restored it; else when it was learnt.
create function throughline.last_use(last_accessed timestamptz, recorded_at timestamptz, created_at timestamptz) returns timestamptz
language sql immutable security invoker parallel safe set search_path = '' as $$
  select coalesce(last_accessed, greatest(recorded_at, created_at))
$$;

-- For decay: what may fade, by how long it has not been used.
create index memories_last_use_idx on public.memories (user_id, (throughline.last_use(last_accessed, recorded_at, created_at)))
  where status = 'active' and not durable and not pinned;
-- For the metrics.
create index memories_status_idx on public.memories (status);

-- Fades the memories of the next users after one, in the order of their ids, at most so many users; the caller repeats it
-- with last_user until that is null. Confidence × 0.95 a day for what was not used for 30 days, while it is over 0.1; what
-- has come down to that and was not used for 90 days is archived. What was archived delete_days ago is deleted; never for 0.
-- Memories that are durable or pinned stay as they are, as do those of users who have switched memory off, and those in the
-- inbox. For the server itself.
create function throughline.decay_memories(day date, after uuid, most int, delete_days int)
returns table (last_user uuid, decayed int, archived int, deleted int)
language plpgsql volatile security definer set search_path = '' as $$
declare
  fades constant timestamptz := now() - interval '30 days';
  ends constant timestamptz := now() - interval '90 days';
  old constant timestamptz := case when delete_days > 0 then now() - make_interval(days => delete_days) else '-infinity' end;
  owner uuid;
  n int;
begin
  decayed := 0;
  archived := 0;
  deleted := 0;
  for owner in
    select u.user_id
      from public.memory_users u
     where u.enabled and u.user_id > after
       and (exists (select from public.memories m
                     where m.user_id = u.user_id and m.status = 'active' and not m.durable and not m.pinned
                       and throughline.last_use(m.last_accessed, m.recorded_at, m.created_at) < fades
                       and (m.confidence > 0.1 and m.decayed_on is distinct from day
                         or m.confidence <= 0.1 and throughline.last_use(m.last_accessed, m.recorded_at, m.created_at) < ends))
         or delete_days > 0 and exists (select from public.memories m where m.user_id = u.user_id and m.status = 'archived' and m.updated_at < old))
     order by u.user_id limit most
  loop
    last_user := owner;
    -- As a job of the user, so that triggers of the app's find the owner.
    perform set_config('request.jwt.claims', json_build_object('sub', owner, 'role', 'throughline_worker')::text, true),
            set_config('request.jwt.claim.sub', owner::text, true);
    perform from public.memory_users u where u.user_id = owner for no key update;
    continue when not found; -- deleted at this moment
    perform throughline.raise_memory_version(owner);
    perform throughline.note_change('DECAY', 'not used for 30 days', 'decay', null, null);
    update public.memories m set confidence = m.confidence * 0.95, decayed_on = day
     where m.user_id = owner and m.status = 'active' and not m.durable and not m.pinned and m.confidence > 0.1 and m.decayed_on is distinct from day
       and throughline.last_use(m.last_accessed, m.recorded_at, m.created_at) < fades;
    get diagnostics n = row_count;
    decayed := decayed + n;
    perform throughline.note_change('ARCHIVE', 'not used for 90 days', 'decay', null, null);
    update public.memories m set status = 'archived'
     where m.user_id = owner and m.status = 'active' and not m.durable and not m.pinned and m.confidence <= 0.1
       and throughline.last_use(m.last_accessed, m.recorded_at, m.created_at) < ends;
    get diagnostics n = row_count;
    archived := archived + n;
    if delete_days > 0 then
      delete from public.memories m where m.user_id = owner and m.status = 'archived' and not m.pinned and m.updated_at < old;
      get diagnostics n = row_count;
      deleted := deleted + n;
    end if;
  end loop;
  perform set_config('throughline.change', '', true);
  return next;
end
$$;

-- What is said again: a memory of the user in the claims grows surer, counts as used, and comes back from the archive unless
-- one with the same words is there. note_change says before what this is.
create function throughline.reinforce_memory(memory uuid) returns void
language sql volatile security definer set search_path = '' as $$
  update public.memories m
     set confidence = m.confidence + 0.2 * (1 - m.confidence), last_accessed = now(),
         status = case when m.status = 'archived'
                        and not exists (select from public.memories t
                                         where t.user_id = m.user_id and t.content_key = m.content_key and t.status in ('active', 'inbox'))
                       then 'active' else m.status end
   where m.id = memory and m.user_id = (select auth.uid())
$$;

-- An edit and a restoration are uses: without this, what the user takes out of the archive would be back there the next day.
create function throughline.count_as_used() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.last_accessed := now();
  return new;
end
$$;

create trigger memories_use before update of content, status on public.memories
  for each row when (new.last_accessed is not distinct from old.last_accessed
    and (new.status = 'active' and old.status <> 'active'
      or new.content <> old.content
         and coalesce(nullif(current_setting('throughline.change', true), '')::jsonb ->> 'actor', 'user') = 'user'))
  execute function throughline.count_as_used();

-- For update_memory_graph: gives the caller the next user after one whose memories the graph has not looked at, for so long;
-- no row where there is none. For the server itself.
create function throughline.claim_graph(after uuid, token uuid, seconds float8) returns setof uuid
language sql volatile security definer set search_path = '' as $$
  update public.memory_users u
     set graph_token = token, graph_until = now() + make_interval(secs => seconds)
   where u.user_id = (
         select c.user_id from public.memory_users c
          where c.user_id > after and c.enabled and coalesce(c.graph_until, '-infinity') < now()
            and c.user_id in (select m.user_id from public.memories m where m.graph_version is null and m.status = 'active' and m.user_id > after)
          order by c.user_id limit 1 for no key update skip locked)
  returning u.user_id
$$;

revoke all on function throughline.last_use(timestamptz, timestamptz, timestamptz), throughline.decay_memories(date, uuid, int, int),
  throughline.reinforce_memory(uuid), throughline.count_as_used(), throughline.claim_graph(uuid, uuid, float8) from public, anon, authenticated;
grant execute on function throughline.reinforce_memory(uuid) to throughline_worker;
-- Whoever changes a memory computes the index.
grant execute on function throughline.last_use(timestamptz, timestamptz, timestamptz) to throughline_app, throughline_worker, service_role;
