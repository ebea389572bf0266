-- The server's role, and two schemas that no API exposes.

-- A member of this role may write what a phone may not, such as an assistant's message, but policies confine
-- it to the rows of the user in request.jwt.claims. Roles belong to the whole cluster, so the role may exist
-- already; unique_violation happens when two databases of a cluster are migrated at the same time.
do $$
begin
  create role throughline_app nologin noinherit;
exception
  when duplicate_object or unique_violation then null;
end
$$;

-- The server usually connects as the role that runs the migrations; docs/operations.md shows the grant for
-- another role. From Postgres 16 on the creator of a role may not switch to it without this grant. The
-- exceptions again come from a migration that runs at the same time.
do $$
begin
  execute format('grant throughline_app to %I', current_user);
exception
  when unique_violation or internal_error then null;
end
$$;

grant usage on schema public to throughline_app;

-- Functions of the triggers and of the server. Only this project uses the schema.
create schema throughline;
revoke all on schema throughline from public, anon, authenticated;
grant usage on schema throughline to throughline_app, service_role;

-- Views for people who read the database with psql.
create schema inspect;
revoke all on schema inspect from public, anon, authenticated;
grant usage on schema inspect to service_role;
