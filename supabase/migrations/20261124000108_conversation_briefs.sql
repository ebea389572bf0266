-- The memory of each chat, every change to it, and the progress of a change that takes several model calls.

-- See throughline.chat_is_valid.
create function throughline.brief_is_valid(
  brief jsonb, readable boolean, pending_tokens int, pending_turns int, covered_seq bigint, imported_topics jsonb)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
declare
  broken constant text := case
    when not (brief ?& array['global_summary', 'last_summarized_message_id']
      and brief - array['global_summary', 'last_summarized_message_id'] = '{}') then 'conversation_briefs_two_keys'
    when not readable then 'conversation_briefs_readable'
    when pending_tokens < 0 or pending_turns < 0 or covered_seq < 0 then 'conversation_briefs_counters'
    when jsonb_typeof(imported_topics) <> 'array' then 'conversation_briefs_imported_topics_is_array'
  end;
begin
  if broken is not null then
    raise check_violation using
      message = format('new row for relation "conversation_briefs" violates check constraint "%s"', broken),
      schema = 'public', table = 'conversation_briefs', constraint = broken;
  end if;
  return true;
end
$$;

create table public.conversation_briefs (
  chat_id           uuid        not null,
  user_id           uuid        not null,
  brief             jsonb       not null default '{"global_summary": "", "last_summarized_message_id": null}',
  -- Tokens of global_summary, counted when it was written.
  brief_tokens      int         not null default 0,
  -- 0 until the first fold, then one more with every change.
  version           bigint      not null default 0,
  -- The summary holds every message up to this seq.
  covered_seq       bigint      not null default 0,
  -- The chunk buffer, maintained by the triggers on messages: token_count and turns after covered_seq.
  pending_tokens    int         not null default 0,
  pending_turns     int         not null default 0,
  -- Always false, for who reads it: words that are gone are in no brief.
  stale             boolean     not null default false,
  -- Incremented when a message loses its words or gets them back: an edit, a deletion, another version. A fold planned before is discarded.
  edit_count        bigint      not null default 0,
  -- The counters with which a fold last found nothing to do: while they are the same, none is inserted again.
  settled_tokens    int,
  settled_turns     int,
  updated_at        timestamptz not null default now(),
  -- Where the context was last cleared. Messages up to this seq stay stored, but are in no prompt and no summary.
  cleared_seq       bigint      not null default 0,
  -- User messages up to cleared_seq; the memory covers the rest of chats.turn_count.
  cleared_turns     bigint      not null default 0,
  -- Whether brief has the expected form. It always does unless the constraint below was dropped by hand; then
  -- replies are made without the brief, and the sweep takes it back to the last one that was recorded.
  readable          boolean     not null default true,
  -- The chat's settings, copied by a trigger, so that the two columns below can tell which chats a fold may be
  -- due in. Idle chats are many: the sweep must not read one that is not due.
  memory_strategy   text        not null default 'summary',
  max_turns         int,
  -- The size by which a fold can be due; null where none can be: in simple chats, and before the second turn. It
  -- changes rarely, so most updates of pending_tokens stay heap-only.
  thousands_to_fold int,
  over_max_turns    boolean     not null default false,
  -- Every message up to indexed_seq is in its turn's row of turn_index. to_index: there may be words after it. It changes when
  -- somebody begins to talk after a rest and when the sweep has indexed the last turns, not with each turn, which stays heap-only.
  indexed_seq       bigint      not null default 0,
  to_index          boolean     not null default true,
  -- Every message up to extracted_seq was read for memories or skipped. extract_due_at: from when on the rest may be read
  -- before the chat comes to rest; -infinity for at once, null where nothing is due.
  extracted_seq     bigint      not null default 0,
  extract_due_at    timestamptz,
  -- Every turn up to assigned_seq, after the last clear, has its topic. Chats without topics stay at 0.
  assigned_seq      bigint      not null default 0,
  -- Topics of an imported chat, as its file had them, until its turns are indexed and have their topics: [{"topic_id",
  -- "title", "tags", "importance", "rated", "turns"}]. turns are the seqs that they begin at. topic_id is null until the
  -- first of them has made the topic; title and tags are what a person chose, and are only here until then. Null where
  -- there is nothing to do.
  imported_topics   jsonb,
  -- The chat's setting, copied by a trigger.
  topics            text        not null default 'auto',
  -- The model of the vectors that turns got whose topic was chosen without one: it is to be chosen again. Null: there are none.
  choose_model      text,
  -- Topics changed since they were last compared with each other.
  compare_topics    boolean     not null default false,
  -- When topics of the chat may have faded; null where it had no more than it may have when it was last looked at.
  topics_fade_at    timestamptz,

  constraint conversation_briefs_pkey primary key (chat_id),
  constraint conversation_briefs_valid check (throughline.brief_is_valid(
    brief, readable, pending_tokens, pending_turns, covered_seq, imported_topics))
)
-- For heap-only updates, as for chats.
with (fillfactor = 70);

