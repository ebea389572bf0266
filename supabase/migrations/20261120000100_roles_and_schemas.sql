-- The role that the server takes for a user's work, and the two schemas that no API exposes.

-- Members of this role may write what a phone may not (an assistant's message), but its policies
-- confine it to the rows of the user in request.jwt.claims. Roles belong to the whole cluster, so
-- another database of the same cluster may have made it already.
do $$
begin
  create role throughline_app nologin noinherit;
exception
  when duplicate_object or unique_violation then null; -- the second when both are migrated at this moment
end
$$;

-- Whoever runs the migrations is whoever the server connects as, unless an operator says otherwise. From
-- Postgres 16 on the maker of a role administers it, but may not take it before granting it to itself.
do $$
begin
  execute format('grant throughline_app to %I', current_user);
exception
  when unique_violation or internal_error then null; -- as above: the other one granted it
end
$$;

grant usage on schema public to throughline_app;

-- Functions of triggers and of the server.
create schema private;
revoke all on schema private from public, anon, authenticated;

-- Views for people who look at the database with psql.
create schema inspect;
revoke all on schema inspect from public, anon, authenticated;
grant usage on schema inspect to service_role;
