-- Every message of every chat, word for word, for as long as the chat lives.

create table public.messages (
  id                uuid        not null default gen_random_uuid(),
  chat_id           uuid        not null,
  user_id           uuid        not null,
  -- 1, 2, 3 … within the chat, in the order of commits: given by a trigger under the chat row's lock.
  seq               bigint      not null,
  role              text        not null,
  content           text        not null default '',
  status            text        not null default 'complete',
  -- The user message that an assistant message answers. No foreign key: an answer outlives a
  -- deleted question, and the check would cost every reply a look-up.
  reply_to          uuid,
  -- Tokens of content. Null on the way in means "not counted": a trigger then estimates.
  token_count       int         not null,
  metadata          jsonb       not null default '{}',
  client_message_id uuid,
  -- While status is streaming: until when the server that generates has said it is alive.
  lease_until       timestamptz,
  -- While status is streaming: somebody asked, on whichever server, to stop.
  cancel_requested  boolean     not null default false,
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),

  constraint messages_pkey primary key (id),
  constraint messages_chat_id_fkey foreign key (chat_id) references public.chats (id) on delete cascade,
  constraint messages_user_id_fkey foreign key (user_id) references auth.users (id) on delete cascade,
  -- Also the index of every read of a chat: the buffer is a range of it.
  constraint messages_chat_id_seq_key unique (chat_id, seq),
  constraint messages_role_known check (role in ('user', 'assistant', 'system', 'tool')),
  constraint messages_status_known check (status in ('complete', 'streaming', 'failed', 'cancelled', 'interrupted')),
  constraint messages_token_count_positive check (token_count >= 0),
  constraint messages_metadata_is_object check (jsonb_typeof(metadata) = 'object')
);

-- For the policies and for the cascade from auth.users. With the chat and the place in it, because the
-- policy's condition is part of every read: by the user alone Postgres would walk through all that a
-- user ever said to find the end of one chat.
create index messages_user_id_chat_id_seq_idx on public.messages (user_id, chat_id, seq);

-- A message that a client sends twice is one message.
create unique index messages_client_message_id_key on public.messages (user_id, client_message_id)
  where client_message_id is not null;

-- One generation at a time per chat, whatever two replicas believe. As small as the number of
-- replies in flight, so it also serves the search for abandoned ones.
create unique index messages_one_generation_key on public.messages (chat_id)
  where status = 'streaming';

revoke all on public.messages from anon, authenticated;
grant select on public.messages to authenticated;
grant select, insert, update, delete on public.messages to throughline_app;
grant all on public.messages to service_role;

alter table public.messages enable row level security;

create policy messages_select on public.messages for select to authenticated
  using ((select auth.uid()) = user_id);
create policy messages_server on public.messages for all to throughline_app
  using ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id)
  with check ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id);
