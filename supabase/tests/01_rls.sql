-- What only rows decide: 09_rights.sql has the rights of every role to every table, and that nobody reaches rows of another user.
-- By statement and role: the number of rows, 'denied', or the error.
begin;
\ir helpers.psql
\ir rows.psql

-- How many rows of each table each role sees: its own, or none.
create function pg_temp.seen(who text, relation regclass) returns text language sql as $$
  select pg_temp.attempt(who, format('select from %s', relation))
$$;
create temp view tables_of_users as
  select c.oid::regclass as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'user_id'
   where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p');

create temp table matrix (statement text, anon text, a text, b text, service text, app_a text, app_b text, app_nobody text);
insert into matrix values
  -- statement                                                                     anon      A         B         service_role app A   app B     app nobody
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
  ($$update public.conversation_brief_revisions set global_summary = null$$,      'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$update public.conversation_brief_revisions set turns = 9$$,                  'denied', 'denied', 'denied', '2',      'denied', 'denied', 'denied'),
  -- The server inserts deltas as itself, for all users at once; as a user it may read and delete them.
  ($$insert into public.message_deltas (message_id, user_id, start_char, delta)
     values (pg_temp.id('message of A'), pg_temp.id('A'), 6, 'x')$$,              'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
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

select plan((select count(*)::int * 7 from matrix) + (select count(*)::int * 2 from tables_of_users));

select is(pg_temp.attempt(e.who, m.statement), e.outcome, e.who || ': ' || regexp_replace(m.statement, '\s+', ' ', 'g'))
  from matrix m
 cross join lateral (values
   ('anon', m.anon), ('A', m.a), ('B', m.b), ('service_role', m.service),
   ('app A', m.app_a), ('app B', m.app_b), ('app nobody', m.app_nobody)) e (who, outcome);
select is(concat_ws(' ', pg_temp.seen('app A', name), pg_temp.seen('app B', name), pg_temp.seen('app nobody', name)), '1 1 0',
  'the server sees a user''s rows of ' || name)
  from tables_of_users;
select ok(concat_ws(' ', pg_temp.seen('A', name), pg_temp.seen('B', name), pg_temp.seen('anon', name)) in ('1 1 denied', 'denied denied denied'),
  'a phone sees its user''s rows of ' || name) from tables_of_users;

select * from finish();
rollback;
