-- The columns of its own chats that a phone may write, and the schemas that no client may use.
begin;
\ir helpers.psql
select plan(92);

insert into public.chats (id, user_id) values (pg_temp.id('chat of A'), pg_temp.id('A'));

-- Exactly these columns, and nothing for anon.
create function pg_temp.columns_to(verb text) returns text language sql as $$
  select string_agg(concat_ws('.', table_name, column_name), ' ' order by table_name, column_name)
    from information_schema.column_privileges
   where table_schema = 'public' and grantee = 'authenticated' and privilege_type = verb
$$;
select is(pg_temp.columns_to('INSERT'), 'chats.id chats.max_turns chats.memory_strategy chats.metadata chats.remember chats.system_prompt chats.tags chats.title chats.topics chats.ttl_hours chats.user_id '
          'memory_users.enabled memory_users.excluded memory_users.language memory_users.time_zone memory_users.user_id',
          'authenticated may insert these columns');
select is(pg_temp.columns_to('UPDATE'), 'chats.max_turns chats.memory_strategy chats.metadata chats.remember chats.system_prompt chats.tags chats.title chats.topics chats.ttl_hours '
          'memory_users.enabled memory_users.excluded memory_users.language memory_users.time_zone '
          'topics.importance topics.tags topics.title',
          'authenticated may update these columns');
select is((select string_agg(concat_ws(' ', table_name, privilege_type), ', ' order by table_name, privilege_type)
             from information_schema.table_privileges where table_schema = 'public' and grantee = 'authenticated'),
          'chat_files SELECT, chats DELETE, chats SELECT, memory_entities SELECT, memory_relationships SELECT, memory_sources SELECT, message_files SELECT, messages SELECT',
          'authenticated has no other right to whole tables');
select is_empty(
  $$select table_schema, table_name, privilege_type from information_schema.table_privileges
     where table_schema in ('public', 'throughline', 'river', 'inspect') and grantee in ('anon', 'PUBLIC')$$,
  'anon has no right to any table');

-- Only the server writes these columns.
select is(pg_temp.attempt('A', format('update public.chats set %I = default where id = pg_temp.id(''chat of A'')', name)), 'denied',
          'A may not update chats.' || name)
  from unnest(array['id', 'user_id', 'last_seq', 'message_count', 'turn_count', 'last_message_at', 'tool_name', 'revived_at', 'expires_at', 'created_at', 'updated_at']) name;
select is(pg_temp.attempt('A', format('insert into public.chats (%I) values (default)', name)), 'denied',
          'A may not insert chats.' || name)
  from unnest(array['last_seq', 'message_count', 'turn_count', 'last_message_at', 'tool_name', 'revived_at', 'expires_at', 'created_at', 'updated_at']) name;
select is(pg_temp.attempt('A', 'insert into public.chats (title) values (''mine'')'), '1', 'A may insert a chat without a user_id');
select is(pg_temp.attempt('A', 'insert into public.chats default values returning user_id'), '1', 'and without any column');

-- What only the server uses of memories.
select is(pg_temp.attempt('A', format('select %I from public.%I', name, relation)), 'denied', format('A may not read %s.%s', relation, name))
  from (values ('memories', 'embedding'), ('memories', 'embedding_model'), ('memories', 'tsv'), ('memories', 'content_key'), ('memories', 'graph_version'),
    ('memory_users', 'lease_token'), ('memory_users', 'lease_until'), ('memory_users', 'paused_at'),
    ('topics', 'centroid'), ('topics', 'embedding_model'), ('topics', 'centroid_turns'), ('topics', 'archive'), ('topics', 'archive_sha256'), ('topics', 'rehydrated'),
    ('topics', 'lease_token'), ('topics', 'lease_until'), ('topics', 'retry_at')) columns (relation, name);
select is(pg_temp.attempt('A', format('update public.topics set %I = default', name)), 'denied', 'A may not update topics.' || name)
  from unnest(array['id', 'chat_id', 'user_id', 'number', 'title_seq', 'summary', 'importance_rated', 'access_count', 'message_count', 'centroid', 'state', 'merged_into',
                    'stale', 'version', 'archive', 'created_at', 'last_active_at']) name;
select is(pg_temp.attempt('A', format('update public.memory_users set %I = default', name)), 'denied', 'A may not update memory_users.' || name)
  from unnest(array['user_id', 'version', 'lease_token', 'lease_until', 'paused_at']) name;

-- The other schemas.
select is(has_schema_privilege(who, schema, 'usage'), false, who || ' may not use the schema ' || schema)
  from unnest(array['anon', 'authenticated']) who, unnest(array['throughline', 'river', 'inspect']) schema;
select is(pg_temp.attempt(who, statement), 'denied', who || ': ' || statement)
  from unnest(array['anon', 'A']) who,
       unnest(array['select from river.river_job', 'select from inspect.briefs', 'select from inspect.turns',
                    'select throughline.title_of(''x'')', 'select from inspect.due_folds()']) statement;
select is(has_schema_privilege('throughline_app', schema, 'usage'), false, 'throughline_app may not use the schema ' || schema)
  from unnest(array['river', 'inspect']) schema;
-- A check runs with the rights of who writes the row, and so does the trigger that counts its tokens.
select is_empty(
  $$select p.oid::regprocedure from pg_proc p
     where p.pronamespace in ('throughline'::regnamespace, 'inspect'::regnamespace)
       and not exists (select from pg_depend d where d.classid = 'pg_constraint'::regclass and d.refobjid = p.oid) and p.proname <> 'tokens_of'
       and (has_function_privilege('anon', p.oid, 'execute') or has_function_privilege('authenticated', p.oid, 'execute'))$$,
  'no client may call a function of ours, but for those that check rows');
select is_empty(
  $$select c.oid::regclass from pg_class c
     where c.relnamespace in ('throughline'::regnamespace, 'inspect'::regnamespace, 'river'::regnamespace) and c.relkind in ('r', 'v', 'm', 'S', 'p')
       and exists (select from unnest(array['anon', 'authenticated', 'throughline_app']) who
                    where has_table_privilege(who, c.oid, 'select') and c.relkind <> 'S' or c.relkind = 'S' and has_sequence_privilege(who, c.oid, 'usage'))$$,
  'no client and no user''s server role may read their relations');

-- service_role may read the views for people, and change no job.
select is(pg_temp.attempt('service_role', 'select from ' || relation), '1', 'service_role may read ' || relation)
  from unnest(array['inspect.briefs', 'inspect.buffers']) relation;
select is(pg_temp.attempt('service_role', 'select from ' || relation), '0', 'service_role may read ' || relation)
  from unnest(array['inspect.revisions', 'inspect.turns', 'inspect.tokens_by_day', 'inspect.late_folds']) relation;
select is(pg_temp.attempt('service_role', 'delete from river.river_job'), 'denied', 'service_role may not touch jobs');

select * from finish();
rollback;
