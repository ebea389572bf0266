-- The server's roles, and two schemas that no API exposes.

-- throughline_app is the server at work for the user of a token. It has the rights of authenticated: what the app's
-- owner writes for signed-in users or for everybody (policies, grants, triggers) holds for the server too. Beyond
-- that it may write what a phone may not, such as an assistant's message, in the rows of that user alone.
--
-- throughline_worker is a job at work for the owner of a chat, without a token. It has no right to any table, only to
-- the views throughline.own_…, which show that user's rows: no policy of the app's applies to it. The rights of anon
-- let triggers of the app's call auth.uid().
--
-- throughline_server is what a server connects as, so that a forgotten role shows nothing: it owns no table, no policy gives it
-- words, and it has none of throughline_app's rights until it switches to that role. The operator lets it log in.
--
-- Workers connect as the role that runs the migrations, so that is granted both; docs/operations.md shows
-- the grants for another role. From Postgres 16 on even the creator of a role may not switch to it without.
--
-- Roles belong to the whole cluster, so all of this may be there already; the exceptions come from a migration of
-- another database at the same time.
do $$
declare
  change text;
begin
  foreach change in array array[
    'create role throughline_app nologin inherit',
    'create role throughline_worker nologin inherit',
    'create role throughline_server nologin noinherit',
    'grant authenticated to throughline_app',
    'grant anon to throughline_worker',
    'grant throughline_app to throughline_server',
    format('grant throughline_app, throughline_worker to %I', current_user)]
  loop
    begin
      execute change;
    exception
      when duplicate_object or unique_violation or internal_error then null;
    end;
  end loop;
end
$$;

grant usage on schema public to throughline_app, throughline_server;

-- Functions of the triggers and of the server, and the views of jobs. Only this project uses the schema.
create schema throughline;
revoke all on schema throughline from public, anon, authenticated;
grant usage on schema throughline to throughline_app, throughline_worker, throughline_server, service_role;

-- Whose rows there are. A user is known from the first row of theirs on: with a row in auth.users, or by the token of an issuer that
-- is listed. The rows of users refer to this table, and go with it.
create table throughline.accounts (
  user_id    uuid        not null,
  -- The login in this project's Supabase Auth; null for users of other issuers.
  auth_id    uuid,
  -- The iss and sub of the token that was seen first; null where there was none.
  issuer     text,
  subject    text,
  created_at timestamptz not null default now(),
  constraint accounts_pkey primary key (user_id),
  constraint accounts_auth_id_key unique (auth_id),
  constraint accounts_auth_id_fkey foreign key (auth_id) references auth.users (id) on delete cascade
);

-- Who left this database, or is about to, and gets no account here. Who moves a user locks the rows of accounts, chats and memory_users
-- before they are copied: work that was admitted before may be writing.
create table throughline.departed (
  user_id uuid        not null,
  why     text        not null,
  -- Where who moved is now.
  cell    text,
  at      timestamptz not null default now(),
  constraint departed_pkey primary key (user_id),
  constraint departed_why_known check (why in ('moving', 'moved', 'erased'))
);
-- For the deletion of old tombstones.
create index departed_at_idx on throughline.departed (at) where why = 'erased';

-- The issuers whose users need no row in auth.users: AUTH_ISSUERS, as "throughline migrate" wrote it.
create table throughline.issuers (
  issuer text not null,
  constraint issuers_pkey primary key (issuer)
);

do $$
declare
  name text;
begin
  foreach name in array array['accounts', 'departed', 'issuers'] loop
    execute format('revoke all on throughline.%I from public, anon, authenticated', name);
    execute format('grant select on throughline.%I to service_role', name);
    execute format('alter table throughline.%I enable row level security', name);
    execute format('create policy %I on throughline.%I for select to service_role using (true)', name || '_service', name);
  end loop;
end
$$;

