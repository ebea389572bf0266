-- How did the brief change? For each revision the messages it covers, its cost, and the sentences it added and
-- removed. The sentences of redacted revisions are deleted.
--
--   psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/revisions.sql
\if :{?chat} \else \warn 'usage: psql "$DATABASE_URL" -v chat=UUID -f sql/inspect/revisions.sql' \quit \endif

select version, kind, created_at, seq_from, seq_to, turns, turns_tokens, tokens_before, tokens_after,
       input_tokens, output_tokens, duration_ms, calls, model, prompt_ref, redacted
  from inspect.revisions
 where chat_id = :'chat'
 order by version;

select r.version, change.sign as " ", change.sentence
  from inspect.revisions r
 cross join lateral (
   select '-', s.sentence, 0, s.place from unnest(r.sentences_removed) with ordinality s (sentence, place)
   union all
   select '+', s.sentence, 1, s.place from unnest(r.sentences_added) with ordinality s (sentence, place)) change (sign, sentence, part, place)
 where r.chat_id = :'chat'
 order by r.version, change.part, change.place;
