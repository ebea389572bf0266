-- Whose rows there are: the user of a token of any issuer, accounts on first sight, and what is left of who was erased.
begin;
\ir helpers.psql
select * from no_plan();

insert into throughline.issuers values ('https://one.example'), ('https://two.example/'), ('https://cell.example/auth/v1');

-- As PostgREST does it, for a user of an issuer.
create function pg_temp.sign_in(iss text, sub text) returns void language sql as $$
  select set_config('request.jwt.claims', json_build_object('iss', iss, 'sub', sub, 'role', 'authenticated')::text, true),
    set_config('role', 'authenticated', true)
$$;
create function pg_temp.uid_of(iss text, sub text) returns text language plpgsql as $$
begin
  return throughline.user_of(jsonb_build_object('iss', iss, 'sub', sub))::text;
exception when others then return sqlstate;
end
$$;
create function pg_temp.start_chat(iss text, sub text) returns text language plpgsql as $$
declare
  outcome text;
begin
  perform pg_temp.sign_in(iss, sub);
  begin
    insert into public.chats (title) values (sub);
    outcome := 'started';
  exception when others then
    get stacked diagnostics outcome = constraint_name;
    outcome := coalesce(nullif(outcome, ''), sqlstate);
  end;
  perform set_config('role', 'none', true);
  return outcome;
end
$$;
-- The watch of the tests does not know a row that a part of its transaction made.
do $$
declare
  name text;
begin
  for name in select tgname from pg_trigger where tgrelid = 'public.chats'::regclass and tgname ~ 'testkit' loop
    execute format('drop trigger %I on public.chats', name);
  end loop;
end
$$;

select is(pg_temp.uid_of(iss, sub), id, format('%s of %s', sub, iss)) from (values
  -- Computed by internal/auth, whose test has the same.
  ('https://one.example', 'user_2x', '93c5ac61-8cf8-8d91-8370-f0aee887c4b7'),
  ('https://two.example/', 'user_2x', 'aa7ebfe5-f3fe-8af8-bee2-89ef7b80f524'),
  ('https://one.example', 'Zoë|日本', 'cdc61b21-de12-8cc3-b2d9-87e3cbedff19'),
  ('https://cell.example/auth/v1', pg_temp.id('A')::text, pg_temp.id('A')::text),
  ('https://project.example/auth/v1', pg_temp.id('A')::text, pg_temp.id('A')::text),
  ('https://two.example', 'user_2x', '22P02')) cases (iss, sub, id);
select is(pg_temp.uid_of(null, pg_temp.id('A')::text), pg_temp.id('A')::text, 'a token without an issuer names its sub');
select isnt(pg_temp.uid_of('https://one.example', 'u'), pg_temp.uid_of('https://two.example/', 'u'), 'one sub of two issuers is two users');
select isnt(pg_temp.uid_of('https://one.example', pg_temp.id('A')::text), pg_temp.id('A')::text, 'a uuid of another issuer is nobody else''s');

-- Through PostgREST's role: each sees only their own.
select is(pg_temp.start_chat('https://one.example', 'u'), 'started', 'a user of a listed issuer starts a chat');
select is(pg_temp.start_chat('https://two.example/', 'u'), 'started', 'the same sub of another one does too');
select is(pg_temp.start_chat('https://one.example', pg_temp.id('A')::text), 'started', 'and one whose sub is the id of A');
select is(pg_temp.start_chat('https://project.example/auth/v1', pg_temp.id('A')::text), 'started', 'A does');
select is(pg_temp.start_chat('https://cell.example/auth/v1', pg_temp.id('far')::text), 'started', 'a user of another project that is listed');
select is(pg_temp.start_chat('https://project.example/auth/v1', pg_temp.id('none')::text), 'chats_user_id_fkey', 'a user without a login is refused');
select is(pg_temp.start_chat('https://unlisted.example', 'u'), '22P02', 'a text of an issuer that is not listed names no user');
select results_eq(
  $$select coalesce(a.issuer, ''), coalesce(a.subject, ''), a.auth_id is not null, count(c.id) from throughline.accounts a join public.chats c using (user_id)
     group by 1, 2, 3 order by 1, 2$$,
  $$select * from (values ('https://cell.example/auth/v1', pg_temp.id('far')::text, false, 1::bigint),
      ('https://one.example', pg_temp.id('A')::text, false, 1), ('https://one.example', 'u', false, 1),
      ('https://project.example/auth/v1', pg_temp.id('A')::text, true, 1), ('https://two.example/', 'u', false, 1)) v order by 1, 2$$,
  'one account each, linked where there is a login');
create function pg_temp.chats_of(iss text, sub text) returns bigint language plpgsql as $$
declare
  found bigint;
begin
  perform pg_temp.sign_in(iss, sub);
  select count(*) into found from public.chats;
  perform set_config('role', 'none', true);
  return found;
end
$$;
-- In every table that a phone may read, too, and in one of the app's as docs/auth.md has it.
create table public.notes (id uuid primary key default gen_random_uuid(), user_id uuid not null default throughline.uid(), chat_id uuid not null);
alter table public.notes enable row level security;
create policy own on public.notes to authenticated using (user_id = (select throughline.uid())
  and exists (select from public.chats c where c.id = notes.chat_id and c.user_id = notes.user_id));
grant select, insert on public.notes to authenticated;
select set_config('request.jwt.claims', '', true);
insert into public.messages (chat_id, role, content) select id, 'user', 'I play the cello.' from public.chats;
create function pg_temp.sees(iss text, sub text) returns text language plpgsql as $$
declare
  me constant uuid := throughline.user_of(jsonb_build_object('iss', iss, 'sub', sub));
  seen text := '';
  name text;
  own bigint;
  foreign_rows bigint;
