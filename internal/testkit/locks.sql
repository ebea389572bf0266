-- In every test's database: raises where the check of a foreign key takes the first lock of a chat, of a user's memories or of an
-- account while the transaction already holds rows. Who deletes that holds it and waits for those rows, so the two would deadlock.
-- Postgres checks a key when a row is inserted, and when a transaction updates a row for the second time.
create schema testkit;
grant usage on schema testkit to public;

create function testkit.holds(held text, condition text, child anyelement) returns boolean
language plpgsql security definer set search_path = '' as $$
declare
  own constant xid := pg_current_xact_id()::xid;
  ours boolean;
  locker xid;
begin
  execute format('select p.xmin = $2 or p.xmax = $2, p.xmax from %s p where %s', held, condition) into ours, locker using child, own;
  if not ours and locker <> '0'::xid then
    begin -- several transactions may hold it
      ours := exists (select from pg_get_multixact_members(locker) where xid = own);
    exception when others then
      null; -- one did, and has ended
    end;
  end if;
  return coalesce(ours, true); -- without the row, Postgres itself refuses
end
$$;

-- For a row that is inserted when the transaction held something before the statement, and for one that is updated again. The rows
-- that a test inserts by hand, as no user, are not looked at.
create function testkit.check_lock() returns trigger
language plpgsql set search_path = '' as $$
begin
  if (tg_op = 'UPDATE' or tg_nargs > 2 or current_setting('testkit.t' || tg_relid, true) = 'holds') and not testkit.holds(tg_argv[0], tg_argv[1], new) then
    raise internal_error using message = format('testkit: %s of %s locks %s while rows are held', tg_op, tg_table_name, tg_argv[0]);
  end if;
  return new;
end
$$;

create function testkit.note_locks() returns trigger
language plpgsql set search_path = '' as $$
begin
  perform set_config('testkit.t' || tg_relid,
    case when pg_current_xact_id_if_assigned() is null or current_setting('role') = 'none' then '' else 'holds' end, true);
  return null;
end
$$;

do $$
declare
  key record;
begin
  set local search_path = pg_catalog; -- for the full names of tables
  for key in
    select k.oid, k.conrelid::regclass as child, held.*
      from pg_constraint k
     -- All that belongs to a chat is written under its lock, and all that belongs to a memory under that of the user's row.
     cross join lateral (
       select 'public.chats' as held, 'p.id = ($1).chat_id' as condition
        where k.confrelid in ('public.chats'::regclass, 'public.messages'::regclass, 'public.chat_files'::regclass)
       union all
       select 'public.memory_users', 'p.user_id = ($1).user_id'
        where k.confrelid in ('public.memory_users'::regclass, 'public.memories'::regclass, 'public.memory_entities'::regclass)
       union all
       select 'throughline.accounts', 'p.user_id = ($1).user_id' where k.confrelid = 'throughline.accounts'::regclass) held
     where k.contype = 'f' and k.connamespace = 'public'::regnamespace
  loop
    execute format('create trigger testkit_%s_note before insert on %s for each statement execute function testkit.note_locks()', key.oid, key.child);
    -- The last before the row is written, and the first after it.
    execute format('create trigger zz_testkit_%s before insert on %s for each row execute function testkit.check_lock(%L, %L)',
      key.oid, key.child, key.held, key.condition);
    execute format('create trigger "A_testkit_%s" after update on %s for each row when (old.xmin = pg_current_xact_id()::xid)
      execute function testkit.check_lock(%L, %L)', key.oid, key.child, key.held, key.condition);
    if key.held = 'throughline.accounts' then -- open_account locks it: what a trigger of the statement held before that
      execute format('create trigger "A_testkit_first_%s" before insert on %s for each row
        when (pg_current_xact_id_if_assigned() is not null and current_setting(''role'') <> ''none'')
        execute function testkit.check_lock(%L, %L, ''before'')', key.oid, key.child, key.held, key.condition);
    end if;
  end loop;
end
$$;
