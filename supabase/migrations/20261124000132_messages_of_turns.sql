-- The index of turns tells the messages of a turn apart, so that it can answer a search for messages as well.

-- A turn's first message has weight A, its second B, where what tools returned comes last; all others C. The words of the
-- user's message before the turn keep weight D.
create or replace function throughline.joined(texts tsvector[]) returns tsvector
language plpgsql immutable security invoker set search_path = '' as $$
declare
  words tsvector := '';
begin
  for place in 1 .. cardinality(texts) loop
    words := words || setweight(texts[place], case place when 1 then 'A' when 2 then 'B' else 'C' end::"char");
  end loop;
  return words;
end
$$;

-- Adds the words of further texts, without their positions, as far as a tsvector holds them, which is 1 MiB. Where one is
-- left out there is one more lexeme, 'cut short', which no text can make: the turn may hold any word.
create function throughline.with_further(words tsvector, texts tsvector[]) returns tsvector
language plpgsql immutable security invoker set search_path = '' as $$
declare
  further tsvector;
begin
  if texts is null then
    return words;
  end if;
  foreach further in array texts loop
    further := strip(further);
    if pg_column_size(words) + pg_column_size(further) > 1000000 then
      return words || array_to_tsvector('{cut short}');
    end if;
    words := words || further;
  end loop;
  return words;
end
$$;

-- second_seq is the message with weight B, 0 where there is none. Null: the row was written before messages were told apart, or
-- the first message has not weight A, or not all places of the second's words found room: a tsvector keeps 255 of a word.
alter table public.turn_index add column second_seq bigint;

-- Turns that had words left out. A message counts a token for 32 bytes at least.
update public.turn_index i
   set tsv = i.tsv || array_to_tsvector('{cut short}')
 where i.tokens > 3000
   and (select sum(least(char_length(m.content), 50000)) from public.messages m
         where m.chat_id = i.chat_id and m.seq between i.seq and i.last_seq and m.token_count > 0 and m.role <> 'system') > 100000;

-- Writes the rows of the turns from one message to another, both included. The first is the first of a turn. Rows that
-- are right already are left as they are, with their vectors. The caller holds the lock of the brief, so that no
-- message of the range is edited meanwhile without being noticed.
--
-- A tsvector holds 1 MiB. So a turn has the words and their positions of 100 000 characters, 50 000 of each message, replies
-- before what tools returned; those of 20 000 characters of the question before it; and of the rest the words alone, if there
-- is room. No text takes 8 bytes per character. words repeats throughline.searchable, because calling a function with a
-- search path of its own would take most of the time, and leaves it out for a text of ASCII alone.
--
-- A turn that appears among older ones has no topic yet, so assigned_seq goes back to it.
create or replace function throughline.write_turn_index(chat uuid, from_seq bigint, to_seq bigint) returns void
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off set enable_nestloop = on as $$
declare
  turn record;
  own tsvector;
  tsv tsvector;
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
               '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])', E'\x01 \\1\x01 ', 'g') end) as words,
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
                   array_agg(m.words order by m.role = 'tool', m.seq) filter (where m.chars > 100000) as further,
                   array_agg(m.seq order by m.role = 'tool', m.seq) as seqs,
                   (array_agg(m.id) filter (where m.role = 'user'))[1] as question,
                   (array_agg(m.words) filter (where m.role = 'user'))[1] as question_words,
                   (array_agg(left(m.content, 20000)) filter (where m.role = 'user' and char_length(m.content) > 20000))[1] as long_question
              from measured m group by m.place) t
      left join lateral (
        select i.segment, i.last_seq from public.turn_index i where i.chat_id = chat and i.seq <= t.seq order by i.seq desc limit 1) old on old.last_seq >= t.seq
     order by t.seq
  loop
    own := throughline.joined(turn.words);
    tsv := array_to_tsvector(array['chat ' || chat, 'user ' || turn.user_id]) || own || setweight(coalesce(asked_words, ''), 'D');
    number := coalesce(turn.segment, number + (coalesce(turn.said_at >= before + interval '1 hour', true))::int);
    insert into public.turn_index as i (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes, second_seq)
    values (chat, turn.seq, turn.user_id, turn.last_seq, coalesce(asked_seq, turn.seq), number, turn.said_at, turn.tokens,
            throughline.with_further(tsv, turn.further), length(own),
            case when turn.seqs[1] = turn.seq and (turn.words[2] is null or pg_column_size(ts_filter(own, '{b}')) = pg_column_size(turn.words[2])) then coalesce(turn.seqs[2], 0) end)
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

-- The turns that hold words. Each word is an array of its forms, as text with one form per line. The rarest words come
-- first, as long as not more than most turns hold them together; own and asked are ts_rank of one word, which is
-- 1 + 1/4 + 1/9 + … over how often it is there, by pi²/6. Which words are rare is counted in the whole chat and without
-- reading rows: so Postgres takes it from the index where the pages are all visible.
create or replace function throughline.recall_matches(words text[], in_chat uuid, in_topic uuid, after_seq bigint, before_seq bigint, most int)
returns table (word int, chat_id uuid, seq bigint, last_seq bigint, words_from bigint, segment int, lexemes int, said_at timestamptz,
               own real, asked real, topic_id uuid)
language plpgsql stable security definer set search_path = '' set enable_seqscan = off as $$
declare
  asking uuid := (select auth.uid());
  scope tsquery := quote_literal(case when in_chat is null then 'user ' || asking else 'chat ' || in_chat end)::tsquery;
  room int := most;
  w record;
begin
  if in_chat is not null and not exists (select from public.chats c where c.id = in_chat and c.user_id = asking) then
    return;
  end if;
  for w in
    select a.place, a.query, numnode(a.query) / 2 + 1 as forms, h.holders
      from (select n.place::int as place,
                   (select string_agg('(' || q.query::text || ')', '|')::tsquery
                      from unnest(string_to_array(n.forms, E'\n')) f(form),
                           lateral (select phraseto_tsquery('throughline.words', throughline.searchable(f.form)) as query) q
                     where numnode(q.query) > 0) as query
              from unnest(words) with ordinality n(forms, place)) a,
           lateral (select count(*)::int as holders
                      from (select from public.turn_index i where i.tsv @@ (scope && a.query) limit most + 1) l) h
     where a.query is not null and h.holders > 0
     order by h.holders, a.place
  loop
    exit when w.holders > room and room < most;
    room := room - w.holders;
    return query
      select w.place, i.chat_id, i.seq, i.last_seq, i.words_from, i.segment, i.lexemes, i.said_at,
             (ts_rank('{0,1,1,1}', i.tsv, w.query) * w.forms)::real, (ts_rank('{1,0,0,0}', i.tsv, w.query) * w.forms)::real, i.topic_id
        from public.turn_index i
       where i.tsv @@ (scope && w.query) and i.user_id = asking
         and i.seq > after_seq and (before_seq = 0 or i.seq < before_seq)
         and (in_topic is null or i.topic_id = in_topic)
         and not exists (select from public.chats c where c.id = i.chat_id and c.expires_at <= now())
       limit most;
  end loop;
end
$$;

-- index_chat for an import, of a chat of the user in the claims.
create function throughline.index_imported(chat uuid) returns boolean
language sql volatile security definer set search_path = '' as $$
  select throughline.index_chat(b.chat_id, null) from public.conversation_briefs b where b.chat_id = chat and b.user_id = (select auth.uid())
$$;

revoke all on function throughline.with_further(tsvector, tsvector[]), throughline.index_imported(uuid) from public, anon, authenticated;
grant execute on function throughline.index_imported(uuid) to throughline_app;
