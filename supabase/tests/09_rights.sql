-- The rights to every relation, column and function of ours, from the catalog, that no user reaches the rows of another one, and
-- what only rows decide. A new relation or function that is not listed here fails.
begin;
\ir helpers.psql
\ir rows.psql
select * from no_plan();

-- Our relations: those of these schemas.
create temp view ours as
  select c.oid, c.oid::regclass as name, n.nspname || '.' || c.relname as full_name, n.nspname as schema, c.relname, c.relkind
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where n.nspname in ('public', 'throughline', 'inspect', 'river', 'supabase_migrations') and c.relkind in ('r', 'p', 'v', 'm', 'f');

-- S, I, U, D: may select, insert, update or delete, at least some column. '' is no right at all.
create temp table expected (full_name text primary key, anon text, authenticated text, service_role text, throughline_app text, throughline_worker text);
insert into expected select 'public.' || name, '', clients, 'SIUD', server, '' from (values
  -- table                           clients  server
  ('chats',                           'SIUD',   'SIUD'),
  ('messages',                        'S',      'SIUD'),
  ('conversation_briefs',             '',       'SU'),
  ('conversation_brief_revisions',    '',       'SI'),
  ('conversation_brief_drafts',       '',       'S'),
  ('message_deltas',                  '',       'SIUD'),
  ('chat_files',                      'S',      'SID'),
  ('message_files',                   'S',      'SID'),
  ('embedding_models',                '',       'S'),
  ('turn_index',                      '',       'S'),
  ('topics',                          'SU',     'SU'),
  ('memory_users',                    'SIU',    'SIU'),
  ('memories',                        'S',      'SIUD'),
  ('memory_sources',                  'S',      'SIUD'),
  ('memory_revisions',                '',       'S'),
  ('memory_extractions',              '',       'S'),
  ('memory_entities',                 'S',      'SD'),
  ('memory_relationships',            'S',      'S'),
  ('memory_mentions',                 '',       'S'),
  ('usage_events',                    'S',      'S')) tables (name, clients, server);
insert into expected select 'throughline.own_' || name, '', '', '', '', jobs from (values
  ('S', array['messages', 'usage_events', 'memory_revisions', 'memory_entities', 'memory_relationships', 'memory_mentions']),
  ('SU', array['chats', 'briefs', 'turn_index', 'memory_users']),
  ('SI', array['brief_revisions']), ('SIU', array['brief_drafts', 'memories']),
  ('SIUD', array['topics']),
  ('SI', array['memory_sources', 'memory_extractions'])) views (jobs, names), unnest(names) name;
insert into expected values
  ('throughline.work', '', '', 'S', '', ''), ('throughline.accounts', '', '', 'S', '', ''), ('throughline.departed', '', '', 'S', '', ''),
  ('throughline.issuers', '', '', 'S', '', ''), ('throughline.deleted_messages', '', '', 'S', '', ''), ('throughline.servers', '', '', 'S', '', ''),
  ('throughline.message_versions', '', '', '', 'S', ''), ('throughline.listed_messages', '', '', '', 'S', ''),
  ('throughline.messages_of_topics', '', '', 'S', '', ''), ('river.river_job', '', '', 'S', '', '');
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
   where has_table_privilege(who, relation, verb) or verb <> 'DELETE' and has_any_column_privilege(who, relation, verb)
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
insert into actors values ('anon', true), ('A', false), ('B', true), ('app A', false), ('app B', true), ('app none', true), ('job A', true);

-- Without functions that check rows: whoever writes one calls them.
create temp view functions_of_ours as
  select p.oid, p.proname as name, n.oid as schema, p.prosecdef
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
   where n.nspname in ('public', 'throughline', 'inspect', 'river')
     and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
     and not exists (select from pg_depend d where d.classid = 'pg_constraint'::regclass and d.refobjid = p.oid);
create function pg_temp.callable(who text) returns text language sql as $$
  select string_agg(name, ' ' order by name) from functions_of_ours
   where has_schema_privilege(who, schema, 'usage') and has_function_privilege(who, oid, 'execute')
$$;

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

-- What a server connects as owns nothing, cannot do more by itself than this, and sees no row of a user.
select is((select string_agg(o.full_name || ' ' || pg_temp.rights('throughline_server', o.oid), ', ' order by o.full_name collate "C") from ours o
            where pg_temp.rights('throughline_server', o.oid) <> '' and o.schema <> 'river'),
  'public.embedding_models SIU, public.usage_events SI, supabase_migrations.schema_migrations S, throughline.issuers S, throughline.work S',
  'throughline_server reaches these tables, which have no words');
