-- The rights to every relation and function of ours, from the catalog, and that nobody reaches the rows of another
-- user. A new relation or function that is not listed here fails.
begin;
\ir helpers.psql
\ir rows.psql

-- Our relations: those of these schemas.
create temp view ours as
  select c.oid, c.oid::regclass as name, n.nspname || '.' || c.relname as full_name, n.nspname as schema, c.relname, c.relkind
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where n.nspname in ('public', 'throughline', 'inspect', 'river', 'supabase_migrations') and c.relkind in ('r', 'p', 'v', 'm', 'f');

-- S, I, U, D: may select, insert, update or delete, at least some column. '' is no right at all.
create temp table expected (full_name text primary key, anon text, authenticated text, service_role text, throughline_app text, throughline_worker text);
insert into expected values
  -- relation                                anon  clients  service  server   jobs
  ('public.chats',                           '',   'SIUD',  'SIUD',  'SIUD',  ''),
  ('public.messages',                        '',   'S',     'SIUD',  'SIUD',  ''),
  ('public.conversation_briefs',             '',   '',      'SIUD',  'SU',    ''),
  ('public.conversation_brief_revisions',    '',   '',      'SIUD',  'SIU',   ''),
  ('public.conversation_brief_drafts',       '',   '',      'SIUD',  'S',     ''),
  ('public.message_deltas',                  '',   '',      'SIUD',  'SD',    ''),
  ('public.chat_files',                      '',   'S',     'SIUD',  'SID',   ''),
  ('public.message_files',                   '',   'S',     'SIUD',  'SID',   ''),
  ('public.embedding_models',                '',   '',      'SIUD',  'S',     ''),
  ('public.turn_index',                      '',   '',      'SIUD',  'S',     ''),
  ('public.topics',                          '',   'SU',    'SIUD',  'SU',    ''),
  ('public.memory_users',                    '',   'SIU',   'SIUD',  'SIU',   ''),
  ('public.memories',                        '',   'S',     'SIUD',  'SIUD',  ''),
  ('public.memory_sources',                  '',   'S',     'SIUD',  'SIUD',  ''),
  ('public.memory_revisions',                '',   '',      'SIUD',  'S',     ''),
  ('public.memory_extractions',              '',   '',      'SIUD',  'S',     ''),
  ('public.memory_entities',                 '',   'S',     'SIUD',  'SD',    ''),
  ('public.memory_relationships',            '',   'S',     'SIUD',  'S',     ''),
  ('public.memory_mentions',                 '',   '',      'SIUD',  'S',     ''),
  ('public.usage_events',                    '',   'S',     'SIUD',  'S',     ''),
  ('throughline.work',                       '',   '',      'S',     '',      ''),
  ('throughline.own_chats',                  '',   '',      '',      '',      'S'),
  ('throughline.own_messages',               '',   '',      '',      '',      'S'),
  ('throughline.own_briefs',                 '',   '',      '',      '',      'SU'),
  ('throughline.own_brief_revisions',        '',   '',      '',      '',      'SIU'),
  ('throughline.own_brief_drafts',           '',   '',      '',      '',      'SIU'),
  ('throughline.own_turn_index',             '',   '',      '',      '',      'SU'),
  ('throughline.messages_of_topics',         '',   '',      'S',     '',      ''),
  ('throughline.own_topics',                 '',   '',      '',      '',      'SIUD'),
  ('throughline.own_memory_users',           '',   '',      '',      '',      'SU'),
  ('throughline.own_memories',               '',   '',      '',      '',      'SIU'),
  ('throughline.own_memory_sources',         '',   '',      '',      '',      'SI'),
  ('throughline.own_memory_extractions',     '',   '',      '',      '',      'SI'),
  ('throughline.own_usage_events',           '',   '',      '',      '',      'S'),
  ('river.river_job',                        '',   '',      'S',     '',      '');
insert into expected select 'throughline.own_memory_' || name, '', '', '', '', 'S'
  from unnest(array['revisions', 'entities', 'relationships', 'mentions']) name;
insert into expected select 'inspect.' || name, '', '', 'S', '', '' from unnest(array[
  'briefs', 'buffers', 'revisions', 'turns', 'tokens_by_day', 'late_folds', 'unindexed', 'memories', 'memory_history', 'extractions', 'unextracted', 'graph',
  'topics', 'unassigned_turns', 'why']) name;
insert into expected select name, '', '', '', '', '' from unnest(array[
  'river.river_leader', 'river.river_queue', 'river.river_migration', 'river.river_notification', 'supabase_migrations.schema_migrations',
  'supabase_migrations.seed_files']) name;

