-- Search for messages takes its candidates from the index of turns, so that a turn has no full-text index to fill.

-- Messages of the system belong to no turn and are few. See write_turn_index for the expression.
create index messages_system_idx on public.messages using gin ((
      array_to_tsvector(array['user ' || user_id::text])
      || to_tsvector('throughline.words'::regconfig, regexp_replace(left(content, 50000),
           '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])', E'\x01 \\1\x01 ',
             'g'))))
  where role = 'system' and content <> '';

-- The newest matches of the user in the claims, with their ranks. SECURITY DEFINER, because under row level security
-- Postgres does not use a full-text index; only ids are returned, and the caller reads the rows under the policies.
--
-- A match is in a turn of the index, is a message of the system, or is not indexed yet: of those the newest 10 000 are read.
-- Turns have the words that are asked for, in any message and order, and are taken by their time until there are enough
-- matches; the question is then decided for each message. Where the row tells messages apart, its words do that; a phrase
-- needs the text, because a tsvector leaves positions out when there are many.
--
-- Right after an import Postgres has no statistics, so the settings leave the planner nothing but indexes.
create function throughline.find_messages(
  query tsquery, in_chat uuid, with_role text, since timestamptz, until timestamptz, most int)
returns table (id uuid, rank real)
language plpgsql stable security definer rows 500 set search_path = ''
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set max_parallel_workers_per_gather = 0 set jit = off as $$
declare
  asking constant uuid := (select throughline.uid());
  own constant tsquery := quote_literal('user ' || asking)::tsquery;
  -- The words without the excluded ones, and without their order; null if there are none but excluded ones.
  wanted constant tsquery := nullif(regexp_replace(querytree(query), '<(-|\d+)>', '&', 'g'), 'T')::tsquery;
  ordered constant boolean := query::text ~ '<(-|\d+)>';
  scope constant tsquery := case when in_chat is null then own else quote_literal('chat ' || in_chat)::tsquery end;
  among constant tsquery := coalesce(scope && (wanted || $q$'cut short'$q$::tsquery), scope);
begin
  if numnode(query) = 0 or in_chat is not null and not exists (select from public.chats c where c.id = in_chat and c.user_id = asking) then
    return;
  end if;
  return query
  with expired as materialized (
    select c.id from public.chats c where c.user_id = asking and c.expires_at <= now()),
  -- What may be found, in each of the three places. words repeats throughline.searchable, see write_turn_index.
  said as not materialized (
    select m.*, to_tsvector('throughline.words'::regconfig, case when octet_length(m.content) = char_length(m.content) then left(m.content, 50000)
             else regexp_replace(left(m.content, 50000),
             '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])',
               E'\x01 \\1\x01 ', 'g') end) as words
      from public.messages m
     where m.token_count > 0 and m.content <> '' and m.superseded_by is null
       and (with_role is null or m.role = with_role)
       and (since is null or m.created_at >= since)
       and (until is null or m.created_at < until)
       and not m.chat_id = any (array(select e.id from expired e))),
  candidates as (
    select i.chat_id, i.seq from public.turn_index i where i.tsv @@ among and i.user_id = asking
     order by i.said_at desc, i.chat_id, i.seq desc),
  of_turns as (
    select m.id, m.created_at, ts_rank_cd('{0.1,0.1,0.1,0.1}', v.words, query) as rank
      from candidates k
      join public.turn_index i on i.chat_id = k.chat_id and i.seq = k.seq
      join said m on m.chat_id = i.chat_id and m.seq between i.seq and i.last_seq
     cross join lateral (
       select case when m.seq = i.seq and i.second_seq is not null then ts_filter(i.tsv, '{a}')
                   when m.seq = i.second_seq then ts_filter(i.tsv, '{b}') end as words offset 0) part
     cross join lateral (
       select case when part.words is not null and not ordered then part.words else m.words end as words
        where not ordered or (part.words @@ wanted) is not false offset 0) v
     where m.role <> 'system' and v.words @@ query
     limit most),
  of_system as (
    select m.id, m.created_at
      from said m
     where m.role = 'system' and (
      array_to_tsvector(array['user ' || m.user_id::text])
      || to_tsvector('throughline.words'::regconfig, regexp_replace(left(m.content, 50000),
           '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])', E'\x01 \\1\x01 ',
             'g'))) @@ (own && query)
       and m.user_id = asking and (in_chat is null or m.chat_id = in_chat)
     order by m.created_at desc, m.id desc
     limit most),
  not_indexed as (
    select m.id, m.created_at
      from public.conversation_briefs b
      join said m on m.chat_id = b.chat_id and m.seq > b.indexed_seq
     where b.user_id = asking and b.to_index and (in_chat is null or b.chat_id = in_chat) and m.role <> 'system'
     order by m.created_at desc, m.id desc
     limit 10000),
  of_others as (
    select o.id, o.created_at, ts_rank_cd(v.words, query) as rank
      from (select * from of_system union all select * from not_indexed order by created_at desc, id desc) o
      join said m on m.id = o.id
     cross join lateral (select m.words as words offset 0) v
     where v.words @@ query
     limit most)
  select f.id, max(f.rank)
    from (select * from of_turns union all select * from of_others) f
   group by f.id, f.created_at
   order by f.created_at desc, f.id desc
   limit most;
end
$$;
