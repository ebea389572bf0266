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

-- Views for people who read the database with psql.
create schema inspect;
revoke all on schema inspect from public, anon, authenticated;
grant usage on schema inspect to service_role;