create index conversation_briefs_user_id_idx on public.conversation_briefs (user_id);
-- For the sweep: long buffers, turn limits, unreadable briefs, words to index.
create index conversation_briefs_thousands_to_fold_idx on public.conversation_briefs (thousands_to_fold) where thousands_to_fold is not null;
create index conversation_briefs_over_max_turns_idx on public.conversation_briefs (chat_id) where over_max_turns;
create index conversation_briefs_unreadable_idx on public.conversation_briefs (chat_id) where not readable;
create index conversation_briefs_to_index_idx on public.conversation_briefs (chat_id) where to_index;
-- For the sweep, and for the due chats of a user who begins a new chat.
create index conversation_briefs_extract_due_at_idx on public.conversation_briefs (extract_due_at) where extract_due_at is not null;
create index conversation_briefs_to_extract_idx on public.conversation_briefs (user_id) where extract_due_at is not null;
create index conversation_briefs_to_assign_idx on public.conversation_briefs
  ((case when covered_seq > 0 or topics = 'on' then 'auto' else 'on' end), chat_id) where assigned_seq < indexed_seq and topics <> 'off';
create index conversation_briefs_choose_model_idx on public.conversation_briefs (choose_model, chat_id)
  where choose_model is not null and topics <> 'off';
-- For the hourly jobs.
create index conversation_briefs_compare_topics_idx on public.conversation_briefs (chat_id) where compare_topics and topics <> 'off';
create index conversation_briefs_topics_fade_at_idx on public.conversation_briefs (topics_fade_at, chat_id)
  where topics_fade_at is not null and topics <> 'off';

create table public.conversation_brief_revisions (
  chat_id        uuid        not null,
  user_id        uuid        not null,
  version        bigint      not null,
  kind           text        not null,
  -- The messages that this change added to the summary, by seq, both ends included.
  seq_from       bigint      not null,
  seq_to         bigint      not null,
  turns          int         not null,
  -- Null once words of it were taken back.
  global_summary text,
  -- The version of the rollback that took this change back.
  undone_by      bigint,
  input_tokens   int         not null,
  output_tokens  int         not null,
  prompt_mode    text        not null,
  -- "id@version" of the hosted prompt, or the name and version of the built-in instructions.
  prompt_ref     text        not null,
  model          text        not null,
  duration_ms    int         not null,
  -- Hex, of the input string as it was sent; of the last one if the change took several calls.
  input_sha256   text        not null,
  -- Tokens of the summary before and after, the number of calls, refused summaries.
  details        jsonb       not null default '{}',
  created_at     timestamptz not null default now(),

  constraint conversation_brief_revisions_pkey primary key (chat_id, version),
  constraint conversation_brief_revisions_kind_known check (kind in ('fold', 'rollback', 'clear')),
  constraint conversation_brief_revisions_dates_storable check (
    created_at >= '0001-01-01 00:00Z' and created_at < '10000-01-01 00:00Z'),
  constraint conversation_brief_revisions_prompt_mode_known check (prompt_mode in ('hosted', 'inline', 'none')),
  -- The range may be empty for a clear, when the brief covered everything. That of a rollback is.
  constraint conversation_brief_revisions_range check (
    seq_from >= 1 and seq_to >= seq_from - (kind <> 'fold')::int)
);

create index conversation_brief_revisions_user_id_idx on public.conversation_brief_revisions (user_id);
-- No message is folded twice: two folds that begin at the same seq cannot both stand.
create unique index conversation_brief_revisions_fold_once_key on public.conversation_brief_revisions (chat_id, seq_from)
  where kind = 'fold' and undone_by is null;

