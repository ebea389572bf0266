-- The turns of each chat as recall finds them: by their words, by their neighbours, by their meaning.
--
-- Derived from messages and complete: conversation_briefs.indexed_seq says how far, and what the brief covers is
-- indexed in the commit that covers it. An edit or a deletion changes the rows in its own commit.

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
  -- No foreign key: who deletes a topic has given its turns away.
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
  signs           bit(512)    generated always as (throughline.signs_of(embedding)) stored,
  -- The embedding model by whose vectors the turn's topic was chosen. Null: it was chosen without a vector, so a job chooses again
  -- once there is one. '': never again.
  topic_model     text,
  -- A turn of an archived topic, which has no vector and gets none.
  resting         boolean     not null default false,
  -- The message with weight B, 0 where there is none. Null: the first message has not weight A, or not all places of the
  -- second's words found room: a tsvector keeps 255 of a word.
  second_seq      bigint,

  constraint turn_index_pkey primary key (chat_id, seq),
  constraint turn_index_range check (words_from <= seq and seq <= last_seq),
  constraint turn_index_embedding_whole check ((embedding is null) = (embedding_model is null))
)
-- A row stays in one place up to a page, with its words and its vector, which would otherwise be looked up elsewhere for
-- each turn that a question matches. Of 20 000 turns with 190 words, 2 400 that match are ranked in 5.6 ms instead of
-- 11.1 ms. Questions compare the signs of all vectors, which stand in an index, and read the vectors of the nearest.
with (toast_tuple_target = 8160);

-- New entries wait in a list, which searches read as well. By default the commit that fills the list to 4 MB has to merge it
-- into the index. This limit, in kB, is never reached, because the sweep merges the list every few seconds.
create index turn_index_tsv_idx on public.turn_index using gin (tsv) with (fastupdate = on, gin_pending_list_limit = 65536);
-- For the sweep: the turns whose vector is of another model. And for recall, which finds the turns near a vector, and the ones
-- beside them, here alone where the pages are all visible: 20 000 turns in 3 MB.
create index turn_index_embedding_model_idx on public.turn_index (embedding_model, chat_id, seq) include (words_from, last_seq, signs)
  where embedding_model is not null;
create index turn_index_to_embed_idx on public.turn_index (chat_id) where embedding_model is null and not resting;
-- For the messages of a topic, in the order of the conversation.
create index turn_index_topic_idx on public.turn_index (topic_id, seq) include (last_seq) where topic_id is not null;
-- Turns whose topic is to be chosen again, because they have a vector now.
create index turn_index_to_choose_idx on public.turn_index (chat_id, seq)
  where topic_id is not null and topic_model is null and embedding_model is not null;
-- No index on user_id: the policies only check rows that were found by their chat or their words.

-- Never elsewhere, and never compressed.
alter table public.turn_index alter column embedding set storage plain, alter column signs set storage plain;

create view throughline.own_turn_index as select * from public.turn_index where user_id = (select throughline.uid()) with check option;

call throughline.protect('public.turn_index',
  server => 'select',
  jobs => 'select, update (embedding, embedding_model, topic_id, topic_model, resting)');

