-- The turns of each chat as recall finds them: by their words, by their neighbours, by their meaning.
--
-- Derived from messages and complete: conversation_briefs.indexed_seq says how far, and what the brief covers is
-- indexed in the commit that covers it. An edit or a deletion changes the rows in its own commit.

-- Words of several texts, one after the other.
create function throughline.joined(texts tsvector[]) returns tsvector
language plpgsql immutable security invoker set search_path = '' as $$
declare
  words tsvector := '';
  further tsvector;
begin
  foreach further in array texts loop
    words := words || further;
  end loop;
  return words;
end
$$;

create table public.turn_index (
  chat_id         uuid        not null,
  -- The first message of the turn. A turn is a message of the user with tokens and what follows up to the next one. A
  -- reply to anything but the question before it, which was deleted or is older, is a turn of its own.
  seq             bigint      not null,
  user_id         uuid        not null,
  -- The last message of the turn that is indexed.
  last_seq        bigint      not null,
  -- The first message whose words are in tsv: the user's message before the turn, or the turn's own first.
  words_from      bigint      not null,
  -- Counts the stretches of the chat that no gap of an hour interrupts. A deletion leaves the others' numbers alone.
  segment         int         not null,
  topic_id        uuid,
  -- When the turn's first message was written.
  said_at         timestamptz not null,
  -- The sum of token_count.
  tokens          int         not null,
  -- The turn's words with weight A, and those of the user's message before it with weight D. Two more lexemes, 'chat '
  -- and 'user ' with the id, let the index find the turns of one chat or user without reading those of others.
  tsv             tsvector    not null,
  -- The number of different words of the turn's own.
  lexemes         int         not null,
  -- Of unit length; null until embed_turns has asked for it, and again when the words change.
  embedding       throughline.embedding,
  embedding_model text,

  constraint turn_index_pkey primary key (chat_id, seq),
  constraint turn_index_chat_id_fkey foreign key (chat_id) references public.chats (id) on delete cascade,
  constraint turn_index_range check (words_from <= seq and seq <= last_seq),
  constraint turn_index_embedding_whole check ((embedding is null) = (embedding_model is null))
)
-- A row stays in one place up to a page, with its words and its vector, which would otherwise be looked up elsewhere for
-- each turn that a question matches. Of 20 000 turns with 190 words, 2 400 that match are ranked in 5.6 ms instead of
-- 11.1 ms. All vectors are compared in 24 ms instead of 14 ms, which few questions need.
with (toast_tuple_target = 8160);

-- Merged by the sweep; see messages_search_idx.
create index turn_index_tsv_idx on public.turn_index using gin (tsv) with (fastupdate = on, gin_pending_list_limit = 65536);
-- For embed_turns and the sweep: the turns whose vector is missing or of another model.
create index turn_index_embedding_model_idx on public.turn_index (embedding_model, chat_id);
-- No index on user_id: the policies only check rows that were found by their chat or their words.

-- Never elsewhere, and never compressed.
alter table public.turn_index alter column embedding set storage plain;

revoke all on public.turn_index from anon, authenticated;
grant select on public.turn_index to throughline_app;
grant all on public.turn_index to service_role;

alter table public.turn_index enable row level security;

create policy turn_index_server on public.turn_index for all to throughline_app
  using ((select auth.uid()) = user_id) with check ((select auth.uid()) = user_id);
create policy turn_index_confined on public.turn_index as restrictive for all to throughline_app
  using ((select auth.uid()) = user_id) with check ((select auth.uid()) = user_id);

create view throughline.own_turn_index as
select * from public.turn_index where user_id = (select auth.uid())
  with check option;
revoke all on throughline.own_turn_index from anon, authenticated;
grant select, update (embedding, embedding_model) on throughline.own_turn_index to throughline_worker;

-- Every message up to indexed_seq is in its turn's row. to_index: there may be words after it. It changes when somebody
-- begins to talk after a rest and when the sweep has indexed what was said, not with each turn, which stays heap-only.
alter table public.conversation_briefs
  add column indexed_seq bigint not null default 0,
  add column to_index boolean not null default true;

