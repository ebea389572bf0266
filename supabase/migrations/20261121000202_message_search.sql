-- Full text over a user's own messages, in whatever language they are.

-- Scripts that put no spaces between words are taken character by character, each set apart by U+0001 and a
-- space, which whoever shows the text takes out again. A word of such a script is found as a phrase.
create function private.searchable(content text) returns text
language sql immutable security invoker parallel safe set search_path = '' as $$
  select regexp_replace(content,
    '([\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F])',
    E'\x01 \\1\x01 ', 'g')
$$;

-- Words as they are, for every language, and English stems beside them. The user's id is one more word,
-- so that the index finds one user's messages and walks through nobody else's.
create function private.search_vector(user_id uuid, content text) returns tsvector
language sql immutable security invoker parallel safe set search_path = '' as $$
  select pg_catalog.array_to_tsvector(array['user ' || user_id])
      || to_tsvector('pg_catalog.simple', private.searchable(content))
      || to_tsvector('pg_catalog.english', private.searchable(content))
$$;

-- An expression, not a column: rows stay as small as they were. Running replies hold no content and are
-- not in it until they end.
create index messages_search_idx on public.messages using gin (private.search_vector(user_id, content))
  where content <> '';

revoke all on function private.searchable(text), private.search_vector(uuid, text) from public, anon, authenticated;
-- Whoever writes a message runs the index's expression.
grant execute on function private.searchable(text), private.search_vector(uuid, text) to throughline_app, service_role;

-- The newest matches of the user in the claims. SECURITY DEFINER, because under row level security
-- Postgres looks at no full-text index: it gives ids alone, and whoever asks reads those rows under the policies.
create function private.search_messages(
  query tsquery, in_chat uuid, with_role text, since timestamptz, until timestamptz, most int)
returns table (id uuid)
language sql stable security definer set search_path = '' as $$
  select m.id
    from (select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid as user_id) me
    join public.messages m on m.user_id = me.user_id
   where m.content <> ''
     and private.search_vector(m.user_id, m.content) @@ (quote_literal('user ' || me.user_id)::tsquery && query)
     and (in_chat is null or m.chat_id = in_chat)
     and (with_role is null or m.role = with_role)
     and (since is null or m.created_at >= since)
     and (until is null or m.created_at < until)
     and m.superseded_by is null
   order by m.created_at desc, m.id desc
   limit most
$$;

revoke all on function private.search_messages(tsquery, uuid, text, timestamptz, timestamptz, int) from public, anon, authenticated;
grant usage on schema private to throughline_app;
grant execute on function private.search_messages(tsquery, uuid, text, timestamptz, timestamptz, int) to throughline_app;
