-- The vectors of indexed turns, and the state of the models that make them.

-- name: ReadScale :many
-- row: recall.Scale
-- As the server itself.
select unrelated_p50 as p50, unrelated_p99 as p99, languages, sentences as list
  from public.embedding_models where model = sqlc.arg(model) order by sentences desc limit 1;

-- name: SaveScale :exec
-- The first server that measures a model by a list of sentences decides. As the server itself.
insert into public.embedding_models as e (model, dims, unrelated_p50, unrelated_p99, languages, sentences)
values (sqlc.arg(model), sqlc.arg(dims), sqlc.arg(unrelated_p50), sqlc.arg(unrelated_p99), sqlc.arg(languages), sqlc.arg(sentences))
on conflict (model, dims) do update
   set unrelated_p50 = excluded.unrelated_p50, unrelated_p99 = excluded.unrelated_p99, languages = excluded.languages,
       sentences = excluded.sentences, measured_at = now()
 where e.sentences < excluded.sentences;

-- name: ReadBareTurns :many
-- The messages of the first turns after a seq without a vector of the model; one row for a turn without messages. The
-- hash of its words tells whether a turn is still the same when its vector is there: unlike the row's xmin, it does not
-- change with what else is written to the row.
with bare as materialized (
  select i.seq, i.last_seq, md5(i.tsv::text) as words
    from throughline.own_turn_index i
   where i.chat_id = sqlc.arg(chat_id) and i.seq > sqlc.arg(after_seq) and not i.resting and i.embedding_model is distinct from sqlc.arg(model)::text
   order by i.seq limit sqlc.arg(most)::int)
select b.seq as turn_seq, b.words, coalesce(m.role, '')::text as role, left(coalesce(m.content, ''), 10000)::text as content
  from bare b
  left join lateral (
       -- Turn by turn (offset 0): Postgres would rather read all messages of the chat, and compare each with each turn.
       select o.seq, o.role, o.content from throughline.own_messages o
        where o.chat_id = sqlc.arg(chat_id) and o.seq between b.seq and b.last_seq and o.token_count > 0 and o.role <> 'system'
       offset 0) m on true
 order by b.seq, m.seq;

-- name: SaveVectors :execrows
-- After LockOwnBrief, as everything that changes rows of the index.
update throughline.own_turn_index i
   set embedding = new.embedding::throughline.embedding, embedding_model = sqlc.arg(model)::text
  from (select unnest(sqlc.arg(seqs)::bigint[]) as seq, unnest(sqlc.arg(words)::text[]) as words, unnest(sqlc.arg(embeddings)::text[]) as embedding) new
 where i.chat_id = sqlc.arg(chat_id) and i.seq = new.seq and md5(i.tsv::text) = new.words and not i.resting;

-- name: FindBareChats :many
-- Chats with a turn without a vector of the model and without a job that would make it: first those with turns that have
-- none at all. With the jobs that wait already they are at most so many of each kind. Of each kind, the first 20 000 turns
-- are looked at. As the server itself.
with waiting as (select j.args ->> 'chat_id' as chat from river.river_job j
  where j.queue = 'vectors' and j.kind = 'embed_turns' and j.state in ('available', 'pending', 'retryable', 'running', 'scheduled'))
(select distinct f.chat_id as owner_id, false as outdated
   from (select i.chat_id from public.turn_index i
          where i.embedding_model is null and not i.resting and i.chat_id::text not in (select w.chat from waiting w) order by i.chat_id limit 20000) f
  limit greatest(sqlc.arg(most)::int - (select count(*) from waiting), 0))
union all
(select distinct o.chat_id, true as outdated
   from ((select i.chat_id from public.turn_index i
           where i.embedding_model < sqlc.arg(model)::text and i.chat_id::text not in (select w.chat from waiting w) order by i.embedding_model,
             i.chat_id limit 20000)
         union all
         (select i.chat_id from public.turn_index i
           where i.embedding_model > sqlc.arg(model)::text and i.chat_id::text not in (select w.chat from waiting w) order by i.embedding_model,
             i.chat_id limit 20000)) o
  limit greatest(sqlc.arg(most)::int - (select count(*) from waiting), 0));

-- name: CountBareTurns :one
-- As the server itself.
select throughline.count_bare_turns(sqlc.arg(model)::text)::bigint as turns;