select is_empty($$select p.tablename, p.policyname from pg_policies p
  where p.roles && array['throughline_server', 'public']::name[]
    and p.tablename not in ('embedding_models', 'issuers', 'usage_events', 'work') and p.schemaname <> 'realtime'$$,
  'and no policy gives it others');
select is_empty($$select p.schemaname, p.tablename from pg_policies p
  where p.roles && array['throughline_app', 'public']::name[] and p.permissive = 'PERMISSIVE'
    and p.schemaname <> 'realtime' and p.tablename <> 'embedding_models'
    and not exists (select from pg_policies r
      where (r.schemaname, r.tablename, r.permissive, r.cmd) = (p.schemaname, p.tablename, 'RESTRICTIVE', 'ALL') and r.roles = '{throughline_app}'
        and r.qual = '(( SELECT throughline.uid() AS uid) = user_id)' and r.with_check = r.qual)$$,
  'throughline_app is confined to the rows of its user wherever a policy gives it any');
select is((select array[rolsuper, rolbypassrls, rolinherit, rolcreaterole, rolcreatedb] from pg_roles where rolname = 'throughline_server'),
  array[false, false, false, false, false], 'it has no powers');
select is((select string_agg(r.rolname, ' ') from pg_auth_members m join pg_roles r on r.oid = m.roleid where m.member = 'throughline_server'::regrole),
  'throughline_app', 'it is a member of throughline_app alone');
select is_empty($$select oid::regclass from pg_class where relowner = 'throughline_server'::regrole$$, 'it owns nothing');
select is(pg_temp.callable('throughline_server'),
  'abandon_replies admit_user cancelled_replies count_bare_turns count_memories delete_deltas erase_account hurry_extractions interrupt_replies '
  'oldest_unextracted record_deltas renew_server restore_briefs retry_work river_job_state_in_bitmask set_extract_due uid', 'it may call these');
select is_empty(
  $$select format('%s.%s', p.pronamespace::regnamespace, p.proname) from pg_proc p
     where p.pronamespace = 'throughline'::regnamespace and p.prosecdef and has_function_privilege('throughline_server', p.oid, 'execute')
       and pg_get_function_result(p.oid) not in ('void', 'uuid', 'SETOF uuid', 'bigint', 'double precision', 'TABLE(status text, memories bigint)')$$,
  'of which none gives back words');

-- Exactly these columns, and nothing for anon. Of tables of which it may read all, the columns are not listed.
create function pg_temp.columns_to(verb text) returns text language sql as $$
  select string_agg(p.table_name || '(' || p.columns || ')', ' ' order by p.table_name collate "C")
    from (select table_name, string_agg(column_name, ' ' order by column_name collate "C") as columns
            from information_schema.column_privileges c
           where table_schema = 'public' and grantee = 'authenticated' and privilege_type = verb
             and not exists (select from information_schema.table_privileges t
                              where t.table_schema = 'public' and t.table_name = c.table_name and t.grantee = 'authenticated' and t.privilege_type = verb)
           group by table_name) p
$$;
select is(pg_temp.columns_to('SELECT'),
  'memories(access_count confidence conflicts_with content created_at durable edited id lang last_accessed memory_type origin pinned recorded_at retracted_at '
  'source_session_id status superseded_by updated_at user_id valid_from valid_precision valid_to version) '
  'memory_users(created_at enabled excluded language time_zone updated_at user_id version) '
  'topics(access_count chat_id compacted_messages compacted_seq created_at first_seq id importance importance_rated last_active_at '
  'last_seq merged_into message_count number stale state summary summary_seq summary_tokens tags title title_seq user_id version)',
  'authenticated may read these columns');
select is(pg_temp.columns_to('INSERT'),
  'chats(id max_turns memory_strategy metadata recall remember system_prompt tags title topics ttl_hours user_id) '
  'memory_users(enabled excluded language time_zone user_id)', 'authenticated may insert these columns');
select is(pg_temp.columns_to('UPDATE'),
  'chats(max_turns memory_strategy metadata recall remember system_prompt tags title topics ttl_hours) memory_users(enabled excluded language time_zone) '
  'topics(importance tags title)', 'authenticated may update these columns');
