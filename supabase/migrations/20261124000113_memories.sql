-- What a user is remembered for across chats: memories, where each was said, every change to it, the graph of what they
-- are about, and the ledger of the messages read for them.
--
-- Locks are taken in this order everywhere: chats, messages, conversation_briefs, memory_users, memories and what belongs
-- to them. Whoever changes memories locks the user's row of memory_users first (throughline.touch_memories), so that
-- writers of one user pass one after the other.

-- A text without its spelling: one form of each character, small letters, and one space for white
-- space and punctuation. What tells C, C# and C++ or 5 and -5 apart stays.
create function throughline.folded(content text) returns text
language sql immutable security invoker parallel safe set search_path = '' as $$
  select case when words = '' then lower(btrim(plain)) else words end
    from (select normalize(content, nfkc) as plain) n,
         lateral (select btrim(regexp_replace(lower(plain),
           '(?:(?!(?<![[:alnum:]])-[0-9])[\s\x01-\x20!"''(),./:;?\[\\\]_`{|}\-\u00A0\u00A1\u00AB\u00B7\u00BB\u00BF\u055A-\u055F'
           '\u0589\u05BE\u05F3\u05F4\u060C\u061B\u061F\u0640\u066A-\u066D\u06D4'
           '\u0964\u0965\u1680\u2000-\u205F\u2E00-\u2E5D\u3000-\u3003\u3008-\u3011\u3014-\u301F\u30FB\uFEFF])+',
           ' ', 'g')) as words) f
$$;

-- Equal for two memories that say the same in the same words. SQL alone computes it.
create function throughline.content_key(content text) returns bytea
language sql immutable security invoker parallel safe set search_path = '' as $$
  select sha256(convert_to(throughline.folded(content), 'UTF8'))
$$;

-- One row per user that memories were made for, or that chose settings for them.
create table public.memory_users (
  user_id     uuid        not null default throughline.uid(),
  -- false: nothing is read for memories and none are shown.
  enabled     boolean     not null default true,
  -- One more with every transaction that changes memories of the user, so that who read them before it notices.
  version     bigint      not null default 0,
  -- The user's time zone, by which dates in memories are resolved, and language; null where unknown.
  time_zone   text,
  language    text,
  -- Subjects that are never remembered.
  excluded    text[]      not null default '{}',
  -- Since when enabled is false.
  paused_at   timestamptz,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  -- When the first of the user's memories fades or is archived; earlier after a change of any, null for never.
  fades_at    timestamptz default now(),
  -- Since when the first of those in the archive is there; right whenever fades_at is later than now.
  archived_from timestamptz,

  constraint memory_users_pkey primary key (user_id),
  constraint memory_users_time_zone_length check (char_length(time_zone) between 1 and 64),
  constraint memory_users_language_length check (char_length(language) between 1 and 35),
  -- At most 50 subjects of 100 characters.
  constraint memory_users_excluded_bounded check (
    cardinality(excluded) <= 50 and array_position(excluded, null) is null
    and array_to_string(excluded, E'\n') !~ '[^\n]{101}' and octet_length(excluded::text) <= 40000)
)
-- Every extraction updates the row.
with (fillfactor = 70);

-- For decay_memories.
create index memory_users_fades_at_idx on public.memory_users (fades_at, user_id) where enabled and fades_at is not null;
create index memory_users_archived_from_idx on public.memory_users (archived_from, user_id) where enabled and archived_from is not null;

-- The second foreign key to the account. Its deletion takes the locks of the user's chats before this one, as everybody
-- does, if its cascade to chats comes first. Postgres runs cascades by the names of their triggers, which end with a
-- number as text: usually that of an older constraint is smaller. Where it is not, both are made again in their order.
alter table public.memory_users add constraint memory_users_user_id_fkey foreign key (user_id) references throughline.accounts (user_id) on delete cascade;
do $$
declare
  fkey text;
begin
  while (select min(t.tgname) filter (where t.tgconstrrelid = 'public.chats'::regclass)
                > min(t.tgname) filter (where t.tgconstrrelid = 'public.memory_users'::regclass)
           from pg_trigger t join pg_constraint c on c.oid = t.tgconstraint
          where t.tgrelid = 'throughline.accounts'::regclass and c.conname in ('chats_user_id_fkey', 'memory_users_user_id_fkey')
            and t.tgfoid = 'pg_catalog."RI_FKey_cascade_del"'::regproc)
  loop
    foreach fkey in array array['chats', 'memory_users'] loop
      execute format('alter table public.%1$s drop constraint %1$s_user_id_fkey, '
        'add constraint %1$s_user_id_fkey foreign key (user_id) references throughline.accounts (user_id) on delete cascade', fkey);
    end loop;
  end loop;
