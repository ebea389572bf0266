-- The columns that a phone may read and write, and the schemas that no client may use.
begin;
\ir helpers.psql
select plan(11);

insert into public.chats (id, user_id) values (pg_temp.id('chat of A'), pg_temp.id('A'));

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
select is((select string_agg(concat_ws(' ', table_name, privilege_type), ', ' order by table_name, privilege_type)
             from information_schema.table_privileges where table_schema = 'public' and grantee = 'authenticated'),
  'chat_files SELECT, chats DELETE, chats SELECT, memory_entities SELECT, memory_relationships SELECT, memory_sources SELECT, '
  'message_files SELECT, messages SELECT, usage_events SELECT', 'authenticated has no other right to whole tables');
select is_empty(
  $$select table_schema, table_name, privilege_type from information_schema.table_privileges
     where table_schema in ('public', 'throughline', 'river', 'inspect') and grantee in ('anon', 'PUBLIC')$$,
  'anon has no right to any table');
select is(pg_temp.attempt('A', 'update public.chats set turn_count = default'), 'denied', 'A may not update a column of the server''s');
select is(pg_temp.attempt('A', 'insert into public.chats (title) values (''mine'')'), '1', 'A may insert a chat without a user_id');
select is(pg_temp.attempt('A', 'insert into public.chats default values returning user_id'), '1', 'and without any column');

-- The other schemas.
select is_empty(
  $$select who, schema from unnest(array['anon', 'authenticated', 'throughline_app']) who, unnest(array['throughline', 'river', 'inspect']) schema
     where has_schema_privilege(who, schema, 'usage') and (who, schema) <> ('throughline_app', 'throughline')$$,
  'no client may use our schemas, nor the server those of jobs and of people');
-- A check runs with the rights of who writes the row.
select is_empty(
  $$select p.oid::regprocedure from pg_proc p
     where p.pronamespace in ('throughline'::regnamespace, 'inspect'::regnamespace)
       and not exists (select from pg_depend d where d.classid = 'pg_constraint'::regclass and d.refobjid = p.oid)
        
       and (has_function_privilege('anon', p.oid, 'execute') or has_function_privilege('authenticated', p.oid, 'execute'))$$,
  'no client may call a function of ours, but for those that check rows');
select is_empty(
  $$select c.oid::regclass from pg_class c
     where c.relnamespace in ('throughline'::regnamespace, 'inspect'::regnamespace, 'river'::regnamespace) and c.relkind in ('r', 'v', 'm', 'S', 'p')
       and exists (select from unnest(array['anon', 'authenticated', 'throughline_app']) who
                    where has_table_privilege(who, c.oid, 'select') and c.relkind <> 'S' or c.relkind = 'S' and has_sequence_privilege(who, c.oid, 'usage'))$$,
  'no client and no user''s server role may read their relations');

select * from finish();
rollback;