-- Writes the rows of the turns from one message to another, both included. The first is the first of a turn. Rows that
-- are right already are left as they are, with their vectors. The caller holds the lock of the brief, so that no
-- message of the range is edited meanwhile without being noticed.
--
-- A tsvector holds 1 MiB. So a turn has the words and their positions of 100 000 characters, 50 000 of each message, replies
-- before what tools returned; those of 20 000 characters of the question before it; and of the rest the words alone, if there
-- is room: where some are left out there is one more lexeme, 'cut short', which no text can make, and the turn may hold any
-- word. No text takes 8 bytes per character. words repeats throughline.searchable, because calling a function with a
-- search path of its own would take most of the time, and leaves it out for a text of ASCII alone.
--
-- A turn's first message has weight A, its second B, where what tools returned comes last; all others C. The words of the
-- user's message before the turn keep weight D.
--
-- A turn that appears among older ones has no topic yet, so assigned_seq goes back to it.
create function throughline.write_turn_index(chat uuid, from_seq bigint, to_seq bigint) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off set enable_nestloop = on as $$
declare
  turn record;
  own tsvector;
  tsv tsvector;
  words tsvector;
  first_new bigint;
  kept bigint[] := '{}';
  had constant bigint[] := array(select i.seq from public.turn_index i where i.chat_id = chat and i.seq between from_seq and to_seq);
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
             to_tsvector('throughline.words'::regconfig, case when octet_length(m.content) = char_length(m.content) then left(m.content, 50000)
               else regexp_replace(left(m.content, 50000),
               '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])', E'\x01 \\1\x01 ',
                 'g') end) as words,
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
      from (select min(m.seq) as seq, max(m.seq) as last_seq, (array_agg(m.user_id))[1] as user_id, least(sum(m.token_count), 2000000000)::int as tokens,
                   (array_agg(m.created_at order by m.seq))[1] as said_at, (array_agg(m.created_at order by m.seq desc))[1] as ended_at,
                   array_agg(m.words order by m.role = 'tool', m.seq) filter (where m.chars <= 100000) as words,
                   array_agg(m.words order by m.role = 'tool', m.seq) filter (where m.chars > 100000) as further,
                   array_agg(m.seq order by m.role = 'tool', m.seq) as seqs,
                   (array_agg(m.id) filter (where m.role = 'user'))[1] as question,
                   (array_agg(m.words) filter (where m.role = 'user'))[1] as question_words,
                   (array_agg(left(m.content, 20000)) filter (where m.role = 'user' and char_length(m.content) > 20000))[1] as long_question
              from measured m group by m.place) t
      left join lateral (
        select i.segment, i.last_seq from public.turn_index i where i.chat_id = chat and i.seq <= t.seq
          order by i.seq desc limit 1) old on old.last_seq >= t.seq
     order by t.seq
  loop
    own := '';
    for place in 1 .. cardinality(turn.words) loop
      own := own || setweight(turn.words[place], case place when 1 then 'A' when 2 then 'B' else 'C' end::"char");
    end loop;
    tsv := array_to_tsvector(array['chat ' || chat, 'user ' || turn.user_id]) || own || setweight(coalesce(asked_words, ''), 'D');
    foreach words in array coalesce(turn.further, '{}') loop
      if pg_column_size(tsv) + pg_column_size(strip(words)) > 1000000 then
        tsv := tsv || array_to_tsvector('{cut short}');
        exit;
      end if;
      tsv := tsv || strip(words);
    end loop;
    number := coalesce(turn.segment, number + (coalesce(turn.said_at >= before + interval '1 hour', true))::int);
    insert into public.turn_index as i (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes, second_seq)
    values (chat, turn.seq, turn.user_id, turn.last_seq, coalesce(asked_seq, turn.seq), number, turn.said_at, turn.tokens,
            tsv, length(own),
            case when turn.seqs[1] = turn.seq and (turn.words[2] is null or pg_column_size(ts_filter(own, '{b}')) = pg_column_size(turn.words[2]))
              then coalesce(turn.seqs[2], 0) end)
    on conflict (chat_id, seq) do update
       set last_seq = excluded.last_seq, words_from = excluded.words_from, said_at = excluded.said_at, tokens = excluded.tokens,
           tsv = excluded.tsv, lexemes = excluded.lexemes, second_seq = excluded.second_seq,
           -- The words are the same in a row that only lacked second_seq.
           embedding = case when setweight(i.tsv, 'A') = setweight(excluded.tsv, 'A') and i.last_seq = excluded.last_seq then i.embedding end,
           embedding_model = case when setweight(i.tsv, 'A') = setweight(excluded.tsv, 'A') and i.last_seq = excluded.last_seq then i.embedding_model end
     where (i.last_seq, i.words_from, i.said_at, i.tokens, i.tsv, i.second_seq)
           is distinct from (excluded.last_seq, excluded.words_from, excluded.said_at, excluded.tokens, excluded.tsv, excluded.second_seq);
    kept := kept || turn.seq;
    before := turn.ended_at;
    if turn.question is not null then
      asked_seq := turn.seq;
      asked_words := case when turn.long_question is null then turn.question_words
                          else to_tsvector('throughline.words'::regconfig, throughline.searchable(turn.long_question)) end;
    end if;
  end loop;
  delete from public.turn_index i where i.chat_id = chat and i.seq = any (had) and i.seq <> all (kept);
  select min(k.seq) into first_new from unnest(kept) k (seq) where k.seq <> all (had);
  if exists (select from public.conversation_briefs b where b.chat_id = chat and b.assigned_seq >= first_new) then
    update public.conversation_briefs b set assigned_seq = first_new - 1 where b.chat_id = chat;
  end if;