end
$$;

create trigger memory_users_account before insert on public.memory_users for each row execute function throughline.open_account();

create table public.memories (
  id                uuid        not null default gen_random_uuid(),
  user_id           uuid        not null default throughline.uid(),
  content           text        not null,
  memory_type       text        not null default 'fact',
  -- 0 to 1. Decays while the memory is not used.
  confidence        float8      not null default 1.0,
  -- Durable memories do not decay. Pinned ones are always shown; no model changes them or edited ones.
  durable           boolean     not null default false,
  pinned            boolean     not null default false,
  status            text        not null default 'active',
  -- The chat in which it was first said. No foreign key: it is cleared when the chat is deleted.
  source_session_id uuid,
  -- Of unit length; null until it was asked for, and again when the content changes.
  embedding         throughline.embedding,
  embedding_model   text,
  tsv               tsvector    not null generated always as (
    to_tsvector('throughline.words'::regconfig, throughline.searchable(content))) stored,
  content_key       bytea       not null generated always as (throughline.content_key(content)) stored,
  -- The language of the content, as ISO 639-1 has it; null where unknown.
  lang              text,
  -- Since when and until when it is true; null where it was not said. The precision is that of both.
  valid_from        timestamptz,
  valid_to          timestamptz,
  valid_precision   text,
  -- Since when it is believed, and until when; null if it still is.
  recorded_at       timestamptz not null default now(),
  retracted_at      timestamptz,
  -- The memory that took its place; null if that is gone. No foreign key, which would delete this one with it.
  superseded_by     uuid,
  -- The memory that this one takes the place of once its user accepts it. Likewise.
  conflicts_with    uuid,
  -- When a reply last used it, and how often.
  last_accessed     timestamptz,
  access_count      int         not null default 0,
  origin            text        not null default 'extracted',
  -- The user changed the content.
  edited            boolean     not null default false,
  version           int         not null default 1,
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),
  -- The version whose entities and relationships the graph has; null for none.
  graph_version     int,
  -- The day for which it has faded last: however often the job runs, a day counts once.
  decayed_on        date,

  constraint memories_pkey primary key (id),
  -- For the policies, and for the foreign keys of what belongs to a memory: it is the same user's.
  constraint memories_user_id_id_key unique (user_id, id),
  constraint memories_user_id_fkey foreign key (user_id) references public.memory_users (user_id) on delete cascade,
  constraint memories_content_length check (char_length(content) between 1 and 500 and content ~ '\S'),
  constraint memories_memory_type_known check (memory_type in ('preference', 'fact', 'pattern', 'context')),
  constraint memories_confidence_range check (confidence between 0 and 1),
  constraint memories_status_known check (status in ('active', 'inbox', 'superseded', 'archived')),
  constraint memories_valid_precision_known check (valid_precision in ('day', 'month', 'year')),
  constraint memories_origin_known check (origin in ('extracted', 'user', 'assistant', 'import')),
  constraint memories_lang_length check (char_length(lang) between 2 and 35),
  constraint memories_counters check (access_count >= 0 and version >= 1),
  constraint memories_embedding_whole check ((embedding is null) = (embedding_model is null)),
  -- See chats_dates_storable.
  constraint memories_dates_storable check (
    least(created_at, updated_at, recorded_at, retracted_at, valid_from, valid_to, last_accessed) >= '0001-01-01 00:00Z'
    and greatest(created_at, updated_at, recorded_at, retracted_at, valid_from, valid_to, last_accessed) < '10000-01-01 00:00Z')
);

-- No memory twice.
create unique index memories_content_key_key on public.memories (user_id, content_key) where status in ('active', 'inbox');
-- For the deletion of a memory, which others may name.
create index memories_superseded_by_idx on public.memories (superseded_by) where superseded_by is not null;

