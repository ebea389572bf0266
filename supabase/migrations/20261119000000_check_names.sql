-- Applied before all others, by whichever tool: names everything that is in their way in one sentence, so that either
-- all of them can be applied or nothing is. Creates nothing.
do $$
declare
  -- What the migrations create in public, and all that they could clash with there; a test compares both with the
  -- catalog. Tables also bring a type of their name.
  tables constant text[] := array[
    'chat_files', 'chats', 'conversation_brief_drafts', 'conversation_brief_revisions', 'conversation_briefs', 'embedding_models', 'memories',
    'memory_entities', 'memory_extractions', 'memory_mentions', 'memory_relationships', 'memory_revisions', 'memory_sources', 'memory_users',
    'message_deltas', 'message_files', 'messages', 'topics', 'turn_index', 'usage_events'];
  indexes constant text[] := array[
    'chat_files_pkey', 'chat_files_user_id_idx', 'chats_active_on_idx', 'chats_expires_at_idx', 'chats_pkey', 'chats_user_id_idx',
    'conversation_brief_drafts_pkey', 'conversation_brief_drafts_user_id_idx', 'conversation_brief_revisions_fold_once_key',
    'conversation_brief_revisions_pkey', 'conversation_brief_revisions_user_id_idx', 'conversation_briefs_choose_model_idx',
    'conversation_briefs_compare_topics_idx', 'conversation_briefs_extract_due_at_idx', 'conversation_briefs_over_max_turns_idx', 'conversation_briefs_pkey',
    'conversation_briefs_thousands_to_fold_idx', 'conversation_briefs_to_assign_idx', 'conversation_briefs_to_extract_idx',
    'conversation_briefs_to_index_idx', 'conversation_briefs_topics_fade_at_idx', 'conversation_briefs_unreadable_idx', 'conversation_briefs_user_id_idx',
    'embedding_models_pkey', 'memories_content_key_key', 'memories_created_at_idx', 'memories_embedding_model_idx', 'memories_last_use_idx', 'memories_pkey',
    'memories_status_idx', 'memories_superseded_by_idx', 'memories_unlinked_idx', 'memories_user_id_id_key', 'memory_entities_pkey',
    'memory_entities_user_id_id_key', 'memory_entities_user_id_name_key_key', 'memory_extractions_chat_id_seq_from_key', 'memory_extractions_pkey',
    'memory_extractions_user_id_idx',
    'memory_mentions_entity_idx', 'memory_mentions_memory_idx', 'memory_mentions_pkey', 'memory_relationships_memory_idx', 'memory_relationships_open_key',
    'memory_relationships_pkey', 'memory_relationships_source_idx', 'memory_relationships_target_idx', 'memory_revisions_pkey',
    'memory_revisions_user_id_idx', 'memory_sources_message_id_idx', 'memory_sources_pkey', 'memory_sources_user_id_memory_id_idx',
    'memory_users_archived_from_idx', 'memory_users_fades_at_idx', 'memory_users_pkey', 'message_deltas_pkey', 'message_files_content_idx',
    'message_files_pkey', 'message_files_user_id_idx', 'messages_chat_id_seq_key', 'messages_client_message_id_key', 'messages_kept_idx',
    'messages_one_generation_key', 'messages_pkey', 'messages_superseded_idx', 'messages_system_idx',
    'messages_tool_name_idx', 'messages_user_id_chat_id_seq_idx', 'topics_active_idx',
    'topics_archived_bare_idx', 'topics_chat_id_number_key', 'topics_pkey', 'topics_rehydrated_idx', 'topics_stale_idx', 'topics_unpacked_idx',
    'topics_unsummarized_idx', 'topics_user_id_idx', 'turn_index_embedding_model_idx', 'turn_index_pkey', 'turn_index_to_choose_idx',
    'turn_index_to_embed_idx', 'turn_index_topic_idx', 'turn_index_tsv_idx', 'usage_events_created_at_idx', 'usage_events_pkey',
    'usage_events_user_id_created_at_idx'];
  me constant pg_roles := (select r from pg_roles r where r.rolname = current_user);
  users constant oid := (select c.oid from pg_class c where c.relname = 'users' and c.relnamespace = to_regnamespace('auth'));
  taken text;
  missing text;
  rights text;
  pgvector text := (select extversion from pg_extension where extname = 'vector');
  vectors text;
  before_release boolean := false;
