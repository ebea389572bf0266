-- Meaning vectors: where pgvector is, the type of our columns, and the operator that compares two.

-- The extension is used in whichever schema it is. Its types are named here alone: what follows needs no search path
-- that finds them.
do $$
declare
  version text := (select extversion from pg_extension where extname = 'vector');
  place text;
begin
  if version is null then
    begin
      create schema if not exists extensions;
      create extension vector with schema extensions;
    exception
      when insufficient_privilege then
        raise exception using errcode = 'TL001', message = format('Throughline cannot use this database: the role %s may not create the extension vector: '
          'run "create extension vector with schema extensions" as a superuser', current_user);
      when undefined_file or feature_not_supported then
        raise exception using errcode = 'TL001', message = format('Throughline cannot use this database: this server has no pgvector: install its package '
          '(on Debian: postgresql-%s-pgvector)', current_setting('server_version_num')::int / 10000);
    end;
  end if;
  select e.extversion, n.nspname into version, place
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector';
  if version ~ '^0\.[0-6](\.|$)' then
    raise exception using errcode = 'TL001', message = format('Throughline cannot use this database: pgvector %s is too old: install 0.7 or later on the server, '
      'and run "alter extension vector update" as a superuser', version);
  end if;

  -- Of unit length; a vector of fewer dimensions ends with zeros.
  execute format('create domain throughline.embedding as %I.halfvec(512)', place);
  -- The negative inner product, which of vectors of unit length is the negative cosine: so the nearest sorts first. 0 for a
  -- vector of zeros. An operator, because a function of ours would need a fixed search path, which takes five times as long.
  execute format('create operator throughline.<#> (function = %1$I.halfvec_negative_inner_product, '
    'leftarg = %1$I.halfvec, rightarg = %1$I.halfvec, commutator = operator(throughline.<#>))', place);
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