-- For embed_memories and the sweep: the memories whose vector is missing or of another model.
create index memories_embedding_model_idx on public.memories (embedding_model, user_id) where status <> 'superseded';
-- For update_memory_graph: memories that the graph has not looked at.
create index memories_unlinked_idx on public.memories (user_id) where graph_version is null and status = 'active';
-- For the metrics.
create index memories_status_idx on public.memories (status);
-- For the lists and the export, page after page.
create index memories_created_at_idx on public.memories (user_id, created_at, id);
-- No full-text index: a user has hundreds of memories, at most ten thousand, which are found by the user.

-- Never elsewhere, and never compressed.
alter table public.memories alter column embedding set storage plain;

create table public.memory_sources (
  memory_id     uuid        not null,
  message_id    uuid        not null,
  user_id       uuid        not null,
  chat_id       uuid        not null,
  seq           bigint      not null,
  -- The fact made of this message alone: the memory falls back to it when the others are deleted. Null where it took
  -- other messages to say it.
  fact          text,
  -- The words of the message that it was made of.
  quote         text        not null default '',
  said_at       timestamptz not null,
  extraction_id uuid,

  constraint memory_sources_pkey primary key (memory_id, message_id),
  constraint memory_sources_memory_id_fkey foreign key (user_id, memory_id) references public.memories (user_id, id) on delete cascade,
  -- No foreign key to the message: its cascade would lock this row before memory_users, and who changes a memory locks it
  -- after. A trigger on messages deletes it at the end of the transaction.
  constraint memory_sources_fact_length check (char_length(fact) between 1 and 500),
  constraint memory_sources_quote_length check (char_length(quote) <= 200),
  constraint memory_sources_dates_storable check (said_at >= '0001-01-01 00:00Z' and said_at < '10000-01-01 00:00Z')
);

-- For the policies and the cascade from memories.
create index memory_sources_user_id_memory_id_idx on public.memory_sources (user_id, memory_id);
-- For the deletion or change of a message, and for what a message is remembered for.
create index memory_sources_message_id_idx on public.memory_sources (message_id);

create table public.memory_revisions (
  memory_id  uuid        not null,
  version    int         not null,
  user_id    uuid        not null,
  action     text        not null,
  -- Null once redacted: a deleted message may have had these words.
  content    text,
  reason     text,
  actor      text        not null,
  model      text,
  -- Name and version of the instructions.
  prompt_ref text,
  created_at timestamptz not null default now(),

  constraint memory_revisions_pkey primary key (memory_id, version),
  constraint memory_revisions_memory_id_fkey foreign key (memory_id) references public.memories (id) on delete cascade,
  constraint memory_revisions_action_known check (
    action in ('ADD', 'UPDATE', 'DELETE', 'NOOP', 'EDIT', 'MERGE', 'DECAY', 'ARCHIVE', 'RESTORE')),
  constraint memory_revisions_actor_known check (actor in ('model', 'user', 'decay', 'erasure'))
);

create index memory_revisions_user_id_idx on public.memory_revisions (user_id);

-- The ledger: each row is a range of messages that was read for memories, or skipped. The ranges of a chat follow one
-- after the other without a gap; conversation_briefs.extracted_seq is the end of the last.
create table public.memory_extractions (
  id            uuid        not null default gen_random_uuid(),
  chat_id       uuid        not null,
  user_id       uuid        not null,
  seq_from      bigint      not null,
  seq_to        bigint      not null,
  turns         int         not null default 0,
  -- skipped: not read, because it was cleared, said while memories were off, or could not be read.
  result        text        not null,
  candidates    int         not null default 0,
  added         int         not null default 0,
  updated       int         not null default 0,
  superseded    int         not null default 0,
  noops         int         not null default 0,
  -- What the gate dropped: numbers by reason.
  dropped       jsonb       not null default '{}',
  calls         int         not null default 0,
  input_tokens  int         not null default 0,
  output_tokens int         not null default 0,
  model         text        not null default '',
  prompt_ref    text        not null default '',
  duration_ms   int         not null default 0,
  created_at    timestamptz not null default now(),

  constraint memory_extractions_pkey primary key (id),
  -- No message is read twice.
  constraint memory_extractions_chat_id_seq_from_key unique (chat_id, seq_from),
  constraint memory_extractions_result_known check (result in ('done', 'empty', 'skipped')),
  constraint memory_extractions_range check (seq_from >= 1 and seq_to >= seq_from),
  constraint memory_extractions_dropped_is_object check (jsonb_typeof(dropped) = 'object')
);

create index memory_extractions_user_id_idx on public.memory_extractions (user_id);