end
$$;

-- Indexes a chat up to a message; null for all. Stops before a reply that has not ended, and after 500 messages, where the next call
-- goes on. Returns whether it came further. It may run again, and beside others: they wait for the brief's lock.
create function throughline.index_chat(chat uuid, upto bigint) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
    (select m.seq - 1 from public.messages m where m.chat_id = chat and m.status in ('streaming', 'awaiting')),
    coalesce((select m.seq from public.messages m where m.chat_id = chat and m.seq > done order by m.seq offset 499 limit 1),
             (select c.last_seq from public.chats c where c.id = chat)));
  if goal > done then
    select m.seq, m.role into first from public.messages m
     where m.chat_id = chat and m.seq > done and m.seq <= goal and m.token_count > 0 and m.role <> 'system' order by m.seq limit 1;
    if found then
      -- A turn without a question may belong to the turn before it.
      perform throughline.write_turn_index(chat,
        case when first.role <> 'user'
          then coalesce((select i.seq from public.turn_index i where i.chat_id = chat and i.seq <= done order by i.seq desc limit 1), first.seq)
             else first.seq end, goal);
    end if;
    done := goal;
  end if;
  update public.conversation_briefs b
     set indexed_seq = done,
         to_index = exists (select from public.messages m
                             where m.chat_id = chat and m.seq > done and (m.token_count > 0 or m.status in ('streaming', 'awaiting')))
   where b.chat_id = chat;
  return (select (b.indexed_seq, b.to_index) is distinct from (before.indexed_seq, before.to_index) from public.conversation_briefs b where b.chat_id = chat);
end
$$;

-- index_chat for a job or an import, of a chat of the user in the claims. SECURITY DEFINER: no other role writes the index.
create function throughline.index_turns(chat uuid, upto bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  select throughline.index_chat(b.chat_id, upto) from public.conversation_briefs b where b.chat_id = chat and b.user_id = (select throughline.uid())
$$;

-- Indexes chats that have rested for that long, and at once covered turns that are not indexed; null for
-- the latter alone. At most so many chats, skipping locked ones, and returns how many. For the server itself.
create function throughline.index_rested(rest interval, most int) returns int
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  rested record;
  chats int := 0;
begin
  for rested in
    select b.chat_id, b.user_id from public.conversation_briefs b join public.chats c on c.id = b.chat_id
     where b.to_index
       and (b.indexed_seq < b.covered_seq
         or case when c.last_message_at > now() then b.updated_at else coalesce(c.last_message_at, c.created_at) end < now() - rest
            and not exists (select from public.messages m where m.chat_id = b.chat_id and m.status in ('streaming', 'awaiting')))
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

-- Indexes the rest of a chat of the user in the claims, or of the latest twenty that have something left. For who
-- searches: the sweep waits until the chat is quiet. It waits for what commits at this moment, such as a fold, or what a new
-- chat makes due. For a question in except_chat, on which a reply waits, it is less: the latest four of its user's other
-- chats, where few messages are left. SECURITY DEFINER as index_turns.
create function throughline.index_rest(in_chat uuid, except_chat uuid) returns void
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off set jit = off set lock_timeout = '500ms' as $$
declare
  asking constant uuid := (select throughline.uid());
  behind record;
begin
  for behind in
    select latest.chat_id
      from (select b.chat_id from public.conversation_briefs b join public.chats c on c.id = b.chat_id
             where b.user_id = asking and b.to_index and (in_chat is null or b.chat_id = in_chat)
               and (except_chat is null or b.chat_id <> except_chat and c.remember and c.last_seq - b.indexed_seq <= 100)
             order by b.updated_at desc limit case when except_chat is null then 20 else 4 end) latest
     order by latest.chat_id
  loop
    begin
      perform from public.chats c where c.id = behind.chat_id for key share skip locked;
      continue when not found; -- it is being deleted
      perform from public.conversation_briefs b where b.chat_id = behind.chat_id for update;
    exception when lock_not_available then
      continue; -- found a moment later
    end;
    for piece in 1 .. 10 loop -- of 500 messages; an import may have more, and is indexed by its jobs
      exit when not throughline.index_chat(behind.chat_id, null);
    end loop;
  end loop;
end
$$;
