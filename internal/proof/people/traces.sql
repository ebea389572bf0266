-- Where those marks are: in every column of the database that can hold words.
create temp table traces (place text, mark text, deleted boolean, superseded boolean) on commit drop;
do $do$
declare search text; -- null where nothing is gone
begin
  select 'insert into traces ' || string_agg(format(
           'select %L, gone.* from %I.%I t cross join lateral regexp_matches(%s, ''\y(?:(?:ask|said)|lantern number )\d+\y'', ''g'') found (mark)
              join gone_marks gone on gone.mark = found.mark[1]',
           n.nspname || '.' || c.relname || '.' || a.attname, n.nspname, c.relname,
           case when y.typname = 'bytea' then format('encode(t.%I, ''escape'')', a.attname) else format('t.%I::text', a.attname) end),
           ' union all ')
    into search
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace join pg_type y on y.oid = a.atttypid
   where n.nspname in ('public', 'throughline', 'river', 'auth') and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
     and y.typname in ('text', '_text', 'varchar', '_varchar', 'json', 'jsonb', '_jsonb', 'tsvector', 'bytea')
  having exists (select from gone_marks);
  if search is not null then
    execute search;
  end if;
end $do$;
