-- A chat is a tree of messages, of which one path is read: parents, versions, and going back to one.
begin;
\ir helpers.psql
select plan(30);

call pg_temp.chat('tree');
-- A message of the chat; superseded where it is said by what.
create procedure pg_temp.say(name text, speaker text, superseded_by text default null, parent text default null, answers text default null) language sql as $$
  insert into public.messages (id, chat_id, role, content, superseded_by, parent_id, reply_to)
  values (pg_temp.id(name), pg_temp.id('tree'), speaker, name, pg_temp.id(superseded_by), pg_temp.id(parent), pg_temp.id(answers))
$$;
create procedure pg_temp.leave(names text[], by text) language sql as $$
  update public.messages set superseded_by = pg_temp.id(by) where id in (select pg_temp.id(n) from unnest(names) n)
$$;
create function pg_temp.name_of(message uuid) returns text language sql stable as $$ select content from public.messages where id = message $$;
create function pg_temp.path() returns text language sql volatile as $$
  select string_agg(content, ' ' order by seq) from public.messages where chat_id = pg_temp.id('tree') and superseded_by is null
$$;
create function pg_temp.parents() returns text language sql stable as $$
  select string_agg(format('%s<%s', content, pg_temp.name_of(parent_id)), ' ' order by seq) from public.messages where chat_id = pg_temp.id('tree')
$$;
create function pg_temp.versions(name text) returns text language sql stable as $$
  select string_agg(pg_temp.name_of(version_id) || case when selected then '*' else '' end, ' ' order by seq)
    from throughline.message_versions where message_id = pg_temp.id(name)
$$;
create function pg_temp.selected(name text) returns text language sql as $$
  select format('from %s to %s: ', from_seq, pg_temp.name_of(last_message_id)) from throughline.select_version(pg_temp.id(name))
$$;

-- Parents.
insert into public.messages (id, chat_id, role, content, reply_to) values
  (pg_temp.id('u1'), pg_temp.id('tree'), 'user', 'u1', null), (pg_temp.id('a1'), pg_temp.id('tree'), 'assistant', 'a1', pg_temp.id('u1'));
call pg_temp.say('u2', 'user');
call pg_temp.say('a2', 'assistant', answers => 'u2');
select is(pg_temp.parents(), 'u1< a1<u1 u2<a1 a2<u2', 'each follows the one before, also of one statement');
call pg_temp.leave('{u2,a2}', 'u2b');
call pg_temp.say('u2b', 'user', parent => 'u2');
select is(pg_temp.parents(), 'u1< a1<u1 u2<a1 a2<u2 u2b<a1', 'the path''s last message is the parent, whatever the writer says');
call pg_temp.say('a2b', 'assistant', answers => 'u2b');
call pg_temp.leave('{a2b}', 'a2c');
call pg_temp.say('a2c', 'assistant', answers => 'u2b');
call pg_temp.say('u3', 'user');
call pg_temp.say('old', 'assistant', 'a2c', 'u2b', 'u2b');
call pg_temp.say('older', 'user', 'u3');
select is((select parent_id from public.messages where id = pg_temp.id('old')), pg_temp.id('u2b'), 'what is superseded already names its parent');
select is((select parent_id from public.messages where id = pg_temp.id('older')), null, 'or none');
select throws_ok($$call pg_temp.say('stray', 'user', 'u3', 'nothing')$$, '23503', 'the parent is no message of the chat', 'but none that is not there');
call pg_temp.chat('another');
insert into public.messages (id, chat_id, role, content) values (pg_temp.id('elsewhere'), pg_temp.id('another'), 'user', 'x');
select throws_ok($$call pg_temp.say('stray', 'user', 'u3', 'elsewhere')$$, '23503', null, 'nor one of another chat');
delete from public.messages where content in ('old', 'older');

-- Versions.
select is(pg_temp.path(), 'u1 a1 u2b a2c u3', 'the path');
select is(pg_temp.versions(name), versions, 'the versions of ' || name) from (values
  ('u1', 'u1*'), ('u2', 'u2 u2b*'), ('u2b', 'u2 u2b*'), ('a2', 'a2'), ('a2b', 'a2b a2c*'), ('a2c', 'a2b a2c*')) v (name, versions);
select is((select string_agg(format('%s %s/%s', content, version, versions), ', ' order by seq) from throughline.listed_messages
            where chat_id = pg_temp.id('tree')),
  'u1 1/1, a1 1/1, u2 1/2, a2 1/1, u2b 2/2, a2b 1/2, a2c 2/2, u3 1/1', 'their numbers');
update public.messages set status = 'failed', content = '' where id = pg_temp.id('a2b');
select is(pg_temp.versions('a2c'), 'a2c*', 'a reply that failed before it said a word is no version');
select is((select format('%s of %s', version, versions) from throughline.listed_messages where id = pg_temp.id('a2b')), '1 of 1', 'though it has some');
update public.messages set status = 'complete', content = 'a2b' where id = pg_temp.id('a2b');

-- Going back.
select is(pg_temp.selected('u2') || pg_temp.path(), 'from 3 to a2: u1 a1 u2 a2', 'back to a message, and on to its reply');
select is((select string_agg(distinct pg_temp.name_of(superseded_by), ' ') from public.messages
            where id in (pg_temp.id('u2b'), pg_temp.id('a2c'), pg_temp.id('u3'))),
  'u2', 'what left says by which');
select is((select string_agg(content || ' ' || token_count, ', ' order by seq) from public.messages where chat_id = pg_temp.id('tree') and token_count > 0),
  'u1 1, a1 1, u2 1, a2 1', 'what came back counts');
select is(pg_temp.versions('u2b'), 'u2* u2b', 'versions know which is read');
select is(pg_temp.selected('a2b') || pg_temp.path(), 'from 3 to a2b: u1 a1 u2b a2b', 'to a reply of another branch');
select is(pg_temp.selected('u3') || pg_temp.path(), 'from 6 to u3: u1 a1 u2b a2c u3', 'to the end of one');
select is(pg_temp.selected('u2') || pg_temp.selected('u2b') || pg_temp.path(), 'from 3 to a2: from 3 to u3: u1 a1 u2b a2c u3', 'on to the latest that follows');

-- A first message has versions, too; what a deletion brings together are none.
call pg_temp.leave('{u1,a1,u2b,a2c,u3}', 'v1');
call pg_temp.say('v1', 'user');
select is(pg_temp.versions('u1') || ', ' || pg_temp.path(), 'u1 v1*, v1', 'of the first message');
select is(pg_temp.selected('u1') || pg_temp.path(), 'from 1 to u3: u1 a1 u2b a2c u3', 'and back');
delete from public.messages where id = pg_temp.id('a1');
select is(pg_temp.parents(), 'u1< u2<u1 a2<u2 u2b<u1 a2b<u2b a2c<u2b u3<a2c v1<', 'children of a deleted message move to its parent');
select is(pg_temp.versions('u2b'), 'u2 u2b*', 'and are versions of each other yet');
delete from public.messages where id = pg_temp.id('u1');
select is(pg_temp.versions('v1') || ', ' || pg_temp.versions('u2'), 'v1, u2 u2b*', 'but of no other');

select is(pg_temp.attempt('app A', $$select from throughline.listed_messages$$), '8', 'the server reads the user''s own');
select is(pg_temp.attempt('app B', $$select from throughline.message_versions$$), '0', 'and nothing of others');

select * from finish();
rollback;
