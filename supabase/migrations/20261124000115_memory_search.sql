-- How memories are found: the ones that a message may be about, and the ones that resemble a text; for the user in the claims.
-- The functions return ids and numbers, and the caller reads the words under the policies. A user has hundreds of memories,
-- some thousands at most: all of them are compared.

-- What the memories of excluded subjects match; null where the user excluded none. SECURITY DEFINER as what follows.
create function throughline.excluded_words(asking uuid)
returns tsquery
language sql stable security definer set search_path = '' as $$
  select string_agg('(' || q.query::text || ')', '|')::tsquery
    from public.memory_users u, unnest(u.excluded) e (subject),
         lateral (select plainto_tsquery('throughline.words', throughline.searchable(e.subject)) as query) q
   where u.user_id = asking and numnode(q.query) > 0
$$;

-- The first memories that prompts of a chat may show, for any message, at most so many: pinned ones, then
-- durable ones, and of each the most recently used first. active is how many there are. There is no row where memories are
-- off for the user or the chat, and one without an id where there are none. SECURITY DEFINER: under row level security
-- Postgres compares words only after the policies.
create function throughline.first_memories(chat uuid, most int)
returns table (place int, id uuid, active int)
language plpgsql stable security definer set search_path = '' as $$
declare
  asking uuid := (select throughline.uid());
  forbidden tsquery;
begin
  if not exists (select from public.chats c where c.id = chat and c.user_id = asking and c.remember)
     or exists (select from public.memory_users u where u.user_id = asking and not u.enabled) then
    return;
  end if;
  forbidden := throughline.excluded_words(asking);
  return query
    with shown as materialized (
      select m.id, m.pinned, m.durable, coalesce(m.last_accessed, m.recorded_at) as used
        from public.memories m
       where m.user_id = asking and m.status = 'active' and (forbidden is null or not m.tsv @@ forbidden)),
    placed as (
      select s.id, row_number() over (order by s.pinned desc, s.durable desc, s.used desc, s.id)::int as place from shown s)
    select p.place, p.id, a.memories
      from (select count(*)::int as memories from shown) a
      left join placed p on p.place <= most;
end
$$;

-- The memories that a message may be about: by its words, at most so many; by its vector, as many; and those with
-- entities that it names, or with relationships of the user that it asks for, as many.
--
-- words are the forms of each word, one form per line, and telling says which of them are no function words. by_words
-- is BM25 with k1 0.9 and b 0.5, in which each word counts once: a memory is a sentence. rarest is how many memories hold
-- the rarest telling word that this one holds, of so many memories. SECURITY DEFINER: under row level security Postgres compares
-- words only after the policies.
create function throughline.find_memories(words text[], telling boolean[], names text[], relationships text[], types text[],
  question throughline.embedding, with_model text, most int)
returns table (id uuid, by_words real, rarest int, of int, cosine real, named int)
language plpgsql stable security definer set search_path = '' as $$
declare
  asking uuid := (select throughline.uid());
  keys constant text[] := array(select throughline.folded(n.name) from unnest(names) n (name));
  queries tsquery[];
  every tsquery;
  forbidden constant tsquery := throughline.excluded_words(asking);