-- For the sweep.
create index conversation_briefs_to_index_idx on public.conversation_briefs (chat_id) where to_index;

-- With the new columns.
create or replace view throughline.own_briefs as
select * from public.conversation_briefs where user_id = (select auth.uid())
  with check option;

-- Words that are added are words to index: those of a message, and those of a reply that ends.
create function throughline.note_words() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.to_index := true;
  return new;
end
$$;

create trigger conversation_briefs_note_words before update of pending_tokens on public.conversation_briefs
  for each row when (new.pending_tokens > old.pending_tokens and not new.to_index)
  execute function throughline.note_words();

-- Writes the rows of the turns from one message to another, both included. The first is the first of a turn. Rows that
-- are right already are left as they are, with their vectors. The caller holds the lock of the brief, so that no
-- message of the range is edited meanwhile without being noticed.
--
-- A tsvector holds 1 MiB. So a turn has the words of 100 000 characters, 50 000 of each message, replies before what
-- tools returned; and those of 20 000 characters of the question before it. No text takes 8 bytes per character. words
-- repeats throughline.searchable, as messages_search_idx does and for the same reason.
create function throughline.write_turn_index(chat uuid, from_seq bigint, to_seq bigint) returns void
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off set enable_nestloop = on as $$
declare
  turn record;
  own tsvector;
  kept bigint[] := '{}';
  -- What came before the turn: the question, the last message, the segment.
  asked_seq bigint;
  asked_id uuid;
  asked_words tsvector;
  before timestamptz := (select m.created_at from public.messages m
    where m.chat_id = chat and m.seq < from_seq and m.token_count > 0 and m.role <> 'system' order by m.seq desc limit 1);
  number int := coalesce((select i.segment from public.turn_index i where i.chat_id = chat and i.seq <= from_seq order by i.seq desc limit 1), 0);
begin
  select m.seq, m.id, to_tsvector('throughline.words'::regconfig, throughline.searchable(left(m.content, 20000)))
    into asked_seq, asked_id, asked_words
    from public.messages m where m.chat_id = chat and m.seq < from_seq and m.role = 'user' and m.token_count > 0 order by m.seq desc limit 1;
  for turn in
    with said as (
      select m.seq, m.id, m.user_id, m.role, m.reply_to, m.created_at, m.token_count, m.content,
             to_tsvector('throughline.words'::regconfig, regexp_replace(left(m.content, 50000),
               '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])', E'\x01 \\1\x01 ', 'g')) as words,
             count(*) filter (where m.role = 'user') over (order by m.seq) as questions
        from public.messages m
       where m.chat_id = chat and m.seq between from_seq and to_seq and m.token_count > 0 and m.role <> 'system'),
    answering as (
      select s.*, coalesce(first_value(case when s.role = 'user' then s.id end) over (partition by s.questions order by s.seq), asked_id) as asked
        from said s),
    placed as (
      select a.*, count(*) filter (where a.role = 'user' or a.role = 'assistant' and a.reply_to is not null and a.reply_to is distinct from a.asked)
                    over (order by a.seq) as place
        from answering a),
    measured as (
      select p.*, sum(least(char_length(p.content), 50000)) over (partition by p.place order by p.role = 'tool', p.seq) as chars
        from placed p)
    select t.*, old.segment
      from (select min(m.seq) as seq, max(m.seq) as last_seq, (array_agg(m.user_id))[1] as user_id, sum(m.token_count)::int as tokens,
                   (array_agg(m.created_at order by m.seq))[1] as said_at, (array_agg(m.created_at order by m.seq desc))[1] as ended_at,
                   array_agg(m.words order by m.role = 'tool', m.seq) filter (where m.chars <= 100000) as words,
                   (array_agg(m.id) filter (where m.role = 'user'))[1] as question,
                   (array_agg(m.words) filter (where m.role = 'user'))[1] as question_words,
                   (array_agg(left(m.content, 20000)) filter (where m.role = 'user' and char_length(m.content) > 20000))[1] as long_question
              from measured m group by m.place) t
      left join lateral (
        select i.segment, i.last_seq from public.turn_index i where i.chat_id = chat and i.seq <= t.seq order by i.seq desc limit 1) old on old.last_seq >= t.seq
     order by t.seq
  loop
    own := throughline.joined(coalesce(turn.words, '{}'));
    number := coalesce(turn.segment, number + (coalesce(turn.said_at >= before + interval '1 hour', true))::int);
    insert into public.turn_index as i (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes)
    values (chat, turn.seq, turn.user_id, turn.last_seq, coalesce(asked_seq, turn.seq), number, turn.said_at, turn.tokens,
            array_to_tsvector(array['chat ' || chat, 'user ' || turn.user_id]) || setweight(own, 'A') || setweight(coalesce(asked_words, ''), 'D'), length(own))
    on conflict (chat_id, seq) do update
       set last_seq = excluded.last_seq, words_from = excluded.words_from, said_at = excluded.said_at, tokens = excluded.tokens,
           tsv = excluded.tsv, lexemes = excluded.lexemes, embedding = null, embedding_model = null
     where (i.last_seq, i.words_from, i.said_at, i.tokens, i.tsv) is distinct from (excluded.last_seq, excluded.words_from, excluded.said_at, excluded.tokens, excluded.tsv);
    kept := kept || turn.seq;
    before := turn.ended_at;
    if turn.question is not null then
      asked_seq := turn.seq;
      asked_words := case when turn.long_question is null then turn.question_words
                          else to_tsvector('throughline.words'::regconfig, throughline.searchable(turn.long_question)) end;
    end if;
  end loop;
  delete from public.turn_index i where i.chat_id = chat and i.seq between from_seq and to_seq and i.seq <> all (kept);
