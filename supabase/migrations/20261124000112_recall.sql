-- What recall asks of turn_index, for the user in the claims. Expired chats are left out. The functions return places and
-- numbers, and the caller reads the words under the policies.
--
-- in_chat null is all chats of the user. For a question in except_chat those are the others, without temporary chats, messages
-- from before a chat's last clear, and subjects that the user has excluded: another chat's prompt shows less than a chat's own.

-- How many turns there are to look in: of a chat the first 2000 are counted, and what follows is taken to be like them; of all
-- chats about. SECURITY DEFINER: under row level security Postgres does not read an index alone.
create function throughline.recall_size(in_chat uuid, after_seq bigint, before_seq bigint) returns table (turns bigint)
language plpgsql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if in_chat is null then
    return query
      select coalesce(sum(b.indexed_seq), 0)::bigint / 2 + 1 from public.conversation_briefs b where b.user_id = (select throughline.uid());
  else
    return query
      select case when f.turns < 2000 then f.turns
                  else f.turns * ((select i.seq from public.turn_index i
                                    where i.chat_id = in_chat and (before_seq = 0 or i.seq < before_seq) order by i.seq desc limit 1) - after_seq)
                       / (f.last - after_seq) end
        from (select count(*) as turns, max(i.seq) as last
                from (select t.seq from public.turn_index t
                       where t.chat_id = in_chat and t.seq > after_seq and (before_seq = 0 or t.seq < before_seq) order by t.seq limit 2000) i) f
       where exists (select from public.chats c where c.id = in_chat and c.user_id = (select throughline.uid()));
  end if;
end
$$;

-- The turns that hold words. Each word is an array of its forms, as text with one form per line. The rarest words come
-- first, as long as not more than most turns hold them together; own and asked are ts_rank of one word, which is
-- 1 + 1/4 + 1/9 + … over how often it is there, by pi²/6. Which words are rare is counted in the whole chat and without
-- reading rows: so Postgres takes it from the index where the pages are all visible. SECURITY DEFINER: under row level security
-- Postgres does not use a full-text index.
create function throughline.recall_matches(words text[], in_chat uuid, in_topic uuid, after_seq bigint, before_seq bigint, most int,
  except_chat uuid)
returns table (word int, chat_id uuid, seq bigint, last_seq bigint, words_from bigint, segment int, lexemes int, said_at timestamptz,
               own real, asked real, topic_id uuid)
language plpgsql stable security definer set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  asking uuid := (select throughline.uid());
  scope tsquery := quote_literal(case when in_chat is null then 'user ' || asking else 'chat ' || in_chat end)::tsquery
    && coalesce(!! quote_literal('chat ' || except_chat)::tsquery, '');
  forbidden constant tsquery := case when except_chat is not null then throughline.excluded_words(asking) end;
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
              from unnest(words) with ordinality n(forms, place) offset 0) a, -- once
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
         and not exists (select from public.chats c where c.id = i.chat_id and (c.expires_at <= now() or except_chat is not null and not c.remember))
         and (forbidden is null or not i.tsv @@ forbidden)
         and (except_chat is null or i.seq > (select b.cleared_seq from public.conversation_briefs b where b.chat_id = i.chat_id))
       limit most;
  end loop;
end
$$;

-- How near turns are to a vector of a model: those nearest by the signs of their vectors, at most so many, others that are asked
-- for by the seq of any of their chats, and the turns beside the nearest; chat by chat and in order of seq. All turns of the chat are
-- compared; without a chat those of the 200 that were written to last. SECURITY DEFINER as the others: it is asked beside them,
-- for the same rows.
create function throughline.recall_nearness(
  question throughline.embedding, with_model text, in_chat uuid, in_topic uuid, after_seq bigint, before_seq bigint, except_chat uuid,
  most int, chats uuid[], turns bigint[])
returns table (chat_id uuid, seq bigint, last_seq bigint, words_from bigint, segment int, said_at timestamptz, cosine real, topic_id uuid)
language plpgsql stable security definer set search_path = '' set enable_seqscan = off set jit = off set enable_bitmapscan = off as $$
declare
  asked constant bit(512) := throughline.signs_of(question);
  forbidden constant tsquery := case when except_chat is not null then throughline.excluded_words((select throughline.uid())) end;
begin
  return query
  with chosen as materialized (
    select c.id, case when except_chat is null then after_seq
                      else (select b.cleared_seq from public.conversation_briefs b where b.chat_id = c.id) end as after
      from public.chats c
     where c.user_id = (select throughline.uid()) and (in_chat is null or c.id = in_chat) and (c.expires_at is null or c.expires_at > now())
       and (except_chat is null or c.id <> except_chat and c.remember)
     order by c.updated_at desc limit 200),
  near as (
    select n.id, n.seq, n.words_from, n.last_seq
      from chosen c
     cross join lateral ( -- of columns of the index alone
           select c.id, i.seq, i.words_from, i.last_seq, i.signs operator(throughline.<~>) asked as apart
             from public.turn_index i
            where i.embedding_model = with_model and i.chat_id = c.id and i.seq > c.after and (before_seq = 0 or i.seq < before_seq)
              and (in_topic is null or i.seq in (select t.seq from public.turn_index t where t.topic_id = in_topic))
            order by apart limit most) n
     order by n.apart limit most),
  wanted as (
    select n.id, unnest(array[n.words_from, n.seq, n.last_seq + 1]) as seq from near n
     union
    select * from unnest(chats, turns))
  select i.chat_id, i.seq, i.last_seq, i.words_from, i.segment, i.said_at, (-(i.embedding operator(throughline.<#>) question))::real,
         coalesce(i.topic_id, '00000000-0000-0000-0000-000000000000')
    from wanted w
    join chosen c on c.id = w.id
    join public.turn_index i on i.chat_id = w.id and i.seq = w.seq
   where i.embedding_model = with_model and i.seq > c.after and (before_seq = 0 or i.seq < before_seq)
     and (in_topic is null or i.topic_id = in_topic)
     and (forbidden is null or not i.tsv @@ forbidden)
   order by i.chat_id, i.seq;
end
$$;