begin
  perform pg_temp.sign_in(iss, sub);
  insert into public.notes (chat_id) select id from public.chats;
  for name in select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'user_id'
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and has_table_privilege(c.oid, 'select') order by 1 loop
    execute format('select count(*) filter (where user_id = $1), count(*) filter (where user_id <> $1) from public.%I', name)
       into own, foreign_rows using me;
    seen := seen || case when own + foreign_rows > 0 then format('%s %s %s, ', name, own, foreign_rows) else '' end;
  end loop;
  perform set_config('role', 'none', true);
  return seen;
end
$$;
select is(pg_temp.sees(issuer, subject), 'chats 1 0, messages 1 0, notes 1 0, ', format('%s of %s sees no row of others', subject, issuer))
  from throughline.accounts where issuer is not null;
select is(pg_temp.chats_of(issuer, subject), 1::bigint, format('%s of %s sees one chat', subject, issuer)) from throughline.accounts where issuer is not null;
select is(pg_temp.attempt('service_role', $$insert into public.chats (user_id) values (pg_temp.id('none'))$$), '23503', 'no role makes an account of nobody');

-- Who was erased does not come back with the token that is still good, nor by a login that is still there.
select throughline.erase_account(pg_temp.id('A')), throughline.erase_account(throughline.foreign_user('https://one.example', 'u'));
select is(pg_temp.start_chat('https://one.example', 'u'), 'TL005', 'an erased user starts no chat');
select is(pg_temp.start_chat('https://project.example/auth/v1', pg_temp.id('A')::text), 'TL005', 'nor does one who can still sign in');
select is((select count(*) from public.chats), 3::bigint, 'the chats of others are there');
select is((select string_agg(why, ' ') from throughline.departed), 'erased erased', 'and two tombstones');
select throws_ok($$select throughline.admit_user(jsonb_build_object('sub', pg_temp.id('A')))$$, 'TL005', 'the account was erased', 'the server is told');
select lives_ok($$select throughline.erase_account(pg_temp.id('A'))$$, 'who is gone may be erased again');

-- Who is served where: each row of the order counts before those below it. A tombstone holds without cells, too.
insert into throughline.accounts (user_id) select pg_temp.id(u) from unnest(array['here', 'back', 'leaving']) u on conflict do nothing;
insert into throughline.departed (user_id, why, cell) values
  (pg_temp.id('leaving'), 'moving', 'c'), (pg_temp.id('unseen'), 'moving', 'c'), (pg_temp.id('back'), 'moved', 'c'),
  (pg_temp.id('moved'), 'moved', 'c'), (pg_temp.id('gone'), 'erased', null);
create function pg_temp.admitted(who text, named text, here text, admits_new boolean, begun boolean) returns text language plpgsql as $$
declare
  cell text;
begin
  return (throughline.admit_user(json_build_object('sub', pg_temp.id(who), 'app_metadata', named::json)::jsonb, here, admits_new, begun)
    = pg_temp.id(who))::text;
exception when others then
  get stacked diagnostics cell = pg_exception_detail;
  return trim(sqlstate || ' ' || cell);
end
$$;
select is(pg_temp.admitted(who, named, here, admits_new, begun), outcome,
    format('%s, claim %s, in cell %s%s%s', who, coalesce(named, 'none'), coalesce(here, 'none'),
    case when admits_new then ', which admits new users' else '' end, case when begun then ', a reply that had begun' else '' end)) from (values
  ('leaving', '{"cell": "b"}', 'b', true, false, 'TL006'), ('leaving', null, null, false, false, 'TL006'),
  ('unseen', '{"cell": "b"}', 'b', true, false, 'TL006'),
  ('leaving', '{"cell": "c"}', 'b', false, true, 'true'), ('leaving', null, null, false, true, 'true'),
  ('here', '{"cell": "c"}', 'b', false, false, 'true'), ('back', '{"cell": "c"}', 'b', false, false, 'true'), ('back', null, null, false, false, 'true'),
  ('moved', '{"cell": "b"}', 'b', true, false, 'TL007 c'), ('moved', null, null, false, false, 'TL007 c'),
  ('moved', '{"cell": "b"}', 'b', true, true, 'TL007 c'),
  ('gone', '{"cell": "c"}', 'b', true, false, 'TL005'), ('gone', null, null, false, false, 'TL005'),
  ('new', '{"cell": "c"}', 'b', true, false, 'TL007 c'), ('new', '{"cell": "b"}', 'b', false, false, 'true'),
  ('new', '{"cell": "c"}', null, false, false, 'true'), ('new', null, null, false, false, 'true'),
  ('new', null, 'b', true, false, 'true'), ('new', null, 'b', false, false, 'TL007'),
  ('new', '{"cell": null}', 'b', false, false, 'TL007'), ('new', '{"cell": ""}', 'b', true, false, 'true'), ('new', '["b"]', 'b', false, false, 'TL007'),
  ('new', '{"cell": {"b": 1}}', 'b', true, false, 'TL007 {"b": 1}')) cases (who, named, here, admits_new, begun, outcome);
select throws_ok($$select throughline.erase_account(pg_temp.id('leaving'))$$, 'TL006', 'the user is being moved',
  'who is being moved is not erased: the copy would stay');
select lives_ok($$select throughline.erase_account(pg_temp.id('moved'))$$, 'who has moved is, in either cell');

select * from finish();
rollback;