end
$$;

-- Indexes a chat up to a message; null for all. Stops before a running reply, and after 500 messages, where the next call
-- goes on. Returns whether it came further. It may run again, and beside others: they wait for the brief's lock.
create function throughline.index_chat(chat uuid, upto bigint) returns boolean
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off as $$
declare
  done bigint;
  goal bigint;
  first record;
  before record;
begin
  select b.indexed_seq, b.to_index into before from public.conversation_briefs b where b.chat_id = chat for update;
  if not found then
    return false;
  end if;
  done := before.indexed_seq;
  goal := least(upto,
    (select m.seq - 1 from public.messages m where m.chat_id = chat and m.status = 'streaming'),
    coalesce((select m.seq from public.messages m where m.chat_id = chat and m.seq > done order by m.seq offset 499 limit 1),
             (select c.last_seq from public.chats c where c.id = chat)));
  if goal > done then
    select m.seq, m.role into first from public.messages m
     where m.chat_id = chat and m.seq > done and m.seq <= goal and m.token_count > 0 and m.role <> 'system' order by m.seq limit 1;
    if found then
      -- What is no question may belong to the turn before it.
      perform throughline.write_turn_index(chat,
        case when first.role <> 'user' then coalesce((select i.seq from public.turn_index i where i.chat_id = chat and i.seq <= done order by i.seq desc limit 1), first.seq)
             else first.seq end, goal);
    end if;
    done := goal;
  end if;
  update public.conversation_briefs b
     set indexed_seq = done,
         to_index = exists (select from public.messages m where m.chat_id = chat and m.seq > done and (m.token_count > 0 or m.status = 'streaming'))
   where b.chat_id = chat;
  return (select (b.indexed_seq, b.to_index) is distinct from (before.indexed_seq, before.to_index) from public.conversation_briefs b where b.chat_id = chat);
end
$$;

