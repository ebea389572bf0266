-- The messages of each topic, found without our own function.
create temp table topic_rows on commit drop as
  select t.id as topic_id, m.seq, m.role, m.content, m.created_at
    from public.topics t
    join public.turn_index i on i.topic_id = t.id and i.chat_id = t.chat_id
    join public.messages m on m.chat_id = i.chat_id and m.seq between i.seq and i.last_seq
     and m.role in ('user', 'assistant') and m.token_count > 0 and m.superseded_by is null;
create index on topic_rows (topic_id);

-- The marks of messages that were certainly deleted, or are off the path, and what a memory of them says. Other replies to a
-- message begin with the same mark.
create temp table gone_marks on commit drop as
  with said as (
    select m.superseded_by is not null as superseded, regexp_matches(m.content, '^(?:ask|said)\d+|lantern number \d+', 'g') as mark from public.messages m)
  select s.mark[1] as mark, false as deleted, true as superseded from said s group by s.mark having bool_and(s.superseded)
  union
  select (regexp_matches(h.content, '^ask\d+|lantern number \d+', 'g'))[1], true, false from heard_messages h where h.deletion = 2
  union
  select substring(h.answer from '^said\d+'), true, false from heard_replies r join heard_messages h using (client_id) where r.deletion = 2
     and not exists (select from said s where s.mark[1] = substring(h.answer from '^said\d+'));
