-- Words as full-text search and recall know them, in any language.

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
