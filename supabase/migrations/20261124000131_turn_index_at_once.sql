-- A cheaper commit of a fold: its turns enter the index without a trigger for each of them. That trigger's update of the
-- brief found nothing to do in a fold, and preparing it took a fifth of the index's time.

-- Writes the rows of the turns from one message to another, both included. The first is the first of a turn. Rows that
-- are right already are left as they are, with their vectors. The caller holds the lock of the brief, so that no
-- message of the range is edited meanwhile without being noticed.
--
-- A tsvector holds 1 MiB. So a turn has the words of 100 000 characters, 50 000 of each message, replies before what
-- tools returned; and those of 20 000 characters of the question before it. No text takes 8 bytes per character. words
-- repeats throughline.searchable, as messages_search_idx does and for the same reason, and leaves it out for a text of
-- ASCII alone.
--
-- A turn that appears among older ones has no topic yet, so assigned_seq goes back to it.
create or replace function throughline.write_turn_index(chat uuid, from_seq bigint, to_seq bigint) returns void
language plpgsql volatile security definer set search_path = '' set enable_seqscan = off set enable_nestloop = on as $$
declare
  turn record;
  own tsvector;
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
  delete from public.turn_index i where i.chat_id = chat and i.seq = any (had) and i.seq <> all (kept);
  select min(k.seq) into first_new from unnest(kept) k (seq) where k.seq <> all (had);
  if exists (select from public.conversation_briefs b where b.chat_id = chat and b.assigned_seq >= first_new) then
    update public.conversation_briefs b set assigned_seq = first_new - 1 where b.chat_id = chat;
  end if;
end
$$;

drop trigger turn_index_note_new on public.turn_index;
drop function throughline.note_new_turn();
