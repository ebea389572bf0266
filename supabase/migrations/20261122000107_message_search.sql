-- Full-text search over a user's own messages, in any language.

-- Prepares a text for search. Scripts without spaces between words are indexed character by character: each
-- character is surrounded by U+0001 and a space, which whoever shows the text removes again; a word is found
-- as a phrase. Only the first 50 000 characters are searchable, because a tsvector holds at most 1 MiB and a
-- message with many different words must still be stored.
create function throughline.searchable(content text) returns text
language sql immutable security invoker parallel safe set search_path = '' as $$
  select regexp_replace(left(content, 50000),
    '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])',
    E'\x01 \\1\x01 ', 'g')
$$;

-- Words in Latin letters by their English stem, all others unchanged; no stop words. The stem of a German or
-- French word may look odd, but it is the same in a message and in a query.
create text search dictionary throughline.english_stems (template = pg_catalog.snowball, language = english);
create text search configuration throughline.words (copy = pg_catalog.simple);
alter text search configuration throughline.words alter mapping for asciiword, asciihword, hword_asciipart with throughline.english_stems;

-- The user's id is one more word, so that the index finds one user's messages without reading the others'.
create function throughline.search_vector(user_id uuid, content text) returns tsvector
language sql immutable security invoker parallel safe cost 1000 set search_path = '' as $$
  select array_to_tsvector(array['user ' || user_id::text]) || to_tsvector('throughline.words', throughline.searchable(content))
$$;

-- An expression rather than a column, so that rows stay small. Running replies have no content and are not
-- indexed. The expression repeats search_vector, because calling a function with a fixed search path would
-- take most of the time that indexing a message costs.
create index messages_search_idx on public.messages using gin ((
      array_to_tsvector(array['user ' || user_id::text])
      || to_tsvector('throughline.words'::regconfig, regexp_replace(left(content, 50000),
           '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])', E'\x01 \\1\x01 ', 'g'))))
  -- New entries wait in a list, which searches read as well. By default the turn that fills the list to 4 MB
  -- has to merge it into the index. This limit, in kB, is never reached, because the sweep merges the list
  -- every few seconds.
  with (fastupdate = on, gin_pending_list_limit = 65536)
  where content <> '';

-- Merges the waiting entries and returns the number of pages. SECURITY DEFINER: only the owner of an index
-- may do so.
create function throughline.merge_search_entries() returns bigint
language sql volatile security definer set search_path = '' as $$
  select pg_catalog.gin_clean_pending_list('public.messages_search_idx')
$$;

-- The newest matches of the user in the claims. SECURITY DEFINER, because under row level security Postgres
-- does not use a full-text index; only ids are returned, and the caller reads the rows under the policies.
-- The matches are found first, materialized and without a sequential scan: right after an import Postgres has
-- no statistics, and would compute the vector of each of the user's messages.
create function throughline.search_messages(
  query tsquery, in_chat uuid, with_role text, since timestamptz, until timestamptz, most int)
returns table (id uuid)
language sql stable security definer set search_path = '' set enable_seqscan = off as $$
  with found as materialized (
    select m.id, m.user_id, m.chat_id, m.role, m.created_at, m.superseded_by, me.user_id as asking
      from (select auth.uid() as user_id) me
      join public.messages m
        on m.content <> '' and (
      array_to_tsvector(array['user ' || m.user_id::text])
      || to_tsvector('throughline.words'::regconfig, regexp_replace(left(m.content, 50000),
           '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])', E'\x01 \\1\x01 ', 'g'))) @@ (quote_literal('user ' || me.user_id)::tsquery && query))
  select f.id
    from found f
   where f.user_id = f.asking
     and (in_chat is null or f.chat_id = in_chat)
     and (with_role is null or f.role = with_role)
     and (since is null or f.created_at >= since)
     and (until is null or f.created_at < until)
     and f.superseded_by is null
     and not exists (select from public.chats c where c.id = f.chat_id and c.expires_at <= now())
   order by f.created_at desc, f.id desc
   limit most
$$;

revoke all on function throughline.searchable(text), throughline.search_vector(uuid, text), throughline.merge_search_entries(),
  throughline.search_messages(tsquery, uuid, text, timestamptz, timestamptz, int) from public, anon, authenticated;
grant execute on function throughline.searchable(text), throughline.search_vector(uuid, text) to throughline_app, service_role;
grant execute on function throughline.search_messages(tsquery, uuid, text, timestamptz, timestamptz, int) to throughline_app;
