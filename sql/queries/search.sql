-- name: SearchMessages :many
-- row: api.SearchResult + headline
-- as_question also searches without English stop words; the stems are the same. A query without words, such
-- as punctuation, finds nothing. U+E000 and U+E001 mark the matches in a headline (api.MarkStart); in a
-- message they are replaced by U+FFFD. Only returned rows get a headline, because making one reads the whole
-- text. Each row is looked up by its id: under the policies Postgres expects few and would read all of the user's.
with asked as (
  select websearch_to_tsquery('throughline.words', sqlc.arg(query))
      || case when sqlc.arg(as_question)::bool then websearch_to_tsquery('pg_catalog.english', sqlc.arg(query)) else '' end as query
), best as (
  select m.id, m.chat_id, c.title, m.seq, m.role, m.created_at, m.content, asked.query, f.rank
    from asked
   cross join lateral throughline.find_messages(asked.query, sqlc.narg(chat_id)::uuid, sqlc.narg(role)::text,
                sqlc.narg(since)::timestamptz, sqlc.narg(until)::timestamptz, sqlc.arg(candidates)::int) f (id, rank)
   cross join lateral (select id, chat_id, seq, role, created_at, content from public.messages where id = f.id offset 0) m
   cross join lateral (select title from public.chats where id = m.chat_id and (expires_at is null or expires_at > now()) offset 0) c
   order by rank desc, m.created_at desc, m.id desc
   limit sqlc.arg(most)::int
)
select id as message_id, chat_id, title as chat_title, seq, role, created_at, rank::real as rank,
       ts_headline('throughline.words', throughline.searchable(translate(content, U&'\E000\E001', U&'\FFFD\FFFD')), query,
                   U&'StartSel=\E000, StopSel=\E001, MaxWords=40, MinWords=15, ShortWord=0, MaxFragments=2, FragmentDelimiter=" \2026 "')::text as headline
  from best
 order by rank desc, created_at desc, id desc;

-- name: SearchAnyWord :many
-- row: SearchMessagesRow
-- The same for messages that have one of the terms, each of which is a word or a phrase, and none of the excluded words.
-- A message's rank is the sum of the weights of its terms; a term that fewer messages have weighs more. Like find_messages
-- it looks at the newest candidates alone, here of each term.
with asked as (
  select websearch_to_tsquery('throughline.words', term) as query, numnode(websearch_to_tsquery('pg_catalog.english', term)) > 0 as uncommon
    from unnest(sqlc.arg(terms)::text[]) as term
), wanted as (
  -- Without the common English words, unless there are no others.
  select distinct a.query from asked a
   where numnode(a.query) > 0 and (a.uncommon or not exists (select from asked o where o.uncommon))
), found as materialized (
  select w.query::text as term, f.message_id
    from wanted w
   cross join lateral throughline.find_messages(w.query && websearch_to_tsquery('throughline.words', sqlc.arg(without)), sqlc.narg(chat_id)::uuid,
                sqlc.narg(role)::text, sqlc.narg(since)::timestamptz, sqlc.narg(until)::timestamptz, sqlc.arg(candidates)::int) f (message_id, rank)
), weighed as (
  select f.message_id, sum(ln(1 + sqlc.arg(candidates)::int / t.messages::float8)) as rank, string_agg('(' || f.term || ')', ' | ')::tsquery as query
    from found f join (select term, count(*) as messages from found group by term) t using (term)
   group by f.message_id
), best as (
  select m.id, m.chat_id, c.title, m.seq, m.role, m.created_at, m.content, w.query, w.rank
    from weighed w
   cross join lateral (select id, chat_id, seq, role, created_at, content from public.messages where id = w.message_id offset 0) m
   cross join lateral (select title from public.chats where id = m.chat_id and (expires_at is null or expires_at > now()) offset 0) c
   order by w.rank desc, m.created_at desc, m.id desc
   limit sqlc.arg(most)::int
)
select id as message_id, chat_id, title as chat_title, seq, role, created_at, rank::real as rank,
       ts_headline('throughline.words', throughline.searchable(translate(content, U&'\E000\E001', U&'\FFFD\FFFD')), query,
                   U&'StartSel=\E000, StopSel=\E001, MaxWords=40, MinWords=15, ShortWord=0, MaxFragments=2, FragmentDelimiter=" \2026 "')::text as headline
  from best
 order by rank desc, created_at desc, id desc;

-- name: MergeSearchEntries :exec
-- As the server itself. Returns how many pages of waiting entries were merged into the full-text index of turns.
select gin_clean_pending_list('public.turn_index_tsv_idx')::bigint as pages;
