-- What the app's owner adds to our tables: it binds clients and the server alike, never widens what the server reaches,
-- and never stops a job.
begin;
\ir helpers.psql
\ir rows.psql
select * from no_plan();

-- An app with subscriptions, which signed-in users may read; only A has one.
create schema app;
grant usage on schema app to authenticated;
create table app.subscriptions (user_id uuid primary key);
insert into app.subscriptions values (pg_temp.id('A'));
alter table app.subscriptions enable row level security;
create policy own on app.subscriptions for select to authenticated using ((select auth.uid()) = user_id);
grant select on app.subscriptions to authenticated;
-- Its triggers work with the rights of whoever writes.
create function app.needs_a_user() returns trigger language plpgsql as $$
begin
  if auth.uid() is distinct from new.user_id then
    raise 'written by %', coalesce(auth.uid()::text, 'none');
  end if;
  return new;
end
$$;
grant usage on schema app to public;

create temp table rules (name text primary key, rule text);
insert into rules values
  ('a plan to write', $$create policy paid on public.messages as restrictive for insert to authenticated
     with check ((select auth.jwt() -> 'app_metadata' ->> 'plan') = 'pro')$$),
  ('a plan to read', $$create policy paid on public.messages as restrictive for select
     using ((select auth.jwt() -> 'app_metadata' ->> 'plan') = 'pro')$$),
  ('a subscription', $$create policy subscribed on public.chats as restrictive
     using (exists (select from app.subscriptions s where s.user_id = public.chats.user_id))$$),
  ('a plan for briefs', $$create policy paid on public.conversation_briefs as restrictive
     using ((select auth.jwt() -> 'app_metadata' ->> 'plan') = 'pro' and exists (select from app.subscriptions))$$),
  ('everybody reads', $$create policy everybody on public.chats using (true) with check (true);
     create policy everybody on public.messages using (true) with check (true)$$),
  ('trigger on messages', $$create trigger whose before insert or update on public.messages for each row execute function app.needs_a_user()$$),
  ('trigger on briefs', $$create trigger whose before insert or update on public.conversation_briefs for each row execute function app.needs_a_user()$$),
  ('clients do not write', $$revoke insert, update, delete on public.chats from authenticated$$),
  ('clients have no policies', $$drop policy chats_select on public.chats; drop policy chats_update on public.chats;
     drop policy messages_select on public.messages$$),
  ('the server does not write', $$revoke insert on public.messages from throughline_app$$),
  ('no metadata', $$revoke select on public.messages from throughline_app, authenticated; grant select (id) on public.messages to authenticated$$),
  ('a plan for memories', $$create policy paid on public.memories as restrictive
     using ((select auth.jwt() -> 'app_metadata' ->> 'plan') = 'pro')$$),
  ('everybody remembers', $$create policy everybody on public.memories using (true) with check (true);
     create policy everybody on public.memory_sources using (true) with check (true);
     create policy everybody on public.memory_users using (true) with check (true)$$),
  ('trigger on memories', $$create trigger whose before insert or update on public.memories for each row execute function app.needs_a_user()$$),
  ('a plan for topics', $$create policy paid on public.topics as restrictive
     using ((select auth.jwt() -> 'app_metadata' ->> 'plan') = 'pro')$$),
  ('everybody sees topics', $$create policy everybody on public.topics using (true) with check (true)$$),
  ('trigger on topics', $$create trigger whose before insert or update on public.topics for each row execute function app.needs_a_user()$$),
  ('clients edit messages', $$grant update on public.messages to authenticated; create policy edits on public.messages for update to authenticated
     using ((select auth.uid()) = user_id)$$),
  ('nothing', 'select');