begin
  select string_agg(found.name, ', ' order by found.place, found.name) into taken from (
    select 1 as place, 'schema ' || n.nspname as name from pg_namespace n where n.nspname in ('throughline', 'inspect', 'river')
    union all
    select 2, case c.relkind when 'i' then 'index' when 'v' then 'view' when 'S' then 'sequence' when 'c' then 'type' else 'table' end
              || ' public.' || c.relname
      from pg_class c
     where c.relnamespace = to_regnamespace('public') and c.relname = any (tables || indexes)
       -- An index of a table that is named is no news.
       and not exists (select from pg_index i join pg_class t on t.oid = i.indrelid where i.indexrelid = c.oid and t.relname = any (tables))
    union all
    select 3, 'type public.' || t.typname
      from pg_type t where t.typnamespace = to_regnamespace('public') and t.typname = any (tables) and t.typrelid = 0
    union all
    select 4, 'policy ' || p.polname || ' on realtime.messages'
      from pg_policy p join pg_class c on c.oid = p.polrelid
     where p.polname = 'throughline_chat_listeners' and c.relname = 'messages' and c.relnamespace = to_regnamespace('realtime')
    union all
    -- These may be there, because roles belong to the whole cluster, but not with other powers than ours have.
    select 5, 'role ' || r.rolname from pg_roles r
     where r.rolname in ('throughline_app', 'throughline_worker', 'throughline_server')
       and (r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolinherit = (r.rolname = 'throughline_server')
         or r.rolcanlogin and r.rolname <> 'throughline_server')) found;

  select string_agg(needed.name, ', ' order by needed.place, needed.name) into missing from (
    select 1 as place, 'role ' || name as name from unnest(array['anon', 'authenticated', 'service_role']) name where to_regrole(name) is null
    union all
    select 2, 'schema ' || name from unnest(array['auth', 'public']) name where to_regnamespace(name) is null
    union all
    select 3, 'table auth.users' where users is null
    union all
    select 4, 'function auth.uid()'
     where not exists (select from pg_proc p where p.proname = 'uid' and p.pronargs = 0 and p.pronamespace = to_regnamespace('auth'))) needed;

  if missing is null then
    select string_agg(needed.name, ', ' order by needed.place) into rights from (values
      (1, 'create schemas in this database', has_database_privilege(current_database(), 'create')),
      (2, 'create tables in the schema public', has_schema_privilege('public', 'create')),
      (3, 'create roles', me.rolsuper or me.rolcreaterole),
      (4, 'use the schema auth', has_schema_privilege('auth', 'usage')),
      (5, 'read auth.users', has_table_privilege(users, 'select') and (me.rolsuper or me.rolbypassrls)),
      (5, 'refer to auth.users', has_table_privilege(users, 'references')),
      -- Until Postgres 15 whoever may create roles may grant any.
      (6, 'grant anon and authenticated', me.rolsuper or current_setting('server_version_num')::int < 160000
          or pg_has_role('anon', 'member with admin option') and pg_has_role('authenticated', 'member with admin option'))
      ) needed (place, name, has) where not needed.has;
  end if;

  -- Whether a role may create the extension shows only an attempt, which the error at its end undoes.
  if missing is null and rights is null then
    begin
      if pgvector is null then
        create schema if not exists extensions;
        create extension vector with schema extensions;
        pgvector := (select extversion from pg_extension where extname = 'vector');
      end if;
      raise exception using errcode = 'TL002';
    exception
      when sqlstate 'TL002' then
        if pgvector ~ '^0\.[0-6](\.|$)' then
          vectors := format('pgvector %s is too old: install 0.7 or later on the server, and run "alter extension vector update" as a superuser', pgvector);
        end if;
      when insufficient_privilege then
        vectors := format('the role %s may not create the extension vector: run "create extension vector with schema extensions" as a superuser', current_user);
      when undefined_file or feature_not_supported then
        vectors := format('this server has no pgvector: install its package (on Debian: postgresql-%s-pgvector)',
          current_setting('server_version_num')::int / 10000);
    end;
  end if;

  if taken is not null and to_regclass('supabase_migrations.schema_migrations') is not null then
    execute 'select exists (select from supabase_migrations.schema_migrations where name = ''conversation_briefs'')' into before_release;
  end if;

  if taken is not null or missing is not null or rights is not null or vectors is not null then
    raise exception using errcode = 'TL001', message = 'Throughline cannot use this database, and nothing was applied: ' || concat_ws('; ',
      case when before_release then 'it was migrated by Throughline before its first release, which cannot be continued: '
        'use a new database, or delete .local/postgres if it is that of make run'
      when taken is not null then taken || ' already exist: rename what is yours, or use another database' end,
      missing || ' are missing: use the database of a Supabase project, or make run, which makes its own',
      'the role ' || current_user || ' may not ' || rights || ': connect as the role postgres of the project',
      vectors);
  end if;
end
$$;
