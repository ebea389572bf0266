-- Which turns did this revision add to the brief, word for word?
--
--   psql "$DATABASE_URL" -v chat=UUID -v version=2 -f sql/inspect/covered_turns.sql
\if :{?chat} \else \warn 'usage: psql "$DATABASE_URL" -v chat=UUID -v version=N -f sql/inspect/covered_turns.sql' \quit \endif
\if :{?version} \else \warn 'usage: psql "$DATABASE_URL" -v chat=UUID -v version=N -f sql/inspect/covered_turns.sql' \quit \endif
\x auto

select t.turn, t.user_seq, t.reply_seq, t.created_at, t.status, t.model_variant, t.user_tokens, t.reply_tokens,
       t.user_content, t.reply_content
  from inspect.revisions r
  join inspect.turns t on t.chat_id = r.chat_id and coalesce(t.user_seq, t.reply_seq) between r.seq_from and r.seq_to
 where r.chat_id = :'chat' and r.version = :version
 order by t.turn;
