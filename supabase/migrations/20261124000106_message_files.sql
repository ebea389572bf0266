-- Text files that came with messages.

-- The contents, each once per chat, identified by its hash.
create table public.chat_files (
  chat_id     uuid        not null,
  user_id     uuid        not null,
  sha256      bytea       not null,
  content     text        not null,
  bytes       int         not null generated always as (octet_length(content)) stored,
  token_count int         not null,
  created_at  timestamptz not null default now(),

  constraint chat_files_pkey primary key (chat_id, sha256),
  constraint chat_files_chat_id_fkey foreign key (chat_id) references public.chats (id) on delete cascade,
  constraint chat_files_sha256_length check (octet_length(sha256) = 32),
  constraint chat_files_content_size check (octet_length(content) <= 262144),
  constraint chat_files_token_count_positive check (token_count >= 0)
);

create index chat_files_user_id_idx on public.chat_files (user_id);

-- Which message brought which content, under which path.
create table public.message_files (
  message_id uuid        not null,
  -- 1, 2, 3 … within the message, in the order they were sent.
  place      int         not null,
  chat_id    uuid        not null,
  user_id    uuid        not null,
  path       text        not null,
  sha256     bytea       not null,

  constraint message_files_pkey primary key (message_id, place),
  constraint message_files_message_id_fkey foreign key (message_id) references public.messages (id) on delete cascade,
  constraint message_files_content_fkey foreign key (chat_id, sha256) references public.chat_files (chat_id, sha256) on delete cascade,
  constraint message_files_path_length check (char_length(path) between 1 and 1024)
);

-- For the foreign key and the trigger below, and for the policies.
create index message_files_content_idx on public.message_files (chat_id, sha256);
create index message_files_user_id_idx on public.message_files (user_id);

call throughline.protect('public.chat_files', clients => 'select', server => 'select, insert, delete', per_user => -0.01);
call throughline.protect('public.message_files', clients => 'select', server => 'select, insert, delete', per_user => -0.01);

-- Deletes a content with the last message that brought it. SECURITY DEFINER: the deletion of an account ends here, with the
-- rights of the auth server.
create function throughline.forget_files() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  delete from public.chat_files f
   using (select distinct chat_id, sha256 from old_files) o
   where f.chat_id = o.chat_id and f.sha256 = o.sha256
     and not exists (select from public.message_files m where m.chat_id = f.chat_id and m.sha256 = f.sha256);
  return null;
end
$$;

create trigger message_files_forget after delete on public.message_files
  referencing old table as old_files
  for each statement execute function throughline.forget_files();