-- The id of a user of an issuer that is not Supabase Auth: a UUIDv8 (RFC 9562) of both texts. internal/auth computes the same.
create function throughline.foreign_user(issuer text, subject text) returns uuid
language sql immutable security invoker parallel safe set search_path = '' as $$
  select encode(set_byte(set_byte(substring(d.digest for 16), 6, get_byte(d.digest, 6) & 15 | 128), 8, get_byte(d.digest, 8) & 63 | 128), 'hex')::uuid
    from (select sha256(convert_to(issuer || E'\n' || subject, 'UTF8')) as digest) d
$$;

-- The user whom claims name: their sub, unless they are of a listed issuer that is no Supabase Auth. In PL/pgSQL, like all that each
-- turn calls: a function in SQL that cannot be inlined is planned anew in each transaction. SECURITY DEFINER: clients have no right to
-- the list.
create function throughline.user_of(claims jsonb) returns uuid
language plpgsql stable security definer set search_path = '' as $$
begin
  if claims ->> 'iss' not like '%/auth/v1' and exists (select from throughline.issuers i where i.issuer = claims ->> 'iss') then
    return throughline.foreign_user(claims ->> 'iss', claims ->> 'sub');
  end if;
  return (claims ->> 'sub')::uuid;
end
$$;

-- The user of the statement, for policies and statements in place of auth.uid(), which fails for a sub that is no uuid, and for which
-- Postgres, which parses a batch as the role of the connection, would need the use of the schema auth. The server and
-- its jobs have computed the id, and name it; for all others the claims count alone. In PL/pgSQL, which keeps its plan: half of the time
-- that auth.uid() takes. SECURITY DEFINER: who reads has no use of this schema.
create function throughline.uid() returns uuid
language plpgsql stable security definer set search_path = '' as $$
begin
  if current_setting('role') in ('throughline_app', 'throughline_worker') and current_setting('request.jwt.claim.sub', true) <> '' then
    return current_setting('request.jwt.claim.sub', true)::uuid;
  end if;
  return throughline.user_of(nullif(current_setting('request.jwt.claims', true), '')::jsonb);
end
$$;

-- Makes the account of a row's user, with the first row. For who has neither a row in auth.users nor a token of a listed issuer there is
-- none, and the row's foreign key refuses it; who departed is refused as admit_user does. That key would take the first lock, too: it
-- waits for who moves or erases the account. The second lock is that of erase_account. SECURITY DEFINER: who writes a row has no right to
-- accounts.
create function throughline.open_account() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  claims jsonb;
begin
  perform from throughline.accounts a where a.user_id = new.user_id for key share;
  if not found then
    claims := case when new.user_id = throughline.uid() then nullif(current_setting('request.jwt.claims', true), '')::jsonb end;
    perform pg_advisory_xact_lock(hashtextextended('account:' || new.user_id, 0));
    perform throughline.admit_user(jsonb_build_object('sub', new.user_id));
    insert into throughline.accounts (user_id, auth_id, issuer, subject)
    select new.user_id, u.id, claims ->> 'iss', claims ->> 'sub'
      from (select) one left join auth.users u on u.id = new.user_id
     where u.id is not null or exists (select from throughline.issuers i where i.issuer = claims ->> 'iss')
    on conflict (user_id) do nothing;
  end if;
  return new;
end
$$;

-- Deletes all rows of a user, and leaves a tombstone: a token outlives its account, and would bring it back. Raises TL006 for who is
-- being moved, whose copy would stay. SECURITY DEFINER: the server's own connection has no right to accounts.
create function throughline.erase_account(gone uuid) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('account:' || gone, 0));
  insert into throughline.departed (user_id, why) values (gone, 'erased')
  on conflict (user_id) do update set why = 'erased', cell = null, at = now() where departed.why <> 'moving';
  if not found then
    raise exception using errcode = 'TL006', message = 'the user is being moved';
  end if;
  delete from throughline.accounts a where a.user_id = gone;
end
$$;

