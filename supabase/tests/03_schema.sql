-- Rules that every object of ours follows, including those of later migrations.
begin;
\ir helpers.psql
select plan(15);

-- Our objects: everything in these schemas.
create temp view our_tables as
  select c.oid, c.relname, c.oid::regclass as name from pg_class c
   where c.relnamespace in ('public'::regnamespace, 'throughline'::regnamespace, 'inspect'::regnamespace) and c.relkind in ('r', 'p');
create temp view our_functions as
  select p.*, p.oid::regprocedure as signature from pg_proc p
   where p.pronamespace in ('public'::regnamespace, 'throughline'::regnamespace, 'inspect'::regnamespace)
     and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e');

select isnt_empty('select from our_tables', 'there are tables to check');
select is_empty(
  $$select oid::regclass from pg_class where relpersistence = 'u'$$,
  'no table is unlogged: a failover would empty it');
select is_empty(
  $$select t.name from our_tables t join pg_class c using (oid) where not c.relrowsecurity$$,
  'every table has row level security');
select is_empty(
  $$select t.name from our_tables t
     where not exists (select from pg_policy p where p.polrelid = t.oid and p.polcmd in ('r', '*'))$$,
  'every table has a policy for select');
select is_empty(
  $$select signature from our_functions
     where not exists (select from unnest(proconfig) setting where setting like 'search_path=%')$$,
  'every function has a fixed search path');
select is_empty(
  $$select signature from our_functions
     where 'enable_seqscan=off' = any (proconfig) and not 'jit=off' = any (proconfig)$$,
  'where a scan counts as expensive, no plan is compiled because of it, which takes seconds');
select is_empty(
  $$select signature from our_functions where prosecdef and pronamespace <> 'throughline'::regnamespace$$,
  'every function with its owner''s rights is in throughline');
select is_empty(
  $$select c.conrelid::regclass, c.conname from pg_constraint c join our_tables t on t.oid = c.conrelid
     where c.contype <> 'n' and (c.conname !~ ('^' || t.relname || '_') or c.contype = 'c' and c.conname ~ '_check\d*$')$$,
  'every constraint has a descriptive name');
select is_empty(
  $$select c.conrelid::regclass, c.conname from pg_constraint c join our_tables t on t.oid = c.conrelid
     where c.contype = 'f'
       and not exists (select from pg_index i
                        where i.indrelid = c.conrelid and i.indpred is null
                          and (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey)$$,
  'every foreign key has an index, so that a deletion does not read the whole table');
select is_empty(
  $$select c.conrelid::regclass, c.conname from pg_constraint c join our_tables t on t.oid = c.conrelid
     where c.contype = 'f' and c.confdeltype <> 'c'$$,
  'every foreign key cascades');
select is_empty(
  $$select p.polrelid::regclass, p.polname from pg_policy p join our_tables t on t.oid = p.polrelid where 0 = any (p.polroles)$$,
  'every policy names its roles');
select is_empty(
  $$select polrelid::regclass, a.polname, b.polname from pg_policy a join pg_policy b using (polrelid) join our_tables t on t.oid = polrelid
     where a.oid < b.oid and a.polpermissive and b.polpermissive and a.polroles && b.polroles
       and (a.polcmd = b.polcmd or '*' in (a.polcmd, b.polcmd))$$,
  'no two policies permit one command to one role');
select is_empty(
  $$select c.oid::regclass from pg_class c
     where c.relnamespace in ('public'::regnamespace, 'inspect'::regnamespace) and c.relkind = 'v'
       and not coalesce(c.reloptions @> array['security_invoker=true'], false)$$,
  'every view runs with the rights of the caller');
select is_empty(
  $$select c.oid::regclass from pg_class c
     where c.relnamespace = 'inspect'::regnamespace and c.relkind = 'v' and obj_description(c.oid) is null$$,
  'every view of inspect has a comment');
select is_empty(
  $$select schemaname, tablename from pg_publication_tables where pubname = 'supabase_realtime'$$,
  'no table is published: listeners receive ids by broadcast and read with their own rights');

select * from finish();
rollback;
