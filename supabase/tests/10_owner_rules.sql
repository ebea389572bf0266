-- What the app's owner adds to our tables: it binds clients and the server alike, never widens what the server reaches,
-- and never stops a job.
begin;
\ir helpers.psql
\ir rows.psql

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
    raise 'written by %', coalesce(auth.uid()::text, 'nobody');
  end if;
  return new;
end
$$;
grant usage on schema app to public;

-- The outcome of a statement under a rule of the app's; both are undone. See pg_temp.attempt.
create function pg_temp.under(rule text, who text, statement text) returns text language plpgsql as $$
declare
  outcome text;
begin
  execute rule;
  outcome := pg_temp.attempt(who, statement);
  raise exception using errcode = 'UNDO1', message = outcome;
exception
  when sqlstate 'UNDO1' then return sqlerrm;
end
$$;

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
  ('nothing', 'select');

create temp table expected (rule text, who text, statement text, outcome text);
insert into expected values
  ('a plan to write', 'app A', $$insert into public.messages (chat_id, role) values (pg_temp.id('chat of A'), 'user')$$, '1'),
  ('a plan to write', 'app B', $$insert into public.messages (chat_id, role) values (pg_temp.id('chat of B'), 'user')$$, 'denied'),
  ('a plan to write', 'app B', $$update public.messages set content = 'x'$$, '1'),
  ('a plan to read', 'app A', $$select from public.messages$$, '1'),
  ('a plan to read', 'app B', $$select from public.messages$$, '0'),
  ('a plan to read', 'B', $$select from public.messages$$, '0'),
  ('a plan to read', 'job B', $$select from throughline.own_messages$$, '1'),
  ('a subscription', 'app A', $$select from public.chats$$, '1'),
  ('a subscription', 'app B', $$select from public.chats$$, '0'),
  ('a subscription', 'app B', $$insert into public.chats (user_id) values (pg_temp.id('B'))$$, 'denied'),
  ('a subscription', 'job B', $$select from throughline.own_chats$$, '1'),
  ('a plan for briefs', 'app B', $$select from public.conversation_briefs$$, '0'),
  ('a plan for briefs', 'job B', $$update throughline.own_briefs set brief_tokens = 1$$, '1'),
  ('everybody reads', 'A', $$select from public.chats$$, '2'),
  ('everybody reads', 'app A', $$select from public.chats$$, '1'),
  ('everybody reads', 'app A', $$select from public.messages$$, '1'),
  ('everybody reads', 'app A', $$update public.messages set content = 'x'$$, '1'),
  ('everybody reads', 'app A', $$insert into public.chats (user_id) values (pg_temp.id('B'))$$, 'denied'),
  ('everybody reads', 'app nobody', $$select from public.messages$$, '0'),
  ('everybody reads', 'job A', $$select from throughline.own_messages$$, '1'),
  ('trigger on messages', 'app A', $$insert into public.messages (chat_id, role) values (pg_temp.id('chat of A'), 'user')$$, '1'),
  ('trigger on messages', 'app A', $$update public.messages set content = 'x'$$, '1'),
  ('trigger on briefs', 'app A', $$update public.conversation_briefs set brief_tokens = 1$$, '1'),
  ('trigger on briefs', 'job A', $$update throughline.own_briefs set brief_tokens = 1$$, '1'),
  ('clients do not write', 'A', $$update public.chats set title = 'x'$$, 'denied'),
  ('clients do not write', 'app A', $$update public.chats set title = 'x'$$, '1'),
  ('clients have no policies', 'A', $$select from public.messages$$, '0'),
  ('clients have no policies', 'app A', $$select from public.messages$$, '1'),
  ('clients have no policies', 'app A', $$update public.chats set title = 'x'$$, '1'),
  ('the server does not write', 'app A', $$insert into public.messages (chat_id, role) values (pg_temp.id('chat of A'), 'user')$$, 'denied'),
  ('no metadata', 'app A', $$select id from public.messages$$, '1'),
  ('no metadata', 'app A', $$select metadata from public.messages$$, 'denied'),
  ('a plan for memories', 'app A', $$select from public.memories$$, '1'),
  ('a plan for memories', 'app B', $$select from public.memories$$, '0'),
  ('a plan for memories', 'B', $$select content from public.memories$$, '0'),
  ('a plan for memories', 'app B', $$update public.memories set pinned = true$$, '0'),
  ('a plan for memories', 'app B', $$insert into public.memories (content) values ('x')$$, 'denied'),
  ('a plan for memories', 'job B', $$select from throughline.own_memories$$, '1'),
  ('a plan for memories', 'job B', $$insert into throughline.own_memories (user_id, content) values (pg_temp.id('B'), 'x')$$, '1'),
  ('everybody remembers', 'A', $$select content from public.memories$$, '2'),
  ('everybody remembers', 'app A', $$select from public.memories$$, '1'),
  ('everybody remembers', 'app A', $$select from public.memory_sources$$, '1'),
  ('everybody remembers', 'app A', $$update public.memories set pinned = true$$, '1'),
  ('everybody remembers', 'app A', $$update public.memory_users set enabled = false$$, '1'),
  ('everybody remembers', 'app A', $$insert into public.memories (user_id, content) values (pg_temp.id('B'), 'x')$$, 'denied'),
  ('everybody remembers', 'app nobody', $$select from public.memories$$, '0'),
  ('trigger on memories', 'app A', $$update public.memories set pinned = true$$, '1'),
  ('trigger on memories', 'job A', $$insert into throughline.own_memories (user_id, content) values (pg_temp.id('A'), 'x')$$, '1'),
  ('trigger on memories', 'job A', $$update throughline.own_memories set confidence = .5$$, '1'),
  ('a plan for topics', 'app A', $$select from public.topics$$, '1'),
  ('a plan for topics', 'app B', $$select from public.topics$$, '0'),
  ('a plan for topics', 'B', $$select title from public.topics$$, '0'),
  ('a plan for topics', 'app B', $$update public.topics set title = 'x'$$, '0'),
  ('a plan for topics', 'job B', $$update throughline.own_topics set stale = true$$, '1'),
  ('a plan to read', 'app A', $$select from throughline.topic_messages(pg_temp.id('topic of A'))$$, '1'),
  ('a plan to read', 'app B', $$select from throughline.topic_messages(pg_temp.id('topic of B'))$$, '0'),
  ('a plan to read', 'job B', $$select from throughline.topic_messages(pg_temp.id('topic of B'))$$, '1'),
  ('everybody sees topics', 'A', $$select title from public.topics$$, '2'),
  ('everybody sees topics', 'app A', $$select from public.topics$$, '1'),
  ('everybody sees topics', 'app A', $$update public.topics set title = 'x'$$, '1'),
  ('everybody sees topics', 'app nobody', $$select from public.topics$$, '0'),
  ('trigger on topics', 'app A', $$update public.messages set pinned = true$$, '1'),
  ('trigger on topics', 'app A', $$delete from public.messages$$, '1'),
  ('trigger on topics', 'job A', $$update throughline.own_topics set stale = true$$, '1'),
  ('nothing', 'job A', $$select from throughline.own_topics$$, '1'),
  ('nothing', 'job A', $$update throughline.own_topics set user_id = pg_temp.id('B')$$, '44000'),
  ('nothing', 'job A', $$update throughline.own_turn_index set topic_model = '', resting = true$$, '1'),
  ('nothing', 'job A', $$update throughline.own_turn_index set tsv = ''$$, 'denied'),
  ('nothing', 'job A', $$select from throughline.recount_topic(pg_temp.id('chat of B'), pg_temp.id('topic of B'))$$, '1'),
  ('nothing', 'job A', $$select from throughline.own_memories$$, '1'),
  ('nothing', 'job A', $$insert into throughline.own_memories (user_id, content) values (pg_temp.id('B'), 'x')$$, '44000'),
  ('nothing', 'job A', $$update throughline.own_memories set user_id = pg_temp.id('B')$$, '44000'),
  ('nothing', 'job A', $$update throughline.own_memory_users set lease_token = gen_random_uuid(), lease_until = now()$$, '1'),
  ('nothing', 'job A',
    $$select from throughline.hold_evidence(array[pg_temp.id('message of A'), pg_temp.id('message of B')], array[md5('hello'), md5('hello')])$$, '1'),
  -- Jobs are confined to their user without any rule.
  ('nothing', 'job A', $$select from throughline.own_chats where id = pg_temp.id('chat of B')$$, '0'),
  ('nothing', 'job A', $$select from throughline.own_messages$$, '1'),
  ('nothing', 'job A', $$update throughline.own_briefs set brief_tokens = 1$$, '1'),
  ('nothing', 'job A', $$update throughline.own_briefs set user_id = pg_temp.id('B')$$, '44000'), -- the view's check option
  ('nothing', 'job A', $$update throughline.own_brief_revisions set global_summary = null$$, '1'),
  ('nothing', 'job A', $$insert into throughline.own_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, input_tokens, output_tokens,
       prompt_mode, prompt_ref, model, duration_ms, input_sha256)
     values (pg_temp.id('chat of B'), pg_temp.id('B'), 2, 'fold', 2, 2, 1, 1, 1, 'inline', 'summary@1', 'm', 1, '')$$, '44000'),
  ('nothing', 'job nobody', $$select from throughline.own_messages$$, '0'),
  ('nothing', 'job A', $$select from public.messages$$, 'denied');

