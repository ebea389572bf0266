-- The background work that runs, that waits for its turn, or that was put off after failures: a row each, and none for work that
-- rests. Due work stands in the rows that it is about.

-- River makes it unlogged. A failover empties or drops such a table, and then no process leads again: nothing is
-- swept or retried any more.
alter table river.river_leader set logged;

create table throughline.work (
  kind          text        not null,
  -- The object of the work: a chat, a topic or a user, by the kind. No foreign key: triggers take the row away with it.
  key           uuid        not null,
  user_id       uuid        not null,
  -- The worker that has it, and until when that counts as alive.
  lease_token   uuid,
  lease_until   timestamptz,
  -- The job that waits until the user's other work of the kind is done, and since when.
  waiting_job   bigint,
  waiting_since timestamptz,
  -- How often it was given up since it last succeeded: how often, since when, why (a word, never content). Before
  -- when it is not tried again: after a failure, or because its user has spent too much.
  failures      int         not null default 0,
  failing_since timestamptz,
  failure       text,
  retry_at      timestamptz,

  constraint work_pkey primary key (kind, key),
  constraint work_lease_whole check ((lease_token is null) = (lease_until is null)),
  constraint work_waiting_whole check ((waiting_job is null) = (waiting_since is null)),
  constraint work_failure_whole check ((failing_since is null) = (failures = 0) and (failing_since is null) = (failure is null)
    and (failing_since is null or retry_at is not null))
)
with (fillfactor = 70);

-- For the turns of a user's work.
create index work_user_id_idx on throughline.work (user_id, kind, waiting_since);
-- For the sweep: leases of dead workers; for the metrics: what fails.
create index work_lease_until_idx on throughline.work (lease_until) where lease_until is not null;
create index work_failing_since_idx on throughline.work (failing_since) where failing_since is not null;

-- Takes the lease of a piece of work. At most so many of a user's of one kind run at once (0 for any number); a job that finds
-- no place waits, and is woken when one is free. The same token may claim again: the answer to a first claim may be lost.
-- state: taken; busy, for another worker has it; waits; put_off, with how long; gone, for there is no such user, they are moving to
-- another cell, or there is nothing for this job to do.
create function throughline.claim_work(work_kind text, work_key uuid, owner uuid, token uuid, seconds float8, most int, job bigint,
  out state text, out wait_seconds float8)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  had throughline.work;
begin
  wait_seconds := 0;
  if owner is null or exists (select from throughline.departed d where d.user_id = owner) then
    state := 'gone';
    return;
  end if;
  -- The claims of a user pass one after the other, so that no two take the last place.
  perform pg_advisory_xact_lock(hashtextextended('work:' || work_kind || owner, 0));
  select * into had from throughline.work w where w.kind = work_kind and w.key = work_key for update;
  if had.lease_until > now() and had.lease_token <> token then
    state := 'busy';
    return;
  elsif had.retry_at > now() then
    state := 'put_off';
    wait_seconds := extract(epoch from had.retry_at - now());
    return;
  elsif most > 0 and (select count(*) from throughline.work w
      where w.user_id = owner and w.kind = work_kind and w.lease_until > now() and w.key <> work_key) >= most then
    state := 'waits';
    if had.waiting_job <> job and exists (select from river.river_job j where j.id = had.waiting_job and j.state in ('scheduled', 'available', 'running')) then
      state := 'gone'; -- another job waits for the same
      return;
    end if;
    insert into throughline.work as w (kind, key, user_id, waiting_job, waiting_since) select work_kind, work_key, owner, job, now() where job is not null
    on conflict (kind, key) do update set waiting_job = excluded.waiting_job, waiting_since = coalesce(w.waiting_since, excluded.waiting_since),
      lease_token = null, lease_until = null;
    return;
  end if;
  state := 'taken';
  -- Another job that waits for the same has no place to wait for any more.
  update river.river_job j set state = 'available', scheduled_at = now()
   where j.id = had.waiting_job and j.id is distinct from job and j.state = 'scheduled';
  insert into throughline.work as w (kind, key, user_id, lease_token, lease_until)
  values (work_kind, work_key, owner, token, now() + make_interval(secs => seconds))
  on conflict (kind, key) do update set lease_token = excluded.lease_token, lease_until = excluded.lease_until, waiting_job = null, waiting_since = null;