-- index_chat for a job, of a chat of the user in the claims.
create function throughline.index_turns(chat uuid, upto bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  select throughline.index_chat(b.chat_id, upto) from public.conversation_briefs b where b.chat_id = chat and b.user_id = (select auth.uid())
$$;

-- Indexes chats in which nobody has spoken for that long, and what a brief covers though it is not indexed, at once; null
-- for the latter alone. At most so many chats, those that nobody else has locked, and returns how many. For the server
-- itself and for the migration.
create function throughline.index_rested(rest interval, most int) returns int
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off as $$
declare
  rested record;
  chats int := 0;
begin
  for rested in
    select b.chat_id, b.user_id from public.conversation_briefs b join public.chats c on c.id = b.chat_id
     where b.to_index
       and (b.indexed_seq < b.covered_seq
         or coalesce(c.last_message_at, c.created_at) < now() - rest
            and not exists (select from public.messages m where m.chat_id = b.chat_id and m.status = 'streaming'))
     limit most for key share of c skip locked for update of b skip locked
  loop
    -- As a job of the chat, so that triggers of the app's find its owner.
    perform set_config('request.jwt.claims', json_build_object('sub', rested.user_id, 'role', 'throughline_worker')::text, true),
            set_config('request.jwt.claim.sub', rested.user_id::text, true);
    chats := chats + throughline.index_chat(rested.chat_id, null)::int;
  end loop;
  return chats;
end
$$;

-- Indexes what is not yet of a chat of the user in the claims, or of the latest twenty that have something left. For who
-- searches: the sweep waits until nobody is talking. For one chat this waits for a fold that commits at this moment.
create function throughline.index_rest(in_chat uuid) returns void
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off as $$
declare
  asking constant uuid := (select auth.uid());
  behind record;
begin
  perform from public.conversation_briefs b where b.chat_id = in_chat and b.user_id = asking and b.to_index for update;
  for behind in
    select b.chat_id from public.conversation_briefs b
     where b.user_id = asking and b.to_index and (in_chat is null or b.chat_id = in_chat)
     order by b.updated_at desc limit 20 for update skip locked
  loop
    for piece in 1 .. 10 loop -- of 500 messages; an import may have more, and is indexed by its jobs
      exit when not throughline.index_chat(behind.chat_id, null);
    end loop;
  end loop;
end
$$;

-- Indexes anew what an edit or a deletion changed, in its commit: the turns that held the words, the one before, which
-- may have got what is left, and those after whose tsv holds the words of the user's message before them. What is not
-- indexed yet needs nothing, and a running reply is not. The brief's lock decides between this and who indexes.
create function throughline.index_changes(chat uuid, first bigint, last bigint) returns void
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off as $$
declare
  done bigint;
begin
  select b.indexed_seq into done from public.conversation_briefs b where b.chat_id = chat for update;
  if first <= done then
    perform throughline.write_turn_index(chat,
      coalesce((select i.seq from public.turn_index i where i.chat_id = chat and i.seq < first order by i.seq desc limit 1), 1),
      coalesce((select i.seq - 1 from public.turn_index i where i.chat_id = chat and i.seq > last and i.words_from > last order by i.seq limit 1), done));
  end if;
end
$$;

create function throughline.index_updated_messages() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off set enable_nestloop = off as $$
begin
  if not exists (select from old_messages where status <> 'streaming') then
    return null;
  end if;
  perform throughline.index_changes(changed.chat_id, changed.first, changed.last)
     from (select n.chat_id, min(n.seq) as first, max(n.seq) as last
             from old_messages o join new_messages n using (id)
            where o.status <> 'streaming' and (o.token_count > 0 or n.token_count > 0)
              and (o.content, o.role, o.token_count, o.reply_to, o.created_at)
                  is distinct from (n.content, n.role, n.token_count, n.reply_to, n.created_at)
            group by n.chat_id order by n.chat_id) changed;
  return null;
end
$$;

-- After messages_count_updated by its name, which takes the locks of the chats and briefs.
create trigger messages_index_updated after update on public.messages
  referencing old table as old_messages new table as new_messages
  for each statement execute function throughline.index_updated_messages();

create function throughline.index_deleted_messages() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off as $$
begin
  perform throughline.index_changes(gone.chat_id, gone.first, gone.last)
     from (select chat_id, min(seq) as first, max(seq) as last from old_messages where token_count > 0 group by chat_id order by chat_id) gone;
  return null;
end
$$;

create trigger messages_index_deleted after delete on public.messages
  referencing old table as old_messages
  for each statement execute function throughline.index_deleted_messages();

-- Merges the waiting entries of both full-text indexes and returns the number of pages.
create or replace function throughline.merge_search_entries() returns bigint
language sql volatile security definer set search_path = '' as $$
  select pg_catalog.gin_clean_pending_list('public.messages_search_idx') + pg_catalog.gin_clean_pending_list('public.turn_index_tsv_idx')
$$;

revoke all on function throughline.joined(tsvector[]), throughline.note_words(), throughline.write_turn_index(uuid, bigint, bigint),
  throughline.index_chat(uuid, bigint), throughline.index_turns(uuid, bigint), throughline.index_rested(interval, int), throughline.index_rest(uuid),
  throughline.index_changes(uuid, bigint, bigint), throughline.index_updated_messages(),
  throughline.index_deleted_messages() from public, anon, authenticated;
grant execute on function throughline.index_turns(uuid, bigint) to throughline_worker;
grant execute on function throughline.index_rest(uuid) to throughline_app;

------------------------------------------------------------------------------------------------

create view inspect.unindexed with (security_invoker = true) as
select b.chat_id, b.user_id, c.title, due.reason,
       missing.turns as unindexed_turns, missing.messages as unindexed_messages, missing.oldest_at, now() - missing.oldest_at as oldest_age,
       b.indexed_seq, b.covered_seq, c.last_seq, b.memory_strategy,
       job.id as job_id, job.state as job_state, job.attempt as job_attempt, job.last_error as job_last_error
  from public.conversation_briefs b
  join public.chats c on c.id = b.chat_id
 cross join lateral (
   select count(*) as messages, count(*) filter (where m.role = 'user') as turns, min(m.created_at) as oldest_at, min(m.seq) as first_seq
     from public.messages m
    where m.chat_id = b.chat_id and m.token_count > 0 and m.role <> 'system'
      and (m.seq > b.indexed_seq
        or m.role = 'user' and not exists (select from public.turn_index i where i.chat_id = m.chat_id and i.seq = m.seq))) missing
  left join lateral (
   select j.id, j.state::text as state, j.attempt::int as attempt, j.errors[array_upper(j.errors, 1)] ->> 'error' as last_error
     from river.river_job j
    where j.kind = 'index_turns' and j.args @> jsonb_build_object('chat_id', b.chat_id) and j.finalized_at is null
    order by j.id desc limit 1) job on true
 cross join lateral (
   select case
     when missing.first_seq <= b.indexed_seq then 'its rows were deleted: sql/operate/index_again.sql'
     when missing.first_seq <= b.covered_seq then 'its brief covers them: the next sweep indexes them, unless RECALL is off'
     when job.id is not null then 'its job is ' || job.state
     when b.memory_strategy = 'simple' and missing.turns >= 4 then 'four turns and no job: the sweep indexes them after a minute without a message'
     when coalesce(c.last_message_at, c.created_at) < now() - interval '1 minute'
          and not exists (select from public.messages m where m.chat_id = b.chat_id and m.status = 'streaming')
       then 'nobody has spoken for a minute: the next sweep indexes them, unless RECALL is off' end as reason) due
 where missing.messages > 0 and due.reason is not null;

comment on view inspect.unindexed is
  'Each chat with turns that recall should find and cannot, and why. Empty when workers have nothing to do; turns of a chat in which somebody '
  'is talking are in the prompt and wait.';

revoke all on inspect.unindexed from public, anon, authenticated;
grant select on inspect.unindexed to service_role;
