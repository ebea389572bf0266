-- name: SearchMessages :many
-- Words as they are and as English stems: either will do, but what is meant exactly has to be as it is. What has no words, such as punctuation, finds
-- nothing. The marks in a headline are U+E000 and U+E001 (history.MarkStart); messages that hold those
-- themselves show U+FFFD in their place. Only the rows of the answer get a headline: it reads the whole text.
with asked as (
  select q.simple || (q.english && q.exact) as query,
         -- English leaves out words such as "the", which is all that some queries are.
         case when numnode(q.english) > 0 then 'pg_catalog.english' else 'pg_catalog.simple' end::regconfig as config
    from (select websearch_to_tsquery('pg_catalog.simple', sqlc.arg(query)) as simple,
                 websearch_to_tsquery('pg_catalog.english', sqlc.arg(query)) as english,
                 websearch_to_tsquery('pg_catalog.simple', sqlc.arg(exact)) as exact) q
), best as (
  select m.id, m.chat_id, c.title, m.seq, m.role, m.created_at, m.content, asked.query, asked.config,
         ts_rank_cd(private.search_vector(m.user_id, m.content), asked.query) as rank
    from asked, public.messages m
    join public.chats c on c.id = m.chat_id and (c.expires_at is null or c.expires_at > now())
   where numnode(asked.query) > 0
     and m.id in (select private.search_messages((select asked.query from asked), sqlc.narg(chat_id)::uuid, sqlc.narg(role)::text,
                         sqlc.narg(since)::timestamptz, sqlc.narg(until)::timestamptz, sqlc.arg(candidates)::int))
   order by rank desc, m.created_at desc, m.id desc
   limit sqlc.arg(most)::int
)
select id, chat_id, title, seq, role, created_at, rank::real as rank,
       ts_headline(config, private.searchable(translate(content, U&'\E000\E001', U&'\FFFD\FFFD')), query,
                   U&'StartSel=\E000, StopSel=\E001, MaxWords=40, MinWords=15, ShortWord=0, MaxFragments=2, FragmentDelimiter=" \2026 "')::text as headline
  from best
 order by rank desc, created_at desc, id desc;