-- How far a fold of several pieces has come, so that any worker can go on there. The row is deleted with every
-- change of the brief and whenever a message loses its words or gets them back, so it never outlives what it was made from.
create table public.conversation_brief_drafts (
  chat_id        uuid        not null,
  user_id        uuid        not null,
  -- Hex, of everything that the change reads: only a change that is planned alike goes on from here.
  plan_sha256    text        not null,
  pieces_done    int         not null,
  pieces         int         not null,
  -- The summary of the pieces so far, and its tokens.
  global_summary text        not null,
  tokens         int         not null,
  -- What the calls so far cost.
  stats          jsonb       not null,
  duration_ms    int         not null,
  updated_at     timestamptz not null default now(),

  constraint conversation_brief_drafts_pkey primary key (chat_id),
  constraint conversation_brief_drafts_unfinished check (pieces_done between 1 and pieces - 1)
);

create index conversation_brief_drafts_user_id_idx on public.conversation_brief_drafts (user_id);

create view throughline.own_briefs as select * from public.conversation_briefs where user_id = (select throughline.uid()) with check option;
create view throughline.own_brief_revisions as select * from public.conversation_brief_revisions where user_id = (select throughline.uid()) with check option;
create view throughline.own_brief_drafts as select * from public.conversation_brief_drafts where user_id = (select throughline.uid()) with check option;

call throughline.protect('public.conversation_briefs', server => 'select, update', jobs => 'select, update', per_user => -0.05);
call throughline.protect('public.conversation_brief_revisions',
  server => 'select, insert', jobs => 'select, insert', per_user => -0.01);
call throughline.protect('public.conversation_brief_drafts', server => 'select', jobs => 'select, insert, update');