select plan((select count(*)::int from expected) + 6);

select is(pg_temp.under(r.rule, e.who, e.statement), e.outcome, e.rule || ': ' || e.who || ': ' || regexp_replace(e.statement, '\s+', ' ', 'g'))
  from expected e join rules r on r.name = e.rule;

-- The server's roles, and the condition that stands once more on every table that the server reaches.
select ok(pg_has_role('throughline_app', 'authenticated', 'usage'), 'throughline_app has the rights of authenticated');
select ok(not pg_has_role('throughline_worker', 'authenticated', 'usage'), 'throughline_worker has not');
select ok(not pg_has_role('throughline_worker', 'authenticated', 'member'), 'and may not take them');
select is(count(*), 0::bigint, 'neither is more than that') from pg_roles
 where rolname ~ '^throughline_' and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolcanlogin or rolreplication);
select isnt_empty($$select from pg_policies where 'throughline_app' = any (roles)$$, 'the server has policies');
select is_empty(
  $$select c.relname from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relname <> 'embedding_models'
       and has_any_column_privilege('throughline_app', c.oid, 'select')
       and not exists (select from pg_policies p where p.schemaname = 'public' and p.tablename = c.relname and p.permissive = 'RESTRICTIVE'
                          and p.roles = '{throughline_app}' and p.cmd = 'ALL'
                          and p.qual = '(( SELECT auth.uid() AS uid) = user_id)' and p.with_check = p.qual)$$,
  'each table of users has the restrictive policy of the server');

select * from finish();
rollback;
