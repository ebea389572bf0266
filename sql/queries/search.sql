-- name: SearchMessages :many
-- A question need not be answered in its little words: English leaves them out, and its stems are ours. What
-- has no words, such as punctuation, finds nothing. The marks in a headline are U+E000 and U+E001
-- (history.MarkStart); messages that hold those themselves show U+FFFD in their place. Only the rows of the answer
-- get a headline: it reads the whole text.
with asked as (
  select websearch_to_tsquery('private.words', sqlc.arg(query))
      || case when sqlc.arg(as_question)::bool then websearch_to_tsquery('pg_catalog.english', sqlc.arg(query)) else '' end as query
), best as (
  select m.id, m.chat_id, c.title, m.seq, m.role, m.created_at, m.content, asked.query,
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
       ts_headline('private.words', private.searchable(translate(content, U&'\E000\E001', U&'\FFFD\FFFD')), query,
                   U&'StartSel=\E000, StopSel=\E001, MaxWords=40, MinWords=15, ShortWord=0, MaxFragments=2, FragmentDelimiter=" \2026 "')::text as headline
  from best
 order by rank desc, created_at desc, id desc;

-- name: MergeSearchEntries :one
-- As the server itself. How many pages of waiting entries went into the full-text index.
select private.merge_search_entries()::bigint as pages;
