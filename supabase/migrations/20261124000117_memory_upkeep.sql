-- Keeps memories in order without a model: unused ones fade, and are archived; a repeated one
-- grows surer. And the look-ups of update_memory_graph and the metrics.

-- When a memory was last of use: to a reply, or to the user who edited or restored it; else when it was learnt.
create function throughline.last_use(last_accessed timestamptz, recorded_at timestamptz, created_at timestamptz) returns timestamptz
language sql immutable security invoker parallel safe set search_path = '' as $$
  select coalesce(last_accessed, greatest(recorded_at, created_at))
$$;

-- For decay: what may fade, by how long it has not been used.
create index memories_last_use_idx on public.memories (user_id, (throughline.last_use(last_accessed, recorded_at, created_at)))
  where status = 'active' and not durable and not pinned;

-- A use makes a memory fade later; only SQL by hand makes it fade sooner. SECURITY DEFINER: a job has no right to the table.
create function throughline.note_older_memory() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.memory_users u set fades_at = least(u.fades_at, now()) where u.user_id = new.user_id and (u.fades_at is null or u.fades_at > now());
  return null;
end
$$;

create trigger memories_note_older after update of last_accessed, recorded_at, created_at, updated_at on public.memories
  for each row when (new.updated_at < old.updated_at
    or coalesce(new.last_accessed, greatest(new.recorded_at, new.created_at)) < coalesce(old.last_accessed, greatest(old.recorded_at, old.created_at)))
  execute function throughline.note_older_memory();

-- Acts as a job of a user, so that triggers of the app's find the owner, and locks the user's row. Counts its version as
-- raised, which plan_decay does. false: there is no such user.
create function throughline.hold_memories(owner uuid) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform set_config('request.jwt.claims', json_build_object('sub', owner, 'role', 'throughline_worker')::text, true),
          set_config('request.jwt.claim.sub', owner::text, true),
          set_config('throughline.raised_memory_versions',
                     concat_ws(' ', nullif(current_setting('throughline.raised_memory_versions', true), ''), owner), true);
  perform from public.memory_users u where u.user_id = owner for no key update;
  return found;
end
$$;

-- Says when the daily job has to look at a user again, and raises the version by so many. What has faded for a day fades for
-- the next. One update for both: at the second of a transaction Postgres would wait for the account, whose deletion waits for
-- the row.
create function throughline.plan_decay(owner uuid, changes int) returns void
language sql volatile security invoker set search_path = '' as $$
  update public.memory_users u
     set version = u.version + least(changes, 1),
         fades_at = (
           select min(case when m.confidence > 0.1
                      then greatest(throughline.last_use(m.last_accessed, m.recorded_at, m.created_at) + interval '30 days',
                        (m.decayed_on + 1)::timestamp at time zone 'UTC')
                      else throughline.last_use(m.last_accessed, m.recorded_at, m.created_at) + interval '90 days' end)
             from public.memories m where m.user_id = owner and m.status = 'active' and not m.durable and not m.pinned),
         archived_from = (select min(m.updated_at) from public.memories m where m.user_id = owner and m.status = 'archived' and not m.pinned)
   where u.user_id = owner
$$;

-- Fades the memories of the next users after one, in the order in which they are due, at most so many users; the caller
-- repeats it with last_at and last_user until these are null. Confidence × 0.95 a day for a memory not used for 30 days, while
-- it is over 0.1; one that has come down to that and was not used for 90 days is archived. Memories that are durable or pinned
-- stay as they are, as do those of users who have switched memory off, and those in the inbox. For the server itself.
create function throughline.fade_memories(day date, after_at timestamptz, after_user uuid, most int)
returns table (last_at timestamptz, last_user uuid, decayed int, archived int)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  fades constant timestamptz := now() - interval '30 days';
  ends constant timestamptz := now() - interval '90 days';
  owners uuid[];
  due uuid;
  n int;
  changes int;