-- The graph: what memories are about. Written by throughline.link_memory.
create table public.memory_entities (
  id          uuid        not null default gen_random_uuid(),
  user_id     uuid        not null,
  name        text        not null,
  name_key    text        not null generated always as (throughline.folded(name)) stored,
  entity_type text        not null default 'other',
  aliases     text[]      not null default '{}',
  -- The number of memories that mention it, maintained by the triggers on memory_mentions. At 0 the row is deleted.
  mentions    int         not null default 0,
  -- The user, who is named User.
  is_user     boolean     not null default false,
  created_at  timestamptz not null default now(),

  constraint memory_entities_pkey primary key (id),
  constraint memory_entities_user_id_id_key unique (user_id, id),
  constraint memory_entities_user_id_name_key_key unique (user_id, name_key),
  constraint memory_entities_user_id_fkey foreign key (user_id) references public.memory_users (user_id) on delete cascade,
  constraint memory_entities_name_length check (char_length(name) between 1 and 200 and name ~ '\S'),
  constraint memory_entities_entity_type_known check (
    entity_type in ('person', 'organization', 'place', 'project', 'product', 'tool', 'concept', 'condition', 'event', 'other')),
  constraint memory_entities_aliases_bounded check (array_position(aliases, null) is null and octet_length(aliases::text) <= 16000)
);

create table public.memory_relationships (
  id               uuid        not null default gen_random_uuid(),
  user_id          uuid        not null,
  source_entity_id uuid        not null,
  target_entity_id uuid        not null,
  relationship     text        not null,
  valid            boolean     not null generated always as (valid_to is null) stored,
  valid_from       timestamptz,
  valid_to         timestamptz,
  recorded_at      timestamptz not null default now(),
  -- The memory that says so.
  memory_id        uuid        not null,
  -- Other memories that say so as well.
  also_said_by     uuid[]      not null default '{}',

  constraint memory_relationships_pkey primary key (id),
  constraint memory_relationships_source_entity_id_fkey
    foreign key (user_id, source_entity_id) references public.memory_entities (user_id, id) on delete cascade,
  constraint memory_relationships_target_entity_id_fkey
    foreign key (user_id, target_entity_id) references public.memory_entities (user_id, id) on delete cascade,
  constraint memory_relationships_memory_id_fkey
    foreign key (user_id, memory_id) references public.memories (user_id, id) on delete cascade,
  -- snake_case, in any language.
  constraint memory_relationships_relationship_form check (
    char_length(relationship) between 1 and 40 and relationship !~ '[\sA-Z-]'),
  constraint memory_relationships_dates_storable check (
    least(recorded_at, valid_from, valid_to) >= '0001-01-01 00:00Z' and greatest(recorded_at, valid_from, valid_to) < '10000-01-01 00:00Z')
);

create index memory_relationships_source_idx on public.memory_relationships (user_id, source_entity_id);
create index memory_relationships_target_idx on public.memory_relationships (user_id, target_entity_id);
create index memory_relationships_memory_idx on public.memory_relationships (user_id, memory_id);
-- Each thing holds once at a time.
create unique index memory_relationships_open_key on public.memory_relationships (source_entity_id, relationship, target_entity_id)
  where valid_to is null;

create table public.memory_mentions (
  memory_id uuid not null,
  entity_id uuid not null,
  user_id   uuid not null,

  constraint memory_mentions_pkey primary key (memory_id, entity_id),
  constraint memory_mentions_memory_id_fkey foreign key (user_id, memory_id) references public.memories (user_id, id) on delete cascade,
  constraint memory_mentions_entity_id_fkey foreign key (user_id, entity_id) references public.memory_entities (user_id, id) on delete cascade
);

create index memory_mentions_memory_idx on public.memory_mentions (user_id, memory_id);
create index memory_mentions_entity_idx on public.memory_mentions (user_id, entity_id);

-- For jobs.
create view throughline.own_memory_users as select * from public.memory_users where user_id = (select throughline.uid()) with check option;
create view throughline.own_memories as select * from public.memories where user_id = (select throughline.uid()) with check option;
create view throughline.own_memory_sources as select * from public.memory_sources where user_id = (select throughline.uid()) with check option;
create view throughline.own_memory_revisions as select * from public.memory_revisions where user_id = (select throughline.uid()) with check option;
create view throughline.own_memory_extractions as select * from public.memory_extractions where user_id = (select throughline.uid()) with check option;
create view throughline.own_memory_entities as select * from public.memory_entities where user_id = (select throughline.uid()) with check option;
create view throughline.own_memory_relationships as select * from public.memory_relationships where user_id = (select throughline.uid()) with check option;
create view throughline.own_memory_mentions as select * from public.memory_mentions where user_id = (select throughline.uid()) with check option;