-- By rule, the outcome of a statement for each role.
create temp table expected (rule text, statement text, outcomes text);
insert into expected values
  ('a plan to write', $$insert into public.messages (chat_id, role) values (pg_temp.id('chat of A'), 'user')$$, 'app A: 1'),
  ('a plan to write', $$insert into public.messages (chat_id, role) values (pg_temp.id('chat of B'), 'user')$$, 'app B: denied'),
  ('a plan to write', $$update public.messages set content = 'x'$$, 'app B: 1'),
  ('a plan to read', $$select from public.messages$$, 'app A: 1, app B: 0, B: 0'),
  ('a plan to read', $$select from throughline.own_messages$$, 'job B: 1'),
  ('a subscription', $$select from public.chats$$, 'app A: 1, app B: 0'),
  ('a subscription', $$insert into public.chats (user_id) values (pg_temp.id('B'))$$, 'app B: denied'),
  ('a subscription', $$select from throughline.own_chats$$, 'job B: 1'),
  ('a plan for briefs', $$select from public.conversation_briefs$$, 'app B: 0'),
  ('a plan for briefs', $$update throughline.own_briefs set brief_tokens = 1$$, 'job B: 1'),
  ('everybody reads', $$select from public.chats$$, 'A: 2, app A: 1'),
  ('everybody reads', $$select from public.messages$$, 'app A: 1, app none: 0'),
  ('everybody reads', $$update public.messages set content = 'x'$$, 'app A: 1'),
  ('everybody reads', $$insert into public.chats (user_id) values (pg_temp.id('B'))$$, 'app A: denied'),
  ('everybody reads', $$select from throughline.own_messages$$, 'job A: 1'),
  ('trigger on messages', $$insert into public.messages (chat_id, role) values (pg_temp.id('chat of A'), 'user')$$, 'app A: 1'),
  ('trigger on messages', $$update public.messages set content = 'x'$$, 'app A: 1'),
  ('trigger on briefs', $$update public.conversation_briefs set brief_tokens = 1$$, 'app A: 1'),
  ('trigger on briefs', $$update throughline.own_briefs set brief_tokens = 1$$, 'job A: 1'),
  ('clients edit messages', $$update public.messages set content = 'x', rating = 1$$, 'A: 1, B: 1'),
  ('clients do not write', $$update public.chats set title = 'x'$$, 'A: denied, app A: 1'),
  ('clients have no policies', $$select from public.messages$$, 'A: 0, app A: 1'),
  ('clients have no policies', $$update public.chats set title = 'x'$$, 'app A: 1'),
  ('the server does not write', $$insert into public.messages (chat_id, role) values (pg_temp.id('chat of A'), 'user')$$, 'app A: denied'),
  ('no metadata', $$select id from public.messages$$, 'app A: 1'),
  ('no metadata', $$select metadata from public.messages$$, 'app A: denied'),
  ('a plan for memories', $$select from public.memories$$, 'app A: 1, app B: 0'),
  ('a plan for memories', $$select content from public.memories$$, 'B: 0'),
  ('a plan for memories', $$update public.memories set pinned = true$$, 'app B: 0'),
  ('a plan for memories', $$insert into public.memories (content) values ('x')$$, 'app B: denied'),
  ('a plan for memories', $$select from throughline.own_memories$$, 'job B: 1'),
  ('a plan for memories', $$insert into throughline.own_memories (user_id, content) values (pg_temp.id('B'), 'x')$$, 'job B: 1'),
  ('everybody remembers', $$select content from public.memories$$, 'A: 2'),
  ('everybody remembers', $$select from public.memories$$, 'app A: 1, app none: 0'),
  ('everybody remembers', $$select from public.memory_sources$$, 'app A: 1'),
  ('everybody remembers', $$update public.memories set pinned = true$$, 'app A: 1'),
  ('everybody remembers', $$update public.memory_users set enabled = false$$, 'app A: 1'),
  ('everybody remembers', $$insert into public.memories (user_id, content) values (pg_temp.id('B'), 'x')$$, 'app A: denied'),
  ('trigger on memories', $$update public.memories set pinned = true$$, 'app A: 1'),
  ('trigger on memories', $$insert into throughline.own_memories (user_id, content) values (pg_temp.id('A'), 'x')$$, 'job A: 1'),
  ('trigger on memories', $$update throughline.own_memories set confidence = .5$$, 'job A: 1'),
  ('a plan for topics', $$select from public.topics$$, 'app A: 1, app B: 0'),
  ('a plan for topics', $$select title from public.topics$$, 'B: 0'),
  ('a plan for topics', $$update public.topics set title = 'x'$$, 'app B: 0'),
  ('a plan for topics', $$update throughline.own_topics set stale = true$$, 'job B: 1'),
  ('a plan to read', $$select from throughline.topic_messages(pg_temp.id('topic of A'))$$, 'app A: 1'),
  ('a plan to read', $$select from throughline.topic_messages(pg_temp.id('topic of B'))$$, 'app B: 0, job B: 1'),
  ('everybody sees topics', $$select title from public.topics$$, 'A: 2'),
  ('everybody sees topics', $$select from public.topics$$, 'app A: 1, app none: 0'),
  ('everybody sees topics', $$update public.topics set title = 'x'$$, 'app A: 1'),
  ('trigger on topics', $$update public.messages set pinned = true$$, 'app A: 1'),
  ('trigger on topics', $$delete from public.messages$$, 'app A: 1'),
  ('trigger on topics', $$update throughline.own_topics set stale = true$$, 'job A: 1'),
  -- Jobs are confined to their user without any rule. 44000 is a view's check option.
  ('nothing', $$select from throughline.own_topics$$, 'job A: 1'),
  ('nothing', $$update throughline.own_topics set user_id = pg_temp.id('B')$$, 'job A: 44000'),
  ('nothing', $$update throughline.own_turn_index set topic_model = '', resting = true$$, 'job A: 1'),
  ('nothing', $$update throughline.own_turn_index set tsv = ''$$, 'job A: denied'),
  ('nothing', $$select from throughline.recount_topic(pg_temp.id('chat of B'), pg_temp.id('topic of B'))$$, 'job A: 1'),
  ('nothing', $$select from throughline.own_memories$$, 'job A: 1'),
  ('nothing', $$insert into throughline.own_memories (user_id, content) values (pg_temp.id('B'), 'x')$$, 'job A: 44000'),
  ('nothing', $$update throughline.own_memories set user_id = pg_temp.id('B')$$, 'job A: 44000'),
  ('nothing', $$update throughline.own_memory_users set fades_at = now()$$, 'job A: 1'),
  ('nothing', $$select from throughline.hold_evidence(array[pg_temp.id('message of A'), pg_temp.id('message of B')],
     array[md5('hello'), md5('hello')])$$, 'job A: 1'),
  ('nothing', $$select from throughline.own_chats where id = pg_temp.id('chat of B')$$, 'job A: 0'),
  ('nothing', $$select from throughline.own_messages$$, 'job A: 1, job none: 0'),
  ('nothing', $$update throughline.own_briefs set brief_tokens = 1$$, 'job A: 1'),
  ('nothing', $$update throughline.own_briefs set user_id = pg_temp.id('B')$$, 'job A: 44000'),
  ('nothing', $$update throughline.own_brief_revisions set global_summary = null$$, 'job A: denied'),
  ('nothing', $$insert into throughline.own_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, input_tokens, output_tokens,
       prompt_mode, prompt_ref, model, duration_ms, input_sha256)
     values (pg_temp.id('chat of B'), pg_temp.id('B'), 2, 'fold', 2, 2, 1, 1, 1, 'inline', 'summary@1', 'm', 1, '')$$, 'job A: 44000'),
  ('nothing', $$select from public.messages$$, 'job A: denied');