end
$$;

-- Lets the job of a user that has waited longest for a place in a kind of work run now. One that is only about to wait, because
-- River has not put it back yet, goes on waiting: for the next place, or for wake_idle.
create function throughline.wake_work(work_kind text, owner uuid) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  first record;
  of_queue text;
begin
  -- Not in the update: where Postgres runs it once more for another row, it skips the one that the update has changed and finds the next.
  select n.key, n.waiting_job into first
    from throughline.work n join river.river_job j on j.id = n.waiting_job and j.state = 'scheduled'
   where n.user_id = owner and n.kind = work_kind and n.waiting_since is not null
   order by n.waiting_since limit 1 for update of n skip locked;
  update throughline.work w set waiting_job = null, waiting_since = null where w.kind = work_kind and w.key = first.key;
  update river.river_job j set state = 'available', scheduled_at = now() where j.id = first.waiting_job and j.state = 'scheduled'
  returning j.queue into of_queue;
  -- As River announces an inserted job, so that workers do not wait for their next poll.
  if of_queue is not null then
    perform pg_notify('river.river_insert', jsonb_build_object('queue', of_queue)::text);
  end if;
end
$$;

-- For the sweep: wakes a job of each user of whom some wait and none works.
create function throughline.wake_idle() returns void
language sql volatile security invoker set search_path = '' as $$
  select throughline.wake_work(w.kind, w.user_id)
    from throughline.work w
   group by w.kind, w.user_id
  having bool_or(w.waiting_since is not null) and not bool_or(coalesce(w.lease_until > now(), false))
$$;

-- Ends a lease, with all that was known of failures if the work is done. False if another worker has it.
create function throughline.end_work(work_kind text, work_key uuid, token uuid, is_done boolean) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  owner uuid;
begin
  if is_done then
    delete from throughline.work w where w.kind = work_kind and w.key = work_key and w.lease_token = token returning w.user_id into owner;
  else
    update throughline.work w set lease_token = null, lease_until = null
     where w.kind = work_kind and w.key = work_key and w.lease_token = token
    returning w.user_id into owner;
    delete from throughline.work w where w.kind = work_kind and w.key = work_key and w.failures = 0 and w.lease_token is null and w.waiting_job is null;
  end if;
  if owner is null then
    return false;
  end if;
  perform throughline.wake_work(work_kind, owner);
  return true;
end
$$;

-- Ends the lease of work that was given up, and allows no try for a while: one of soon after another, and then first,
-- which doubles each time, at most longest. Null if another worker has it.
create function throughline.put_off_work(work_kind text, work_key uuid, token uuid, why text, soon float8[], first float8, longest float8,
  out times int, out wait_seconds float8)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  owner uuid;
begin
  update throughline.work w
     set lease_token = null, lease_until = null, failures = least(w.failures, 2147483646) + 1, failure = why, failing_since = coalesce(w.failing_since, now()),
         retry_at = now() + make_interval(secs => coalesce(soon[least(w.failures, 2147483646) + 1],
           least(longest, first * 2 ^ least(w.failures - cardinality(soon), 30))))
   where w.kind = work_kind and w.key = work_key and w.lease_token = token
  returning w.failures, extract(epoch from w.retry_at - now()), w.user_id into times, wait_seconds, owner;
  if owner is not null then
    perform throughline.wake_work(work_kind, owner);
  end if;
end
$$;