-- A role's rights to a relation, as in expected.
create function pg_temp.rights(who text, relation oid) returns text language sql as $$
  select coalesce(string_agg(left(verb, 1), '' order by place), '')
    from unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) with ordinality verbs (verb, place)
   where has_schema_privilege(who, (select relnamespace from pg_class where oid = relation), 'usage')
     and (has_table_privilege(who, relation, verb) or verb <> 'DELETE' and has_any_column_privilege(who, relation, verb))
$$;

-- A statement of a verb (S, I, U, D) on a relation.
create function pg_temp.statement(verb text, relation regclass) returns text language sql as $$
  select case verb
    when 'S' then format('select %s from %s', columns, relation)
    when 'I' then format('insert into %1$s (%2$s) select %2$s from %1$s where false', relation, columns)
    when 'U' then format('update %s set %I = %2$I', relation, first)
    when 'D' then format('delete from %s', relation) end
    from (select string_agg(quote_ident(attname), ', ') as columns, min(attname::text) as first
            from pg_attribute where attrelid = relation and attnum > 0 and not attisdropped and attgenerated = '') named
$$;

-- The outcome of a statement on one user's rows of a table; see pg_temp.attempt.
create function pg_temp.reached(who text, verb text, relation regclass, owner text) returns text language sql as $$
  select pg_temp.attempt(who, pg_temp.statement(verb, relation) || format(' where user_id = %L', pg_temp.id(owner)))
$$;

create temp view tables_of_users as
  select o.*, e.authenticated, e.throughline_app from ours o left join expected e using (full_name)
   where o.relkind in ('r', 'p') and exists (select from pg_attribute a where a.attrelid = o.oid and a.attname = 'user_id' and not a.attisdropped);
create temp table actors (who text primary key, stranger boolean);
insert into actors values ('anon', true), ('A', false), ('B', true), ('app A', false), ('app B', true), ('app nobody', true), ('job A', true);

-- Without those that check rows: whoever writes one calls them.
create temp view functions_of_ours as
  select p.oid, p.proname as name, n.oid as schema, p.prosecdef
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
   where n.nspname in ('public', 'throughline', 'inspect', 'river')
     and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
     and not exists (select from pg_depend d where d.classid = 'pg_constraint'::regclass and d.refobjid = p.oid)
      ;
create function pg_temp.callable(who text) returns text language sql as $$
  select string_agg(name, ' ' order by name) from functions_of_ours
   where has_schema_privilege(who, schema, 'usage') and has_function_privilege(who, oid, 'execute')
$$;

select plan((select 5 * count(*) + 14 from expected)::int + (select 4 * 7 * count(*) + count(*) from tables_of_users)::int);

-- The list is complete.
select is_empty('select full_name from ours except select full_name from expected', 'each relation has its line above');
select is_empty($$select full_name from expected where full_name <> 'supabase_migrations.seed_files' except select full_name from ours$$,
  'and each line its relation');
select isnt_empty('select from tables_of_users', 'there are tables of users');

select is(case when to_regclass(e.full_name) is null then r.rights else pg_temp.rights(r.role, to_regclass(e.full_name)) end, r.rights,
  r.role || ' on ' || e.full_name)
  from expected e
 cross join lateral (values ('anon', anon), ('authenticated', authenticated), ('service_role', service_role), ('throughline_app', throughline_app),
   ('throughline_worker', throughline_worker)) r (role, rights);

-- What is not a right is refused when it is tried.
select is_empty(
  $$select o.full_name, a.who, verb, got from ours o
     cross join (values ('anon', 'anon'), ('A', 'authenticated'), ('service_role', 'service_role'), ('app A', 'throughline_app'),
       ('job A', 'throughline_worker')) a (who, role)
     cross join unnest(array['S', 'I', 'U', 'D']) verb
     cross join lateral (select pg_temp.attempt(a.who, pg_temp.statement(verb, o.name)) as got) tried
     where position(verb in pg_temp.rights(a.role, o.oid)) = 0 and got not in ('denied', '55000', '428C9')$$,
       -- a view that cannot be written, or has generated columns
  'what is not a right is refused');