create temp view cases as
  select e.rule, e.statement, split_part(o.outcome, ': ', 1) as who, split_part(o.outcome, ': ', 2) as outcome
    from expected e, unnest(string_to_array(e.outcomes, ', ')) o (outcome);
select is(pg_temp.after(r.rule, format('select pg_temp.attempt(%L, %L)', e.who, e.statement)), e.outcome,
    e.rule || ': ' || e.who || ': ' || regexp_replace(e.statement, '\s+', ' ', 'g'))
  from cases e join rules r on r.name = e.rule;

-- The server's roles, and the condition that stands once more on every table that the server reaches.
select ok(pg_has_role('throughline_app', 'authenticated', 'usage'), 'throughline_app has the rights of authenticated');
select ok(not pg_has_role('throughline_worker', 'authenticated', 'usage'), 'throughline_worker has not');
select ok(not pg_has_role('throughline_worker', 'authenticated', 'member'), 'and may not take them');
select is(count(*), 0::bigint, 'neither is more than that') from pg_roles
 where rolname ~ '^throughline_' and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb
   or rolcanlogin and rolname <> 'throughline_server' or rolreplication);
select isnt_empty($$select from pg_policies where 'throughline_app' = any (roles)$$, 'the server has policies');
select is_empty(
  $$select c.relname from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relname <> 'embedding_models'
       and has_any_column_privilege('throughline_app', c.oid, 'select')
       and not exists (select from pg_policies p where p.schemaname = 'public' and p.tablename = c.relname and p.permissive = 'RESTRICTIVE'
                          and p.roles = '{throughline_app}' and p.cmd = 'ALL'
                          and p.qual = '(( SELECT throughline.uid() AS uid) = user_id)' and p.with_check = p.qual)$$,
  'each table of users has the restrictive policy of the server');

select * from finish();
rollback;
