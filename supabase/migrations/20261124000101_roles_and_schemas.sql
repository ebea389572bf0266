-- The server's two roles, and two schemas that no API exposes.

-- throughline_app is the server at work for the user of a token. It has the rights of authenticated: what the app's
-- owner writes for signed-in users or for everybody (policies, grants, triggers) holds for the server too. Beyond
-- that it may write what a phone may not, such as an assistant's message, in the rows of that user alone.
--
-- throughline_worker is a job at work for the owner of a chat, without a token. It has no right to any table, only to
-- the views throughline.own_…, which show that user's rows: no policy of the app's applies to it. The rights of anon
-- let triggers of the app's call auth.uid().
--
-- The server usually connects as the role that runs the migrations, so that is granted both; docs/operations.md shows
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
    'grant authenticated to throughline_app',
    'grant anon to throughline_worker',
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

grant usage on schema public to throughline_app;

-- Functions of the triggers and of the server, and the views of jobs. Only this project uses the schema.
create schema throughline;
revoke all on schema throughline from public, anon, authenticated;
grant usage on schema throughline to throughline_app, throughline_worker, service_role;

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
-- A client has one policy per command. The server has one that lets it reach a user's rows, however those change, and the
-- same once more as a restrictive one: the server shows and changes no other user's rows, even where the app's owner permits it.
create procedure throughline.protect(
  rows_of regclass, clients text default null, server text default null, jobs text default null, per_user real default null)
language plpgsql security invoker set search_path = '' as $$
declare
  name constant text := (select c.relname from pg_catalog.pg_class c where c.oid = rows_of);
  own_view constant text := 'throughline.own_' || replace(name, 'conversation_', '');
  own constant text := '((select auth.uid()) = user_id)';
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
  execute format('create policy %I on %s for all to throughline_app using %s with check %3$s', name || '_server', rows_of, own);
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
