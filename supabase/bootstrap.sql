-- Makes a plain Postgres (15 or later) look like a fresh Supabase project, as far as this project
-- can tell: the roles with their rights, the schemas auth, extensions and realtime, the publication.
-- For the private cluster and for tests. A real project has all of this and never sees this file.
--
-- Run it as a superuser that is not called postgres (initdb -U supabase_admin), once per database;
-- running it again changes nothing. It needs nothing but the server itself.

-- Roles belong to the whole cluster, so another database may have brought them already.
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
-- There postgres may load data without triggers, as "throughline move" does.
grant set on parameter session_replication_role to postgres;
-- Until Postgres 15 whoever may create roles may grant any.
do $admin$
begin
  if current_setting('server_version_num')::int >= 160000 then
    grant anon, authenticated, service_role to postgres with admin option;
  end if;
end
$admin$;

alter role postgres            set search_path = "$user", public, extensions;
alter role supabase_auth_admin set search_path = auth;
alter role anon                set statement_timeout = '3s';
alter role authenticated       set statement_timeout = '8s';
alter role authenticator       set statement_timeout = '8s';
alter role authenticator       set lock_timeout = '8s';

-- public: its objects are granted by the migrations, each by name. There are no default
-- privileges for the API roles, as in every project since 2026-10-30.
grant usage         on schema public to anon, authenticated, service_role;
grant usage, create on schema public to postgres;

-- extensions: the ones that every project starts with, of which our own schema uses none: a server that was installed
-- without the contrib package only misses them with a notice. And vector, which a project's postgres may create and
-- this one may not; migrate says what to do where it is missing.
create schema if not exists extensions;
grant usage         on schema extensions to anon, authenticated, service_role;
grant usage, create on schema extensions to postgres;

do $contrib$
declare
  extension text;
begin
  foreach extension in array array['pgcrypto', 'uuid-ossp', 'moddatetime', 'vector'] loop
    if exists (select from pg_available_extensions a where a.name = extension) then
      execute format('create extension if not exists %I with schema extensions', extension);
    else
      raise notice 'extension % is not installed on this machine, left out', extension;
    end if;
  end loop;
end
$contrib$;

-- auth: belongs to the auth server's own role. The tables hold the columns that programs beside
-- the auth server read; the functions give policies the caller's claims.
create schema if not exists auth authorization supabase_auth_admin;
grant usage on schema auth to postgres, anon, authenticated, service_role;

set role supabase_auth_admin;

create table if not exists auth.users (
  id                 uuid primary key,
  instance_id        uuid,
  aud                varchar(255),
  role               varchar(255),
  email              varchar(255),
  phone              text unique,
  encrypted_password varchar(255),
  is_super_admin     boolean,
  is_sso_user        boolean not null default false,
  is_anonymous       boolean not null default false,
  raw_app_meta_data  jsonb,
  raw_user_meta_data jsonb,
  email_confirmed_at timestamptz,
  last_sign_in_at    timestamptz,
  banned_until       timestamptz,
  created_at         timestamptz,
  updated_at         timestamptz,
  deleted_at         timestamptz
);
-- An e-mail address is unique among those who did not come through single sign-on.
create unique index if not exists users_email_partial_key on auth.users (email) where not is_sso_user;

create table if not exists auth.sessions (
  id           uuid primary key,
  user_id      uuid not null references auth.users (id) on delete cascade,
  aal          text,
  ip           inet,
  user_agent   text,
  scopes       text,
  refreshed_at timestamp,
  not_after    timestamptz,
  created_at   timestamptz,
  updated_at   timestamptz
);
create index if not exists sessions_user_id_idx on auth.sessions (user_id);

alter table auth.users    enable row level security;
alter table auth.sessions enable row level security;
grant all on auth.users, auth.sessions to postgres;

-- The API sets one variable with all claims; an older one set a variable per claim, which still wins.
create or replace function auth.jwt() returns jsonb language sql stable as $fn$
  select cast(nullif(current_setting('request.jwt.claims', true), '') as jsonb)
$fn$;

create or replace function auth.uid() returns uuid language sql stable as $fn$
  select cast(coalesce(nullif(current_setting('request.jwt.claim.sub', true), ''), auth.jwt() ->> 'sub') as uuid)
$fn$;

create or replace function auth.role() returns text language sql stable as $fn$
  select coalesce(nullif(current_setting('request.jwt.claim.role', true), ''), auth.jwt() ->> 'role')
$fn$;

create or replace function auth.email() returns text language sql stable as $fn$
  select coalesce(nullif(current_setting('request.jwt.claim.email', true), ''), auth.jwt() ->> 'email')
$fn$;

reset role;

-- realtime: broadcasts are rows of a partitioned table, and its policies decide who hears them.
create schema if not exists realtime;
grant usage on schema realtime to postgres, anon, authenticated, service_role;

create table if not exists realtime.messages (
  id             uuid not null default gen_random_uuid(),
  topic          text not null,
  extension      text not null,
  event          text,
  payload        jsonb,
  binary_payload bytea,
  private        boolean default false,
  inserted_at    timestamp not null default now(),
  updated_at     timestamp not null default now(),
  primary key (id, inserted_at)
) partition by range (inserted_at);
-- The service makes a partition per day; one for everything serves as well here.
create table if not exists realtime.messages_all partition of realtime.messages default;

alter table realtime.messages enable row level security;
grant select, insert, update on realtime.messages to postgres, anon, authenticated, service_role;
alter table realtime.messages owner to supabase_realtime_admin;
-- Lets postgres make policies on the table. On Supabase an extension allows exactly that and no other DDL.
grant supabase_realtime_admin to postgres;

create or replace function realtime.topic() returns text language sql stable as $fn$
  select nullif(current_setting('realtime.topic', true), '')
$fn$;

-- Like the service's own: works with the caller's rights and answers any failure with a warning,
-- so that a broadcast never rolls back the write that caused it.
create or replace function realtime.send(payload jsonb, event text, topic text, private boolean default true)
returns void language plpgsql as $fn$
declare
  message_id constant uuid := gen_random_uuid();
begin
  perform set_config('realtime.topic', topic, true);
  insert into realtime.messages (id, topic, extension, event, payload, private)
  values (message_id, topic, 'broadcast', event, jsonb_build_object('id', message_id) || payload, private);
exception
  when others then
    raise warning 'WarnSendingBroadcastMessage: %', sqlerrm;
end
$fn$;

do $publication$
begin
  if not exists (select from pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
  end if;
end
$publication$;