-- What a phone may read, without vectors and what only the server uses, and the settings that it may write.
call throughline.protect('public.memory_users',
  clients => 'select (user_id, enabled, version, time_zone, language, excluded, created_at, updated_at),
    insert (user_id, enabled, time_zone, language, excluded), update (enabled, time_zone, language, excluded)',
  server => 'select, insert, update',
  jobs => 'select, update');
call throughline.protect('public.memories',
  clients => 'select (id, user_id, content, memory_type, confidence, durable, pinned, status, source_session_id, lang,
    valid_from, valid_to, valid_precision, recorded_at, retracted_at, superseded_by, conflicts_with, last_accessed, access_count,
    origin, edited, version, created_at, updated_at)',
  server => 'select, insert, update, delete',
  jobs => 'select, insert, update', per_user => -0.01);
call throughline.protect('public.memory_sources',
  clients => 'select', server => 'select, insert, update, delete', jobs => 'select, insert', per_user => -0.01);
call throughline.protect('public.memory_revisions', server => 'select', jobs => 'select', per_user => -0.01);
call throughline.protect('public.memory_extractions', server => 'select', jobs => 'select, insert', per_user => -0.01);
call throughline.protect('public.memory_entities', clients => 'select', server => 'select, delete', jobs => 'select', per_user => -0.01);
call throughline.protect('public.memory_relationships', clients => 'select', server => 'select', jobs => 'select', per_user => -0.01);
call throughline.protect('public.memory_mentions', server => 'select', jobs => 'select', per_user => -0.01);

-- Locks the user's row, makes it where there is none, and raises its version: once per transaction, however often it is called.
-- Returns the version. For triggers and functions with their owner's rights, which have checked whose memories they change.
create function throughline.raise_memory_version(owner uuid) returns bigint
language plpgsql volatile security invoker set search_path = '' as $$
declare
  raised constant text := coalesce(current_setting('throughline.raised_memory_versions', true), '');
  now_at bigint;
begin
  if position(owner::text in raised) > 0 then
    return (select u.version from public.memory_users u where u.user_id = owner);
  end if;
  update public.memory_users u set version = u.version + 1, fades_at = least(u.fades_at, now()) where u.user_id = owner returning u.version into now_at;
  if not found then
    insert into public.memory_users as u (user_id, version) values (owner, 1)
    on conflict (user_id) do update set version = u.version + 1, fades_at = least(u.fades_at, now())
    returning u.version into now_at;
  end if;
  perform set_config('throughline.raised_memory_versions', concat_ws(' ', nullif(raised, ''), owner), true);
  return now_at;
end
$$;

-- The same for the user in the claims: every transaction that changes memories calls it before it touches one. The first
-- call of a transaction returns the version that the user's memories had before, plus 1. SECURITY DEFINER: a user's version grows by one, also where the row is
-- not there yet.
create function throughline.touch_memories(owner uuid) returns bigint
language plpgsql volatile security definer set search_path = '' as $$
begin
  if owner is distinct from throughline.uid() then
    raise insufficient_privilege using message = 'these are another user''s memories';
  end if;
  return throughline.raise_memory_version(owner);
end
$$;

-- Says what the following changes of memories are, until the next call or the end of the transaction; see
-- memory_revisions. Without it a change is an EDIT, a new memory an ADD, by the user.
create function throughline.note_change(action text, reason text, actor text, model text, prompt_ref text) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform set_config('throughline.change', json_build_object('action', action, 'reason', left(reason, 500),
    'actor', actor, 'model', model, 'prompt_ref', prompt_ref)::text, true);
end
$$;