-- Forgets the failures of work on something that has changed. SECURITY DEFINER: who changes it has no right to the table.
create function throughline.retry_work(work_kind text, work_key uuid) returns void
language sql volatile security definer set search_path = '' as $$
  update throughline.work w set failures = 0, failing_since = null, failure = null, retry_at = null
   where w.kind = work_kind and w.key = work_key and w.retry_at is not null
$$;

-- Whether work was put off, and it is too early to try again. SECURITY DEFINER: who asks has no right to the table.
create function throughline.is_put_off(work_kind text, work_key uuid) returns boolean
language plpgsql stable security definer set search_path = '' as $$
begin
  return exists (select from throughline.work w where w.kind = work_kind and w.key = work_key and w.retry_at > now());
end
$$;

-- Whether a worker has it. SECURITY DEFINER: as is_put_off.
create function throughline.is_at_work(work_kind text, work_key uuid) returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (select from throughline.work w where w.kind = work_kind and w.key = work_key and w.lease_token is not null)
$$;

-- SECURITY DEFINER: who deletes a chat has no right to the table.
create function throughline.forget_work() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  delete from throughline.work w using gone where w.key = (to_jsonb(gone) ->> tg_argv[0])::uuid;
  return null;
end
$$;
create trigger chats_forget_work after delete on public.chats referencing old table as gone
  for each statement execute function throughline.forget_work('id');
create trigger topics_forget_work after delete on public.topics referencing old table as gone
  for each statement execute function throughline.forget_work('id');
create trigger memory_users_forget_work after delete on public.memory_users referencing old table as gone
  for each statement execute function throughline.forget_work('user_id');

-- Makes the jobs of dead workers available again; River itself would do so minutes later. A job with a lease is alive while that
-- runs, or while it is too young to have taken one. One without is dead after its timeout or, where it is done within moments, as
-- young ones are; all may run twice. The entry in errors has River's form. A job without attempts left is discarded, as River
-- does it, so that a chat which kills its workers does not kill all that come.
create function throughline.revive_jobs(young float8) returns table (work_kind text, key uuid, given_up boolean)
language sql volatile security invoker set search_path = '' as $$
  with kinds (job_kind, work_kind, key, seconds) as (values
    ('fold_brief', 'fold', 'chat_id', null::float8), ('extract_memories', 'extract', 'chat_id', null),
    ('compact_topic', 'compact', 'topic_id', null), ('index_turns', null, null, null), ('assign_topics', null, null, null),
    ('title_chat', null, null, 120), ('embed_turns', null, null, 240), ('embed_memories', null, null, 240), ('update_memory_graph', null, null, 240),
    ('decay_topics', null, null, 120), ('merge_topics', null, null, 120)),
  dead as (
    select d.id, k.work_kind, (d.args ->> k.key)::uuid as key
      from river.river_job d
      join kinds k on k.job_kind = d.kind
      left join throughline.work w on w.kind = k.work_kind and w.key = (d.args ->> k.key)::uuid
     where d.state = 'running' and d.attempted_at < now() - make_interval(secs => coalesce(k.seconds, young))
       and (w.lease_until is null or w.lease_until < now())
       for update of d skip locked)
  update river.river_job j
     set state = case when j.attempt < j.max_attempts then 'available' else 'discarded' end::river.river_job_state,
         finalized_at = case when j.attempt < j.max_attempts then null else now() end, scheduled_at = now(),
         errors = array_append(j.errors, jsonb_build_object('at', now(), 'attempt', j.attempt, 'error', 'worker lost its lease', 'trace', ''))
    from dead
   where j.id = dead.id
  returning coalesce(dead.work_kind, ''), coalesce(dead.key, '00000000-0000-0000-0000-000000000000'), j.state = 'discarded'
$$;

-- For people, by the views of inspect; the server reads and writes it as itself.
revoke all on throughline.work from public, anon, authenticated;
grant select on throughline.work to service_role;
alter table throughline.work enable row level security;
create policy work_service on throughline.work for select to service_role using (true);
