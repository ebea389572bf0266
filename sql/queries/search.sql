-- name: SearchMessages :many
-- as_question also searches without English stop words; the stems are the same. A query without words, such
-- as punctuation, finds nothing. U+E000 and U+E001 mark the matches in a headline (history.MarkStart); in a
-- message they are replaced by U+FFFD. Only returned rows get a headline, because making one reads the whole
-- text.
with asked as (
  select websearch_to_tsquery('throughline.words', sqlc.arg(query))
      || case when sqlc.arg(as_question)::bool then websearch_to_tsquery('pg_catalog.english', sqlc.arg(query)) else '' end as query
), best as (
  select m.id, m.chat_id, c.title, m.seq, m.role, m.created_at, m.content, asked.query,
         ts_rank_cd(throughline.search_vector(m.user_id, m.content), asked.query) as rank
    from asked, public.messages m
    join public.chats c on c.id = m.chat_id and (c.expires_at is null or c.expires_at > now())
   where numnode(asked.query) > 0
     and m.id in (select throughline.search_messages((select asked.query from asked), sqlc.narg(chat_id)::uuid, sqlc.narg(role)::text,
                         sqlc.narg(since)::timestamptz, sqlc.narg(until)::timestamptz, sqlc.arg(candidates)::int))
   order by rank desc, m.created_at desc, m.id desc
   limit sqlc.arg(most)::int
)
select id, chat_id, title, seq, role, created_at, rank::real as rank,
       ts_headline('throughline.words', throughline.searchable(translate(content, U&'\E000\E001', U&'\FFFD\FFFD')), query,
                   U&'StartSel=\E000, StopSel=\E001, MaxWords=40, MinWords=15, ShortWord=0, MaxFragments=2, FragmentDelimiter=" \2026 "')::text as headline
  from best
 order by rank desc, created_at desc, id desc;

-- name: MergeSearchEntries :one
-- As the server itself. Returns how many pages of waiting entries were merged into the full-text index.
select throughline.merge_search_entries()::bigint as pages;
