-- Meaning vectors: where pgvector is, the type of our columns, and the operator that compares two.

-- The extension is used in whichever schema it is. Its types are named here alone: what follows needs no search path
-- that finds them.
do $$
declare
  place text;
begin
  if not exists (select from pg_extension where extname = 'vector') then
    create schema if not exists extensions;
    create extension vector with schema extensions;
  end if;
  place := (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
  -- Of unit length; a vector of fewer dimensions ends with zeros.
  execute format('create domain throughline.embedding as %I.halfvec(512)', place);
  -- The negative inner product, which of vectors of unit length is the negative cosine: so the nearest sorts first. 0 for a
  -- vector of zeros. An operator, because a function of ours would need a fixed search path, which takes five times as long.
  execute format('create operator throughline.<#> (function = %1$I.halfvec_negative_inner_product, '
    'leftarg = %1$I.halfvec, rightarg = %1$I.halfvec, commutator = operator(throughline.<#>))', place);
  -- The signs of a vector, a sixteenth of its size, and in how many two differ: the fewer, the nearer the vectors, about.
  execute format('create function throughline.signs_of(vector throughline.embedding) returns bit(512) '
    'language sql immutable parallel safe security invoker set search_path = '''' as ''select %1$I.binary_quantize(vector)''', place);
  execute format('create operator throughline.<~> (function = %1$I.hamming_distance, leftarg = bit, rightarg = bit, '
    'commutator = operator(throughline.<~>))', place);
  -- The mean of vectors; null for none. It is not made of unit length: so its inner product with a vector is how near that is to
  -- the vectors on average.
  execute format('create function throughline.mean_of(vectors throughline.embedding[]) returns throughline.embedding '
    'language sql immutable security invoker set search_path = '''' as ''select %1$I.avg(v) from unnest(vectors) v''', place);
  -- The mean of two means, of so many vectors each.
  execute format($create$
    create function throughline.mean_of_means(one throughline.embedding, ones int, other throughline.embedding, others int) returns throughline.embedding
    language sql immutable parallel safe security invoker set search_path = '' as $body$
      select case when ones = 0 or one is null then other
                  when others = 0 or other is null then one
                  else %1$I.halfvec_add(
                         %1$I.halfvec_mul(one, %1$I.array_to_halfvec(array_fill((ones::real / (ones + others))::real, array[512]), 512, false)),
                         %1$I.halfvec_mul(other, %1$I.array_to_halfvec(array_fill((others::real / (ones + others))::real, array[512]), 512, false))) end
    $body$ $create$, place);
end
$$;

-- How alike unrelated texts are to each embedding model: a cosine means nothing without. Written by the server as
-- itself, once per model.
create table public.embedding_models (
  model         text        not null,
  dims          int         not null,
  -- Median and 99th percentile of the cosines of unrelated sentences.
  unrelated_p50 float8      not null,
  unrelated_p99 float8      not null,
  measured_at   timestamptz not null default now(),
  -- Which languages the scale of a model is for, '' for all of ours, and of which list of sentences it is: another list is
  -- measured again.
  languages     text        not null default '',
  sentences     int         not null default 1,

  constraint embedding_models_pkey primary key (model, dims),
  constraint embedding_models_dims_fit check (dims between 1 and 512),
  constraint embedding_models_spread check (unrelated_p50 < unrelated_p99)
);

revoke all on public.embedding_models from anon, authenticated;
grant select on public.embedding_models to throughline_app;
grant all on public.embedding_models to service_role;

alter table public.embedding_models enable row level security;

-- It holds nothing of any user.
create policy embedding_models_server on public.embedding_models for select to throughline_app using (true);