select is_empty(
  $$select table_schema, table_name, grantee, privilege_type from information_schema.table_privileges
     where table_schema in ('public', 'throughline', 'river', 'inspect') and grantee in ('anon', 'authenticated', 'PUBLIC')
       and (privilege_type not in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') or grantee = 'PUBLIC')$$, 'no client may do anything else, and PUBLIC nothing');

-- A call without a right is refused when it is tried.
select is_empty(
  $$select o.full_name, a.who, verb, got from ours o
     cross join (values ('anon', 'anon'), ('A', 'authenticated'), ('service_role', 'service_role'), ('app A', 'throughline_app'),
       ('job A', 'throughline_worker')) a (who, role)
     cross join unnest(array['S', 'I', 'U', 'D']) verb
     cross join lateral (select pg_temp.attempt(a.who, pg_temp.statement(verb, o.name)) as got) tried
     where position(verb in pg_temp.rights(a.role, o.oid)) = 0 and got not in ('denied', '55000', '428C9')$$,
       -- a view that cannot be written, or has generated columns
  'a call without a right is refused');

-- Every table has rows of A, so that the tests mean something, and only A reaches them.
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
     where (a.who in ('anon', 'A', 'B', 'app none') or as_whose <> right(a.who, 1))
       and got not in ('denied', '0', '23503') -- 23503: that user has no such chat
       and not (a.who ~ 'A|B' and as_whose = right(a.who, 1))$$,
  'no user writes rows of another one');
select is(pg_temp.copied('service_role', 'public.message_files', 'A', 'A'), '23505', 'the test does insert: this copy is refused as a duplicate');

-- What only rows decide. By statement and role: the number of rows, 'denied', or the error.
create temp table matrix (statement text, anon text, a text, b text, service text, app_a text, app_b text, app_none text);
insert into matrix values
  -- statement                                                                     anon      A         B         service_role app A   app B     app none
  ($$insert into public.chats (title) values ('mine')$$,                          'denied', '1',      '1',      '23502',  '1',      '1',      'denied'),
  ($$insert into public.chats (user_id) values (pg_temp.id('A'))$$,               'denied', '1',      'denied', '1',      '1',      'denied', 'denied'),
  ($$update public.chats set title = 'x'$$,                                       'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$update public.chats set user_id = pg_temp.id('B')
      where id = pg_temp.id('chat of A')$$,                                       'denied', 'denied', 'denied', '1',      'denied', '0',      '0'),
  ($$delete from public.chats where id = pg_temp.id('chat of A')$$,               'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  ($$insert into public.messages (chat_id, user_id, role)
     values (pg_temp.id('chat of A'), pg_temp.id('A'), 'user')$$,                 'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  -- Without a user_id the message gets the chat's, and the policies still apply.
  ($$insert into public.messages (chat_id, role)
     values (pg_temp.id('chat of A'), 'user')$$,                                  'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  -- A message of B in A's chat: for B there is no such chat.
  ($$insert into public.messages (chat_id, user_id, role)
     values (pg_temp.id('chat of A'), pg_temp.id('B'), 'user')$$,                 'denied', 'denied', 'denied', '23503',  '23503',  '23503',  '23503'),
  ($$update public.messages set content = 'x'$$,                                  'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$delete from public.messages where id = pg_temp.id('message of A')$$,         'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$update public.conversation_briefs set user_id = pg_temp.id('B')
      where chat_id = pg_temp.id('chat of A')$$,                                  'denied', 'denied', 'denied', '1',      'denied', '0',      '0'),
  -- The server may only redact a revision.
  ($$update public.conversation_brief_revisions set global_summary = null$$,      'denied', 'denied', 'denied', '2',      'denied', 'denied', 'denied'),
  ($$update public.conversation_brief_revisions set turns = 9$$,                  'denied', 'denied', 'denied', '2',      'denied', 'denied', 'denied'),
  -- The server inserts deltas as itself, for all users at once; as a user what it takes to go on with a reply.
  ($$insert into public.message_deltas (message_id, user_id, start_char, delta)
     values (pg_temp.id('message of A'), pg_temp.id('A'), 6, 'x')$$,              'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  ($$delete from public.message_deltas$$,                                         'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  -- Memories are written by the server and its jobs; a phone reads them and changes the user's settings.
  ($$select * from public.memories$$,                                             'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$insert into public.memories (user_id, content)
     values (pg_temp.id('A'), 'x')$$,                                             'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  ($$update public.memories set user_id = pg_temp.id('B')
      where id = pg_temp.id('memory of A')$$,                                     'denied', 'denied', 'denied', '23503',  'denied', '0',      '0'),
  ($$update public.memory_users set enabled = false$$,                            'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$update public.memory_users set version = 9$$,                                'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$insert into public.memory_users (user_id, enabled) values (pg_temp.id('A'), false)
     on conflict (user_id) do update set enabled = excluded.enabled$$,            'denied', '1',      'denied', '1',      '1',      'denied', 'denied'),
  -- A source belongs to the user of its memory.
  ($$insert into public.memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, said_at)
     values (pg_temp.id('memory of A'), pg_temp.id('message of B'), pg_temp.id('B'), pg_temp.id('chat of B'), 1, 'x', now())$$,
                                                                                  'denied', 'denied', 'denied', '23503',  'denied', '23503',  'denied'),
  ($$truncate public.chats cascade$$,                                             'denied', 'denied', 'denied', '0',      'denied', 'denied', 'denied');

select is(pg_temp.attempt(e.who, m.statement), e.outcome, e.who || ': ' || regexp_replace(m.statement, '\s+', ' ', 'g'))
  from matrix m
 cross join lateral (values
   ('anon', m.anon), ('A', m.a), ('B', m.b), ('service_role', m.service),
   ('app A', m.app_a), ('app B', m.app_b), ('app none', m.app_none)) e (who, outcome);
create function pg_temp.seen(relation regclass, variadic whos text[]) returns text language sql as $$
  select string_agg(pg_temp.attempt(who, format('select from %s', relation)), ' ' order by place) from unnest(whos) with ordinality w (who, place)
$$;
select is(pg_temp.seen(name, 'app A', 'app B', 'app none'), '1 1 0', 'the server sees a user''s rows of ' || name)
  from tables_of_users where schema = 'public';
select is(pg_temp.seen(name, 'A', 'B', 'anon'), case when authenticated ~ 'S' then '1 1 denied' else 'denied denied denied' end,
  'a phone sees its user''s rows of ' || name) from tables_of_users where schema = 'public';

-- No client may use our schemas, nor the server those of jobs and of people. Functions: a client may call none, and the server
-- only the needed ones.
select is_empty(
  $$select who, schema from unnest(array['anon', 'authenticated', 'throughline_app']) who, unnest(array['throughline', 'river', 'inspect']) schema
     where has_schema_privilege(who, schema, 'usage') and (who, schema) <> ('throughline_app', 'throughline')$$, 'these may use no schema');
select is_empty(
  $$select who, name from functions_of_ours, unnest(array['anon', 'authenticated']) who
     where schema <> 'river'::regnamespace and name <> 'uid' and has_function_privilege(who, oid, 'execute')$$,
  'nor, were it theirs, call a function of ours but that of policies');
select is_empty(
  $$select c.oid::regclass, who from pg_class c, unnest(array['anon', 'authenticated', 'throughline_app']) who
     where c.relnamespace in ('throughline'::regnamespace, 'inspect'::regnamespace, 'river'::regnamespace) and c.relkind = 'S'
       and has_sequence_privilege(who, c.oid, 'usage')$$, 'nor count with a sequence');
select is(pg_temp.callable('anon'), null, 'anon may call nothing');
select is(pg_temp.callable('authenticated'), null, 'a signed-in user may call nothing');
select is(pg_temp.callable('throughline_app'),
  'admit_turn admit_user allow_turn close_parts content_key count_replaced end_calls find_memories find_messages first_memories folded has_name '
  || 'hold_account index_rest index_turns is_abandoned '
  'is_put_off is_user_name keep_memories last_use merge_topics note_change '
  'recall_matches recall_nearness recall_size recorded_after roll_back searchable select_version shown_after signs_of similar_memories '
  'skip_extraction title_of topic_messages touch_memories uid used',
  'the server may call these');
select is(pg_temp.callable('throughline_worker'),
  'content_key folded hold_evidence index_turns is_put_off last_use link_memory merge_topics note_change recount_topic renew_centroids searchable '
  'signs_of similar_memories skip_extraction topic_messages touch_memories uid',
  'a job may call these');
select is(pg_temp.callable('service_role'),
  'content_key due_folds fold_is_due folded ids_in last_use number_in river_job_state_in_bitmask searchable sentences '
  'sentences_only_in signs_of topic_fades_after topic_half_life topic_priority uid',
  'service_role may call these');

-- The callable functions with their owner's rights find only the caller's rows.
select is(pg_temp.attempt(who, $$select from throughline.find_messages(to_tsquery('simple', 'hello'), null, null, null, null, 10)$$), found,
  who || ' finds ' || found)
  from (values ('app A', '1'), ('app none', '0')) expected_finds (who, found);
select is_empty(
  $$select who, call from unnest(array['app none', 'app A']) who
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
