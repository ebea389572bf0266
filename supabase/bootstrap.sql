-- Makes a plain Postgres (15 or later) look like a fresh Supabase project, as far as this project
-- can tell: the roles with their rights, the schemas auth, extensions and realtime, the publication.
-- For the private cluster and for tests. A real project has all of this and never sees this file.
--
-- Run it as a superuser that is not called postgres (initdb -U supabase_admin), once per database;
-- running it again changes nothing. It needs nothing but the server itself.

------------------------------------------------------------------------------------------------
-- Roles belong to the whole cluster, so another database may have brought them already.
------------------------------------------------------------------------------------------------
do $roles$
declare
  wanted constant jsonb := '{
    "postgres":                "login createdb createrole replication bypassrls",
    "authenticator":           "login noinherit",
    "supabase_auth_admin":     "login noinherit createrole",
    "supabase_realtime_admin": "nologin noinherit",
    "anon":                    "nologin",
    "authenticated":           "nologin",
    "service_role":            "nologin bypassrls"
  }';
  name text;
  attributes text;
begin
  -- postgres is no superuser on Supabase: a grant that a migration forgot has to hurt here, too.
  for name, attributes in select key, value from jsonb_each_text(wanted) loop
    if to_regrole(name) is null then
      execute format('create role %I with %s', name, attributes);
    end if;
  end loop;
  execute format('grant all privileges on database %I to postgres', current_database());
end
$roles$;

grant anon, authenticated, service_role to postgres, authenticator;

alter role postgres            set search_path = "$user", public, extensions;
alter role supabase_auth_admin set search_path = auth;
alter role anon                set statement_timeout = '3s';
alter role authenticated       set statement_timeout = '8s';
alter role authenticator       set statement_timeout = '8s';
alter role authenticator       set lock_timeout = '8s';
alter role authenticator       set pgrst.db_schemas = 'public, graphql_public';

------------------------------------------------------------------------------------------------
-- public: its objects are granted by the migrations, each by name. There are no default
-- privileges for the API roles, as in every project since 2026-10-30.
------------------------------------------------------------------------------------------------
grant usage         on schema public to anon, authenticated, service_role;
grant usage, create on schema public to postgres;

create schema if not exists graphql_public;

------------------------------------------------------------------------------------------------
-- extensions: those that every project starts with. Our own schema uses none of them, so a server
-- that was installed without the contrib package only misses them with a notice.
------------------------------------------------------------------------------------------------
create schema if not exists extensions;
grant usage         on schema extensions to anon, authenticated, service_role;
grant usage, create on schema extensions to postgres;

do $contrib$
declare
  name text;
begin
  foreach name in array array['pgcrypto', 'uuid-ossp', 'moddatetime'] loop
    if exists (select from pg_available_extensions e where e.name = bootstrap_name) then
      execute format('create extension if not exists %I with schema extensions', bootstrap_name);
    end if;
  end loop;
end
$contrib$;