begin
  if not exists (select from public.memory_users u where u.user_id = asking and u.enabled) then
    return;
  end if;
  select array_agg(a.query order by a.place), string_agg('(' || a.query::text || ')', '|')::tsquery into queries, every
    from (select n.place,
                 (select string_agg('(' || q.query::text || ')', '|')::tsquery
                    from unnest(string_to_array(n.forms, E'\n')) f (form),
                         lateral (select phraseto_tsquery('throughline.words', throughline.searchable(f.form)) as query) q
                   where numnode(q.query) > 0) as query
            from unnest(words) with ordinality n (forms, place)) a;
  return query
    with asked as materialized (
      select a.place::int as place, telling[a.place] as tells, a.query from unnest(queries) with ordinality a (query, place)),
    size as materialized (
      select count(*)::int as memories, coalesce(avg(length(m.tsv)), 0) as words
        from public.memories m where m.user_id = asking and m.status = 'active'),
    hits as materialized (
      select m.id, a.place, a.tells, length(m.tsv) as length
        from public.memories m join asked a on m.tsv @@ a.query
       where m.user_id = asking and m.status = 'active' and m.tsv @@ every),
    held as (select h.place, count(*)::int as memories from hits h group by h.place),
    worded as materialized (
      select h.id, min(d.memories) filter (where h.tells) as rarest,
             sum(ln(1 + (s.memories - d.memories + .5) / (d.memories + .5)) * 1.9 / (1 + .9 * (.5 + .5 * h.length / s.words))) as score
        from hits h join held d using (place) cross join size s
       group by h.id),
    by_words as (select w.id from worded w order by w.score desc, w.id limit most),
    near as (
      select m.id from public.memories m
       where question is not null and m.user_id = asking and m.status = 'active' and m.embedding_model = with_model
       order by m.embedding operator(throughline.<#>) question limit most),
    pointed as (
      select mm.memory_id as id
        from public.memory_entities e join public.memory_mentions mm on mm.entity_id = e.id
       where e.user_id = asking and not e.is_user and (e.name_key = any (keys)
                or exists (select from unnest(e.aliases) a (name) where throughline.folded(a.name) = any (keys)))
       union all
      select unnest(r.also_said_by || r.memory_id)
        from public.memory_relationships r
        join public.memory_entities a on a.id = r.source_entity_id
        join public.memory_entities b on b.id = r.target_entity_id
       where cardinality(relationships) > 0 and r.user_id = asking and r.relationship = any (relationships) and (a.is_user or b.is_user)
         and (r.valid_to is null or r.valid_to > now())
         and (cardinality(types) = 0 or case when a.is_user then b.entity_type else a.entity_type end = any (types))),
    mentioned as materialized (select p.id, count(*)::int as entities from pointed p group by p.id),
    by_name as (
      select t.id from mentioned t join public.memories m on m.id = t.id
       where m.user_id = asking and m.status = 'active'
       order by t.entities desc, m.confidence desc, m.updated_at desc, m.id limit most),
    chosen as (select * from by_words union select * from near union select * from by_name)
    select m.id, coalesce(w.score, 0)::real, coalesce(w.rarest, 0)::int, s.memories,
           case when question is not null and m.embedding_model = with_model then (-(m.embedding operator(throughline.<#>) question))::real end,
           coalesce(t.entities, 0)
      from chosen c
      join public.memories m on m.id = c.id
      cross join size s
      left join worded w on w.id = c.id
      left join mentioned t on t.id = c.id
     where forbidden is null or not m.tsv @@ forbidden;
end
$$;

-- The memories that resemble each of some texts, superseded ones apart: the one with the same words, and by their vectors
-- and by their words so many each, of which the ranks are. vectors are those of the texts, null or '' for none. SECURITY DEFINER
-- as above.
create function throughline.similar_memories(contents text[], vectors text[], model text, most int)
returns table (candidate int, memory_id uuid, same_key boolean, vector_rank int, words_rank int, cosine float8)
language sql stable security definer set search_path = '' as $$
  with texts as materialized (
    select t.place::int as place, throughline.content_key(t.content) as key, (
             select string_agg(quote_literal(w.lexeme), '|')::tsquery
               from unnest(to_tsvector('throughline.words', throughline.searchable(t.content))) w) as words,
           nullif(vectors[t.place], '')::throughline.embedding as vector
      from unnest(contents) with ordinality t (content, place)),
  mine as materialized (
    select m.id, m.content_key, m.tsv, m.embedding, m.embedding_model from public.memories m
     where m.user_id = (select throughline.uid()) and m.status <> 'superseded'),
  same as (
    select t.place, m.id from texts t join mine m on m.content_key = t.key),
  near as (
    select t.place, n.id, n.rank
      from texts t cross join lateral (
        select m.id, row_number() over (order by m.embedding operator(throughline.<#>) t.vector, m.id)::int as rank
          from mine m
         where m.embedding_model = model and t.vector is not null
         order by rank limit most) n),
  worded as (
    select t.place, n.id, n.rank
      from texts t cross join lateral (
        select m.id, row_number() over (order by ts_rank(m.tsv, t.words, 1) desc, m.id)::int as rank
          from mine m
         where m.tsv @@ t.words
         order by rank limit most) n),
  found as (select place, id from same union select place, id from near union select place, id from worded)
  select f.place, f.id, s.id is not null, n.rank, w.rank,
         case when m.embedding_model = model then -(m.embedding operator(throughline.<#>) t.vector) end
    from found f
    join texts t on t.place = f.place
    join mine m on m.id = f.id
    left join same s on s.place = f.place and s.id = f.id
    left join near n on n.place = f.place and n.id = f.id
    left join worded w on w.place = f.place and w.id = f.id
   order by f.place, least(n.rank, w.rank), f.id
$$;