-- A vector is that of the content it was computed from. Words that are gone from a memory are gone from the graph at once: what
-- another memory says as well stays. A merge by the model keeps all names, and links the memory again; for all others
-- update_memory_graph does. An edit and a restoration are uses: without this, what the user takes out of the archive would be
-- back there the next day. SECURITY DEFINER: who changes a memory has no right to the graph.
create function throughline.change_memory() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  actor constant text := nullif(current_setting('throughline.change', true), '')::jsonb ->> 'actor';
begin
  new.version := old.version + 1;
  new.updated_at := now();
  if new.content <> old.content then
    if new.embedding::text = old.embedding::text then
      new.embedding := null;
      new.embedding_model := null;
    end if;
    new.graph_version := null;
    if actor is distinct from 'model' then
      perform throughline.settle_relationships(new.id, new.user_id, new.id);
      delete from public.memory_relationships r where r.memory_id = new.id;
      delete from public.memory_mentions m where m.memory_id = new.id;
    end if;
  end if;
  if new.last_accessed is not distinct from old.last_accessed
     and (new.status = 'active' and old.status <> 'active' or new.content <> old.content and coalesce(actor, 'user') = 'user') then
    new.last_accessed := now();
  end if;
  return new;
end
$$;

-- Each update that names one of these columns is a version, also where it sets the same value: a memory that is said again
-- may be as certain as before.
create trigger memories_change
  before update of content, memory_type, confidence, durable, pinned, status, valid_from, valid_to, valid_precision, superseded_by
  on public.memories
  for each row execute function throughline.change_memory();

-- Who changed memories without raising the user's version has it done here. What a memory says is closed when it is
-- superseded, and open again when it comes back. SECURITY DEFINER: no other role writes revisions and the graph.
create function throughline.record_revision() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  change constant jsonb := nullif(current_setting('throughline.change', true), '');
begin
  perform throughline.raise_memory_version(new.user_id);
  insert into public.memory_revisions (memory_id, version, user_id, action, content, reason, actor, model, prompt_ref)
  values (new.id, new.version, new.user_id,
          coalesce(change ->> 'action', case tg_op when 'INSERT' then 'ADD' else 'EDIT' end), new.content,
          change ->> 'reason', coalesce(change ->> 'actor', 'user'), change ->> 'model', change ->> 'prompt_ref');
  if tg_op = 'UPDATE' and (old.status, old.valid_to) is distinct from (new.status, new.valid_to) then
    perform throughline.settle_relationships(new.id, new.user_id, null);
  end if;
  return null;
end
$$;

create trigger memories_record_insert after insert on public.memories for each row execute function throughline.record_revision();
create trigger memories_record_update after update on public.memories
  for each row when (old.version <> new.version) execute function throughline.record_revision();

-- A user has at most 10 000 memories, in any state (longterm.MaxMemories): searches read them all, and a file holds no more. Who
-- adds one holds the user's row, so no two take the last place. SECURITY DEFINER: a policy of the app's must not hide what counts.
create function throughline.bound_memories() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if exists (select from (select distinct n.user_id from new_memories n) u
              where (select count(*) from public.memories m where m.user_id = u.user_id) > 10000) then
    raise check_violation using message = 'the user has as many memories as there may be', schema = 'public', table = 'memories',
      constraint = 'memories_full';
  end if;
  return null;
end
$$;

create trigger memories_bound after insert on public.memories referencing new table as new_memories
  for each statement execute function throughline.bound_memories();

-- An entity goes with its last mention, and its relationships with it, so both ends of a relationship are mentioned by its
-- memory. SECURITY DEFINER: a memory is deleted by who has no right to the graph.
create function throughline.count_mentions() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    update public.memory_entities e set mentions = e.mentions + added.mentions
      from (select user_id, entity_id, count(*) as mentions from changed_mentions group by user_id, entity_id) added
     where e.user_id = added.user_id and e.id = added.entity_id;
    return null;
  end if;
  update public.memory_entities e set mentions = greatest(0, e.mentions - gone.mentions)
    from (select user_id, entity_id, count(*) as mentions from changed_mentions group by user_id, entity_id) gone
   where e.user_id = gone.user_id and e.id = gone.entity_id;
  delete from public.memory_entities e
   using (select distinct user_id, entity_id from changed_mentions) gone
   where e.user_id = gone.user_id and e.id = gone.entity_id
     and not exists (select from public.memory_mentions m where m.user_id = e.user_id and m.entity_id = e.id);
  return null;
end
$$;

create trigger memory_mentions_count after insert on public.memory_mentions
  referencing new table as changed_mentions
  for each statement execute function throughline.count_mentions();
create trigger memory_mentions_discount after delete on public.memory_mentions
  referencing old table as changed_mentions
  for each statement execute function throughline.count_mentions();