-- Every table has rows of A, so that the tests mean something, and nobody but A reaches them.
select isnt(pg_temp.reached('service_role', 'S', t.name, 'A'), '0', t.full_name || ' has rows of A (rows.psql)') from tables_of_users t;
select ok(case when verb = 'I' and got <> 'denied' then not a.stranger or got = '0' -- inserts are tried below, with rows
               when a.stranger then got in ('denied', '0')
               else got = 'denied' or got ~ '^[0-9]+$' or got in ('23503', '428C9', '23514') end,
          format('%s, %s on %s: %s', a.who, verb, t.full_name, got))
  from tables_of_users t cross join actors a cross join unnest(array['S', 'I', 'U', 'D']) verb
 cross join lateral (select case verb when 'I' then pg_temp.attempt(a.who, pg_temp.statement('I', t.name))
   else pg_temp.reached(a.who, verb, t.name, 'A') end as got) tried;

-- A copy of a user's row with another user_id, and of another user's row with one's own, into every table.
create function pg_temp.copied(who text, relation regclass, owner text, as_whose text) returns text language plpgsql as $$
declare
  columns text;
  source text := 'copied_' || replace(relation::text, '.', '_');
begin
  select string_agg(quote_ident(attname), ', ') into columns
    from pg_attribute where attrelid = relation and attnum > 0 and not attisdropped and attgenerated = '' and attname <> 'user_id';
  execute format('create temp table if not exists %I as select * from %s', source, relation);
  execute format('grant select on %I to anon, authenticated, service_role, throughline_app', source);
  return pg_temp.attempt(who,
    format('insert into %1$s (user_id, %2$s) select %3$L, %2$s from %4$I where user_id = %5$L', relation, columns, pg_temp.id(as_whose), source,
    pg_temp.id(owner)));
end
$$;
select is_empty(
  $$select t.full_name, a.who, owner, as_whose, got from tables_of_users t cross join actors a
     cross join (values ('A', 'A'), ('A', 'B'), ('B', 'A')) copies (owner, as_whose)
     cross join lateral (select pg_temp.copied(a.who, t.name, owner, as_whose) as got) tried
     where (a.who in ('anon', 'A', 'B', 'app nobody') or as_whose <> right(a.who, 1))
       and got not in ('denied', '0', '23503') -- 23503: that user has no such chat
       and not (a.who ~ 'A|B' and as_whose = right(a.who, 1))$$,
  'nobody writes rows of another user');
select is(pg_temp.copied('service_role', 'public.message_files', 'A', 'A'), '23505', 'the test does insert: this copy is refused as a duplicate');

-- Functions: a client may call none, and the server only those that it needs.
select is(pg_temp.callable('anon'), null, 'anon may call nothing');
select is(pg_temp.callable('authenticated'), null, 'a signed-in user may call nothing');
select is(pg_temp.callable('throughline_app'),
  'content_key find_memories find_messages first_memories folded has_name index_rest index_turns is_put_off is_user_name keep_memories last_use '
  'merge_topics note_change '
  'recall_matches recall_nearness recall_size searchable similar_memories skip_extraction topic_messages touch_memories',
  'the server may call these');
select is(pg_temp.callable('throughline_worker'),
  'content_key folded hold_evidence index_turns is_put_off last_use link_memory merge_topics note_change recount_topic renew_centroids searchable '
  'similar_memories skip_extraction topic_messages touch_memories',
  'a job may call these');
select is(pg_temp.callable('service_role'),
  'content_key due_folds fold_is_due folded ids_in last_use number_in river_job_state_in_bitmask searchable sentences '
  'sentences_only_in topic_fades_after topic_half_life topic_priority',
  'service_role may call these');

-- The callable functions with their owner's rights find only what is the caller's.
select is(pg_temp.attempt(who, $$select from throughline.find_messages(to_tsquery('simple', 'hello'), null, null, null, null, 10)$$), found,
  who || ' finds ' || found)
  from (values ('app A', '1'), ('app nobody', '0')) expected_finds (who, found);
select is_empty(
  $$select who, call from unnest(array['app nobody', 'app A']) who
     cross join (values ('select from throughline.recall_matches(array[''hello''], pg_temp.id(''B''), null, 0, 0, 10, null)'),
                        ('select from throughline.recall_matches(array[''hello''], null, null, 0, 0, 10, null) m where m.chat_id not in (select id
                          from public.chats)'),
                        ('select from throughline.recall_matches(array[''hello''], null, null, 0, 0, 10, gen_random_uuid()) m
                          where m.chat_id not in (select id from public.chats)'),
                        ('select from throughline.recall_size(pg_temp.id(''B''), 0, 0)'),
                        ('select from throughline.topic_messages(pg_temp.id(''topic of B''))')) calls (call)
     where pg_temp.attempt(who, call) <> '0'$$,
  'recall and topics show nothing of another user');

select * from finish();
rollback;
