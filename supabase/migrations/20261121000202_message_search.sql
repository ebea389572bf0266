-- Full text over a user's own messages, in whatever language they are.

-- Scripts that put no spaces between words are taken character by character, each set apart by U+0001 and a
-- space, which whoever shows the text takes out again. A word of such a script is found as a phrase.
-- What comes after so many characters is not found: a tsvector holds 1 MiB at most, and nobody's message
-- must be refused for it, however many different words it has.
create function private.searchable(content text) returns text
language sql immutable security invoker parallel safe set search_path = '' as $$
  select regexp_replace(left(content, 50000),
    '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])',
    E'\x01 \\1\x01 ', 'g')
$$;

-- Words in Latin letters by their English stem, all others as they are; no word is left out for being common.
-- The stem of a German or French word may look odd, but it is the same in a message and in a query.
create text search dictionary private.english_stems (template = pg_catalog.snowball, language = english);
create text search configuration private.words (copy = pg_catalog.simple);
alter text search configuration private.words alter mapping for asciiword, asciihword, hword_asciipart with private.english_stems;

-- The user's id is one more word, so that the index finds one user's messages and walks through nobody else's.
create function private.search_vector(user_id uuid, content text) returns tsvector
language sql immutable security invoker parallel safe cost 1000 set search_path = '' as $$
  select array_to_tsvector(array['user ' || user_id::text]) || to_tsvector('private.words', private.searchable(content))
$$;

-- An expression, not a column: rows stay as small as they were. Running replies hold no content and are
-- not in it until they end. It is search_vector written out, because a function with a search path of its own
-- would be most of what a message's place in the index costs.
create index messages_search_idx on public.messages using gin ((
      array_to_tsvector(array['user ' || user_id::text])
      || to_tsvector('private.words'::regconfig, regexp_replace(left(content, 50000),
           '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])', E'\x01 \\1\x01 ', 'g'))))
  where content <> '';

revoke all on function private.searchable(text), private.search_vector(uuid, text) from public, anon, authenticated;
grant execute on function private.searchable(text), private.search_vector(uuid, text) to throughline_app, service_role;

-- The newest matches of the user in the claims. SECURITY DEFINER, because under row level security
-- Postgres looks at no full-text index: it gives ids alone, and whoever asks reads those rows under the policies.
-- The matches are found first, with no other condition that has an index and without reading the whole table: right after
-- an import Postgres has no idea of the table's size, and would make a vector of each of the user's messages.
create function private.search_messages(
  query tsquery, in_chat uuid, with_role text, since timestamptz, until timestamptz, most int)
returns table (id uuid)
language sql stable security definer set search_path = '' set enable_seqscan = off as $$
  with found as materialized (
    select m.id, m.user_id, m.chat_id, m.role, m.created_at, m.superseded_by, me.user_id as asking
      from (select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid as user_id) me
      join public.messages m
        on m.content <> '' and (
      array_to_tsvector(array['user ' || m.user_id::text])
      || to_tsvector('private.words'::regconfig, regexp_replace(left(m.content, 50000),
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

revoke all on function private.search_messages(tsquery, uuid, text, timestamptz, timestamptz, int) from public, anon, authenticated;
grant usage on schema private to throughline_app, service_role;
grant execute on function private.search_messages(tsquery, uuid, text, timestamptz, timestamptz, int) to throughline_app;
