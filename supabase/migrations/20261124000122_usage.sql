-- What calls of models cost: a row for each call that was made for a user beside their replies, also of the embedding model,
-- however it ended and whether or not anything came of it. What a reply cost stands in its message. No words.

create table public.usage_events (
  id            uuid        not null default gen_random_uuid(),
  user_id       uuid        not null,
  -- No foreign key: usage stays when the chat goes. Null for calls of no chat.
  chat_id       uuid,
  purpose       text        not null,
  model         text        not null default '',
  input_tokens  int         not null default 0,
  -- Within input_tokens.
  cached_tokens int         not null default 0,
  output_tokens int         not null default 0,
  -- The call broke off: the server's own count of the request.
  estimated     boolean     not null default false,
  created_at    timestamptz not null default now(),

  constraint usage_events_pkey primary key (id),
  constraint usage_events_user_id_fkey foreign key (user_id) references auth.users (id) on delete cascade,
  constraint usage_events_tokens check (least(input_tokens, cached_tokens, output_tokens) >= 0)
);

-- For the policies, and for what a user has spent since when.
create index usage_events_user_id_created_at_idx on public.usage_events (user_id, created_at);
-- For the deletion of old rows.
create index usage_events_created_at_idx on public.usage_events (created_at);

create view throughline.own_usage_events as select * from public.usage_events where user_id = (select auth.uid()) with check option;

call throughline.protect('public.usage_events', clients => 'select', server => 'select', jobs => 'select', per_user => -0.01);
