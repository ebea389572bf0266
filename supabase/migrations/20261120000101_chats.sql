-- One row per conversation.

create table public.chats (
  id              uuid        not null default gen_random_uuid(),
  user_id         uuid        not null default auth.uid(),
  title           text        not null default '',
  system_prompt   text,
  metadata        jsonb       not null default '{}',
  -- Kept by the triggers on messages; see there.
  last_seq        bigint      not null default 0,
  message_count   bigint      not null default 0,
  last_message_at timestamptz,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),

  constraint chats_pkey primary key (id),
  constraint chats_user_id_fkey foreign key (user_id) references auth.users (id) on delete cascade,
  constraint chats_title_length check (char_length(title) <= 500),
  constraint chats_metadata_is_object check (jsonb_typeof(metadata) = 'object')
);

-- For the policies and for the cascade from auth.users. The time of the last message is left out on
-- purpose: it changes with every message, and without it that update stays within the table (HOT).
create index chats_user_id_idx on public.chats (user_id);

revoke all on public.chats from anon, authenticated;
grant select, delete on public.chats to authenticated;
grant insert (id, user_id, title, system_prompt, metadata), update (title, system_prompt, metadata) on public.chats to authenticated;
grant select, insert, update, delete on public.chats to throughline_app;
grant all on public.chats to service_role;

alter table public.chats enable row level security;

create policy chats_select on public.chats for select to authenticated
  using ((select auth.uid()) = user_id);
create policy chats_insert on public.chats for insert to authenticated
  with check ((select auth.uid()) = user_id);
create policy chats_update on public.chats for update to authenticated
  using ((select auth.uid()) = user_id) with check ((select auth.uid()) = user_id);
create policy chats_delete on public.chats for delete to authenticated
  using ((select auth.uid()) = user_id);

-- The server's role cannot use auth.uid(), because it has no right to the schema auth and none to give itself
-- one. It reads the same claim, here and in the other tables: written out, since a function with a fixed
-- search path would be called by each statement of a turn.
create policy chats_server on public.chats for all to throughline_app
  using ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id)
  with check ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id);

create function private.touch_updated_at() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.updated_at := now();
  return new;
end
$$;

create trigger chats_touch_updated_at before update on public.chats
  for each row execute function private.touch_updated_at();

revoke all on function private.touch_updated_at() from public, anon, authenticated;