begin
  decayed := 0;
  archived := 0;
  select array_agg(u.user_id order by u.fades_at, u.user_id), max(u.fades_at) into owners, last_at
    from (select x.user_id, x.fades_at from public.memory_users x
           where x.enabled and x.fades_at <= greatest(now(), day::timestamp at time zone 'UTC') and (x.fades_at, x.user_id) > (after_at, after_user)
           order by x.fades_at, x.user_id limit most) u;
  last_user := owners[cardinality(owners)];
  for due in select o from unnest(owners) o order by o loop -- in which all lock users
    continue when not throughline.hold_memories(due); -- deleted at this moment
    changes := 0;
    perform throughline.note_change('DECAY', 'not used for 30 days', 'decay', null, null);
    update public.memories m set confidence = m.confidence * 0.95, decayed_on = day
     where m.user_id = due and m.status = 'active' and not m.durable and not m.pinned and m.confidence > 0.1 and m.decayed_on is distinct from day
       and throughline.last_use(m.last_accessed, m.recorded_at, m.created_at) < fades;
    get diagnostics n = row_count;
    decayed := decayed + n;
    changes := changes + n;
    perform throughline.note_change('ARCHIVE', 'not used for 90 days', 'decay', null, null);
    update public.memories m set status = 'archived'
     where m.user_id = due and m.status = 'active' and not m.durable and not m.pinned and m.confidence <= 0.1
       and throughline.last_use(m.last_accessed, m.recorded_at, m.created_at) < ends;
    get diagnostics n = row_count;
    archived := archived + n;
    changes := changes + n;
    perform throughline.plan_decay(due, changes);
  end loop;
  perform set_config('throughline.change', '', true);
  return next;
end
$$;

-- Deletes memories that were archived so many days ago, of the next users after one, as fade_memories does. For the server itself.
create function throughline.delete_archived_memories(days int, after_at timestamptz, after_user uuid, most int)
returns table (last_at timestamptz, last_user uuid, deleted int)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  old constant timestamptz := now() - make_interval(days => days);
  owners uuid[];
  due uuid;
  n int;
begin
  deleted := 0;
  select array_agg(u.user_id order by u.archived_from, u.user_id), max(u.archived_from) into owners, last_at
    from (select x.user_id, x.archived_from from public.memory_users x
           where x.enabled and x.archived_from < old and (x.archived_from, x.user_id) > (after_at, after_user)
           order by x.archived_from, x.user_id limit most) u;
  last_user := owners[cardinality(owners)];
  for due in select o from unnest(owners) o order by o loop
    continue when not throughline.hold_memories(due);
    delete from public.memories m where m.user_id = due and m.status = 'archived' and not m.pinned and m.updated_at < old;
    get diagnostics n = row_count;
    deleted := deleted + n;
    perform throughline.plan_decay(due, n);
  end loop;
  return next;
end
$$;

-- For the metrics: up to a hundred memories of a status are counted; beyond that it is what Postgres knows since it last
-- analyzed the table. For the server itself.
-- SECURITY DEFINER: a server that asks sees no rows.
create function throughline.count_memories() returns table (status text, memories bigint)
language sql stable security definer set search_path = '' set enable_seqscan = off set jit = off set enable_bitmapscan = off as $$
  select s.name, case when counted.memories < 100 then counted.memories
                      else greatest(100, (select (c.reltuples * f.frequency)::bigint
                             from pg_catalog.pg_class c
                             join pg_catalog.pg_stats p on p.schemaname = 'public' and p.tablename = 'memories' and p.attname = 'status'
                            cross join lateral unnest(p.most_common_vals::text::text[], p.most_common_freqs) f (name, frequency)
                            where c.oid = 'public.memories'::regclass and f.name = s.name)) end
    from unnest(array['active', 'inbox', 'superseded', 'archived']) s (name)
   cross join lateral (select count(*) as memories from (select from public.memories m where m.status = s.name limit 100) n) counted
$$;