-- Which brief is readable, and what a fold or the index is due for. Not generated columns: Postgres reads the text of all
-- generated expressions again with each statement that updates the table, and computes them all when there is a trigger: that
-- took a third of a counter's update, of which each turn has two. A fold that had nothing to do is not due until the counters
-- change: the chat is in neither index of the sweep.
--
-- edit_count grows with every edit of a message, version with everything else that changes a brief. Then all that was
-- learnt about the old state is void: failures, and the progress of a running change. SECURITY DEFINER: who edits or deletes a
-- message has no right to drafts.
create function throughline.keep_brief() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  settled boolean;
begin
  if tg_op = 'UPDATE' then
    if new.version <> old.version or new.edit_count <> old.edit_count then
      perform throughline.retry_work('fold', new.chat_id);
      new.settled_tokens := null;
      new.settled_turns := null;
      delete from public.conversation_brief_drafts d where d.chat_id = new.chat_id;
    end if;
    -- Words that are added are words to index: those of a message, and those of a reply that ends.
    new.to_index := new.to_index or new.pending_tokens > old.pending_tokens;
    -- An edit may give words to a message beyond the index and take as many from another.
    if new.edit_count > old.edit_count and not new.to_index then
      new.to_index := exists (select from public.messages m where m.chat_id = new.chat_id and m.seq > new.indexed_seq and m.token_count > 0);
    end if;
    new.updated_at := now();
  end if;
  if tg_op = 'INSERT' or new.brief is distinct from old.brief then
    new.readable := coalesce(jsonb_typeof(new.brief -> 'global_summary') = 'string'
      and (jsonb_typeof(new.brief -> 'last_summarized_message_id') = 'null'
        or new.brief ->> 'last_summarized_message_id' ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'), false);
  end if;
  settled := new.settled_tokens = new.pending_tokens and new.settled_turns = new.pending_turns;
  new.thousands_to_fold := case when new.memory_strategy <> 'simple' and new.pending_turns > 1 and settled is not true
                                then (new.brief_tokens + new.pending_tokens) / 1000 end;
  new.over_max_turns := new.memory_strategy <> 'simple' and settled is not true and coalesce(new.pending_turns > new.max_turns, false);
  return new;
end
$$;
create trigger conversation_briefs_keep before insert or update on public.conversation_briefs for each row execute function throughline.keep_brief();
-- As a generated column is, also where other triggers are off.
alter table public.conversation_briefs enable always trigger conversation_briefs_keep;

-- Every chat has a brief from the start. SECURITY DEFINER: a phone may insert a chat, but has no right to briefs.
create function throughline.start_brief() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into public.conversation_briefs (chat_id, user_id, memory_strategy, max_turns, topics)
  values (new.id, new.user_id, new.memory_strategy, new.max_turns, new.topics);
  return null;
end
$$;

create trigger chats_start_brief after insert on public.chats for each row execute function throughline.start_brief();

-- A deleted chat takes its brief, and then all that is written under the brief's lock, with it. Not foreign keys: Postgres checks
-- one again when a transaction updates a row for the second time, and then waits for whoever deletes the chat, who waits for that
-- transaction. The brief comes first: who holds its lock is waited for, and after it nothing is written. SECURITY DEFINER: the
-- auth server deletes accounts, and phones chats.
create function throughline.forget_chats() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  gone constant uuid[] := array(select id from old_chats);
begin
  delete from public.conversation_briefs where chat_id = any (gone);
  delete from public.conversation_brief_revisions where chat_id = any (gone);
  delete from public.conversation_brief_drafts where chat_id = any (gone);
  delete from public.turn_index where chat_id = any (gone);
  delete from public.topics where chat_id = any (gone);
  delete from public.memory_extractions where chat_id = any (gone);
  return null;
end
$$;

create trigger chats_forget after delete on public.chats referencing old table as old_chats
  for each statement execute function throughline.forget_chats();

-- Takes the brief of a chat back to the last change that stands and ends before a message: what the summary says of it and all after
-- it is gone, here and in the revisions, and those messages are to be folded again. No model is needed: a fold reads the summary before
-- it and whole turns up to its end, nothing later, and each later change of these comes through here. A clear is such a change as
-- well, with an empty summary; without any the summary is empty. The caller holds the lock of the brief.
create function throughline.roll_back_brief(chat uuid, before_seq bigint) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  b record;
  kept record;
  rest record;
begin
  -- A version that was set by hand is no reason to refuse a deletion.
  select c.user_id, 1 + greatest(c.version, (select max(r.version) from public.conversation_brief_revisions r where r.chat_id = chat)) as version,
         c.covered_seq, c.cleared_seq into b
    from public.conversation_briefs c where c.chat_id = chat;
  select coalesce(max(r.version), 0) as version, coalesce(max(r.seq_to), b.cleared_seq) as seq_to, coalesce(max(r.global_summary), '') as summary,
         coalesce(max(r.tokens), 0) as tokens into kept
    from (select s.version, s.seq_to, s.global_summary, case when jsonb_typeof(s.details -> 'tokens_after') = 'number'
             then least(greatest((s.details ->> 'tokens_after')::numeric, 0), 2000000000)::int else octet_length(s.global_summary) / 4 end as tokens
            from public.conversation_brief_revisions s
           where s.chat_id = chat and s.global_summary is not null and s.seq_to < before_seq
           order by s.version desc limit 1) r;
  select least(coalesce(sum(m.token_count), 0), 2000000000)::int as tokens, (count(*) filter (where m.role = 'user' and m.token_count > 0))::int as turns,
         (count(*) filter (where m.role = 'user' and m.token_count > 0 and m.seq <= b.covered_seq))::int as given_back into rest
    from public.messages m where m.chat_id = chat and m.seq > kept.seq_to;
  update public.conversation_briefs c
     set brief = jsonb_build_object('global_summary', kept.summary, 'last_summarized_message_id', (
           select m.id from public.messages m
            where m.chat_id = chat and m.seq > b.cleared_seq and m.seq <= kept.seq_to and m.role in ('user', 'assistant') and m.token_count > 0
            order by m.seq desc limit 1)),
         brief_tokens = kept.tokens, version = b.version, covered_seq = kept.seq_to, pending_tokens = rest.tokens, pending_turns = rest.turns
   where c.chat_id = chat;
  update public.conversation_brief_revisions r set undone_by = b.version, global_summary = null
   where r.chat_id = chat and r.version > kept.version and r.undone_by is null;
  insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary,
         input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
  values (chat, b.user_id, b.version, 'rollback', kept.seq_to + 1, kept.seq_to, rest.given_back, kept.summary,
          0, 0, 'none', 'none', '', 0, '', jsonb_build_object('tokens_after', kept.tokens));
end
$$;

-- What becomes of summaries when messages of a chat lose their words or get them back. seqs: theirs. The brief ends before the first of
-- those after the last clear; summaries from before the clear lose their text. A chat that is being deleted takes them all along. The
-- caller holds the lock of the brief.
create function throughline.forget_summaries(chat uuid, seqs bigint[]) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if not exists (select from public.chats c where c.id = chat) then
    return;
  end if;
  update public.conversation_brief_revisions r set global_summary = null
   where r.chat_id = chat and r.seq_to >= (select min(s.seq) from unnest(seqs) s (seq)) and r.global_summary <> ''
     and r.version < (select max(c.version) from public.conversation_brief_revisions c where c.chat_id = chat and c.kind = 'clear');
  perform throughline.roll_back_brief(chat, changed.seq)
     from (select min(s.seq) as seq from public.conversation_briefs b join unnest(seqs) s (seq) on s.seq > b.cleared_seq and s.seq <= b.covered_seq
            where b.chat_id = chat) changed
    where changed.seq is not null;
end
$$;

-- The same at the wish of the user in the claims, and what becomes of the chat's title. SECURITY DEFINER: a user has no right to change
-- revisions. The caller holds the lock of the chat.
create function throughline.roll_back(chat uuid, seqs bigint[]) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform from public.conversation_briefs b where b.chat_id = chat and b.user_id = (select throughline.uid()) for update;
  if found then
    perform throughline.recount_chat(chat, 0, 0, null, null, renewed.title)
       from throughline.renewed_title(chat, (select min(s.seq) from unnest(seqs) s (seq)), null) renewed (title) where renewed.title is not null;
    perform throughline.forget_summaries(chat, seqs);
  end if;
end
$$;

-- Whether a fold is due: memory.Due with memory.Limits.For in SQL; a test compares the two. In PL/pgSQL,
-- because a fixed search path prevents inlining and each call in SQL would take three times as long.
create function throughline.fold_is_due(
  brief_tokens int, pending_tokens bigint, pending_turns bigint, memory_strategy text, max_turns int,
  chunk_summarize_threshold int, k_raw_turns int, bridge_token_budget int, min_tail_turns int, prompt_token_budget int,
  from_tool boolean, history_tokens int)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
declare
  -- The history's part of the window is a tool's, but for kept messages.
  thread constant boolean := from_tool and bridge_token_budget > 0 and history_tokens > 0;
  bridge constant int := case when thread then greatest(bridge_token_budget, history_tokens - prompt_token_budget - prompt_token_budget / 3)
                              else bridge_token_budget end;
  threshold constant int := case when thread then greatest(chunk_summarize_threshold, bridge) else chunk_summarize_threshold end;
  -- A third of a hybrid chat's prompt budget is for kept messages.
  shown constant int := prompt_token_budget - case when memory_strategy = 'hybrid' then prompt_token_budget / 3 else 0 end + bridge;
  older constant bigint := pending_turns - least(k_raw_turns, max_turns);
begin
  return memory_strategy <> 'simple' and (
    coalesce(pending_turns > max_turns, false)
    or brief_tokens + pending_tokens > threshold
       and (older > 0 and (bridge = 0 or pending_tokens * older >= pending_turns * (threshold / 2))
         or pending_turns > greatest(1, min_tail_turns) and bridge > 0
           and brief_tokens + pending_tokens + pending_tokens / greatest(1, pending_turns) > shown));
end
$$;

-- The seq before the first message that a prompt may show of a buffer that begins after a seq: the newest turns of more than so many
-- tokens, and at least so many turns. A reply is not parted from its message. The running turn, named by but, is not counted. For
-- buffers that may not fit a prompt: others are read whole.
create function throughline.shown_after(chat uuid, begins_after bigint, tokens int, turns int, but uuid[]) returns bigint
language plpgsql stable security invoker set search_path = '' as $$
declare
  message record;
begin
  for message in
    select m.seq, m.role, m.token_count from public.messages m where m.chat_id = chat and m.seq > begins_after and m.superseded_by is null and m.id <> all (but)
     order by m.seq desc
  loop
    tokens := tokens - message.token_count;
    if message.role = 'user' and message.token_count > 0 then
      turns := turns - 1;
      if tokens < 0 and turns <= 0 then
        return message.seq - 1;
      end if;
    end if;
  end loop;
  return begins_after;
end
$$;