-- The user whom the claims of a request name, for every transaction at work for one, unless they are not to be served here: TL006 for
-- who is being moved, TL005 for who was erased, TL007 for who belongs to another cell, which is the DETAIL where it is known. An account
-- that is here counts before all but a move: a directory may be late. Without a cell only who departed is refused.
--
-- here is this server's cell, admits_new whether it takes users whose claims name none, and begun whether the work is part of a reply
-- that had begun: a move waits for its end. SECURITY DEFINER: the server's own connection has no right to departed and accounts.
create function throughline.admit_user(claims jsonb, here text default null, admits_new boolean default false, begun boolean default false) returns uuid
language plpgsql stable security definer set search_path = '' as $$
declare
  asking constant uuid := throughline.user_of(claims);
  named constant text := nullif(claims #>> '{app_metadata,cell}', '');
  departure throughline.departed;
begin
  select d.* into departure from throughline.departed d where d.user_id = asking;
  if departure.why = 'moving' and not begun then
    raise exception using errcode = 'TL006', message = 'the user is being moved';
  end if;
  if departure.why is null and here is null or exists (select from throughline.accounts a where a.user_id = asking) then
    return asking;
  end if;
  if departure.why = 'erased' then
    raise exception using errcode = 'TL005', message = 'the account was erased';
  end if;
  if departure.why = 'moved' or coalesce(named <> here, not admits_new) then
    raise exception using errcode = 'TL007', message = 'the user is in another cell', detail = coalesce(departure.cell, named, '');
  end if;
  return asking;
end
$$;

-- Grants and policies of a table whose rows belong to users. Each such table calls this once.
--
-- clients, server and jobs are privileges as "grant" takes them: of authenticated, of throughline_app, and of
-- throughline_worker on the view throughline.own_…, which exists where jobs is not null. service_role may do everything, anon
-- nothing.
--
-- per_user is n_distinct of user_id. The policies add the user to each search by id. Statistics of the first chat would say that a
-- user has one chat, so that the index on users looked as good as the primary key and all of a user's chats were read. An index of
-- user_id that says nothing of its purpose is for the policies.
--
-- A client has one policy per command. The server has a restrictive one: it shows and changes no other user's rows, even where the
-- app's owner permits it. The permissive one beside it permits all that the restrictive one leaves; without it there would be nothing.
create procedure throughline.protect(
  rows_of regclass, clients text default null, server text default null, jobs text default null, per_user real default null)
language plpgsql security invoker set search_path = '' as $$
declare
  name constant text := (select c.relname from pg_catalog.pg_class c where c.oid = rows_of);
  own_view constant text := 'throughline.own_' || replace(name, 'conversation_', '');
  own constant text := '((select throughline.uid()) = user_id)';
  command text;
begin
  execute format('revoke all on %s from anon, authenticated', rows_of);
  execute format('grant all on %s to service_role', rows_of);
  execute format('alter table %s enable row level security', rows_of);
  if per_user is not null then
    execute format('alter table %s alter column user_id set (n_distinct = %s)', rows_of, per_user);
  end if;
  if clients is not null then
    execute format('grant %s on %s to authenticated', clients, rows_of);
  end if;
  for command in
    select c from unnest(array['select', 'insert', 'update', 'delete']) c where regexp_replace(clients, '\([^)]*\)', '', 'g') ~ c
  loop
    execute format('create policy %I on %s for %s to authenticated', name || '_' || command, rows_of, command)
      || case when command <> 'insert' then ' using ' || own else '' end
      || case when command in ('insert', 'update') then ' with check ' || own else '' end;
  end loop;
  execute format('grant %s on %s to throughline_app', server, rows_of);
  execute format('create policy %I on %s for all to throughline_app using (true) with check (true)', name || '_server', rows_of);
  execute format('create policy %I on %s as restrictive for all to throughline_app using %s with check %3$s', name || '_confined', rows_of, own);
  if jobs is not null then
    execute format('revoke all on %s from anon, authenticated', own_view);
    execute format('grant %s on %s to throughline_worker', jobs, own_view);
  end if;
end
$$;

-- Views for people who read the database with psql.
create schema inspect;
revoke all on schema inspect from public, anon, authenticated;
grant usage on schema inspect to service_role;
