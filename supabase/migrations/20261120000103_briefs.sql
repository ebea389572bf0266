-- What the memory knows of each chat, and every change it went through.

create table public.conversation_briefs (
  chat_id        uuid        not null,
  user_id        uuid        not null,
  brief          jsonb       not null default '{"global_summary": "", "last_summarized_message_id": null}',
  -- Tokens of global_summary, counted once, when it was written.
  brief_tokens   int         not null default 0,
  -- 0 until the first fold, then one more with every change.
  version        bigint      not null default 0,
  -- Every message up to this seq is in the summary.
  covered_seq    bigint      not null default 0,
  -- The chunk buffer, kept by triggers on messages: tokens and user messages after covered_seq.
  pending_tokens int         not null default 0,
  pending_turns  int         not null default 0,
  -- A covered message was edited or deleted, so the summary no longer says what the messages say.
  stale          boolean     not null default false,
  -- One more with every edit or deletion of any message: a fold that planned before it is thrown away.
  edit_count     bigint      not null default 0,
  -- The fold at work: its token, and until when it has said it is alive.
  lease_token    uuid,
  lease_until    timestamptz,
  updated_at     timestamptz not null default now(),

  constraint conversation_briefs_pkey primary key (chat_id),
  constraint conversation_briefs_chat_id_fkey foreign key (chat_id) references public.chats (id) on delete cascade,
  constraint conversation_briefs_user_id_fkey foreign key (user_id) references auth.users (id) on delete cascade,
  constraint conversation_briefs_two_keys check (
    brief ?& array['global_summary', 'last_summarized_message_id']
    and brief - array['global_summary', 'last_summarized_message_id'] = '{}'),
  constraint conversation_briefs_counters check (pending_tokens >= 0 and pending_turns >= 0 and covered_seq >= 0),
  constraint conversation_briefs_lease_whole check ((lease_token is null) = (lease_until is null))
);

create index conversation_briefs_user_id_idx on public.conversation_briefs (user_id);
-- What the sweep looks for: long buffers, summaries to rebuild, folds whose worker died.
create index conversation_briefs_pending_tokens_idx on public.conversation_briefs (pending_tokens);
create index conversation_briefs_stale_idx on public.conversation_briefs (updated_at) where stale;
create index conversation_briefs_lease_until_idx on public.conversation_briefs (lease_until) where lease_until is not null;

create table public.conversation_brief_revisions (
  chat_id        uuid        not null,
  user_id        uuid        not null,
  version        bigint      not null,
  kind           text        not null,
  -- The messages whose words this change brought in, by seq, both ends included.
  seq_from       bigint      not null,
  seq_to         bigint      not null,
  turns          int         not null,
  -- Null once redacted: after a rebuild the summaries before it are gone, with the words they held.
  global_summary text,
  input_tokens   int         not null,
  output_tokens  int         not null,
  prompt_mode    text        not null,
  -- "id@version" of the hosted prompt, or the name and version of the built-in instructions.
  prompt_ref     text        not null,
  model          text        not null,
  duration_ms    int         not null,
  -- Hex, of the input string as it was sent. For a change of several calls, of the last input.
  input_sha256   text        not null,
  -- Further facts: tokens of the summary before and after, calls made, what the gate refused.
  details        jsonb       not null default '{}',
  created_at     timestamptz not null default now(),

  constraint conversation_brief_revisions_pkey primary key (chat_id, version),
  constraint conversation_brief_revisions_chat_id_fkey foreign key (chat_id) references public.chats (id) on delete cascade,
  constraint conversation_brief_revisions_user_id_fkey foreign key (user_id) references auth.users (id) on delete cascade,
  constraint conversation_brief_revisions_kind_known check (kind in ('fold', 'rebuild', 'rollback')),
  constraint conversation_brief_revisions_prompt_mode_known check (prompt_mode in ('hosted', 'inline', 'none')),
  constraint conversation_brief_revisions_range check (seq_from >= 1 and seq_to >= seq_from)
);

create index conversation_brief_revisions_user_id_idx on public.conversation_brief_revisions (user_id);
-- No message is folded twice: two folds that begin at the same place cannot both be written.
create unique index conversation_brief_revisions_fold_once_key on public.conversation_brief_revisions (chat_id, seq_from)
  where kind = 'fold';

revoke all on public.conversation_briefs, public.conversation_brief_revisions from anon, authenticated;
grant select, update on public.conversation_briefs to throughline_app;
grant select, insert, update (global_summary) on public.conversation_brief_revisions to throughline_app;
grant all on public.conversation_briefs, public.conversation_brief_revisions to service_role;

alter table public.conversation_briefs enable row level security;
alter table public.conversation_brief_revisions enable row level security;

create policy conversation_briefs_server on public.conversation_briefs for all to throughline_app
  using ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id)
  with check ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id);
create policy conversation_brief_revisions_server on public.conversation_brief_revisions for all to throughline_app
  using ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id)
  with check ((select (nullif((select current_setting('request.jwt.claims', true)), '')::jsonb ->> 'sub')::uuid) = user_id);

create trigger conversation_briefs_touch_updated_at before update on public.conversation_briefs
  for each row execute function private.touch_updated_at();

-- A chat has a brief from its first moment. SECURITY DEFINER: a phone may start a chat, but has no
-- right to any brief.
create function private.start_brief() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into public.conversation_briefs (chat_id, user_id) values (new.id, new.user_id);
  return null;
end
$$;

create trigger chats_start_brief after insert on public.chats
  for each row execute function private.start_brief();

revoke all on function private.start_brief() from public, anon, authenticated;
