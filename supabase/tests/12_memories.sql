-- Memories: their keys, revisions and versions, what becomes of them when what they were made of is edited or deleted, and
-- the messages never read for them.
begin;
\ir helpers.psql
select plan(81);

-- Keys: what reads alike is alike.
select is(throughline.folded(text), expected, format('%L is folded', text))
  from (values ('Likes C++.', 'likes c++'), ('likes  c', 'likes c'), ('Likes C#!', 'likes c#'), ('-5 degrees', '-5 degrees'),
    ('is 5, or 10-20', 'is 5 or 10 20'),
    (E'\u201cCaf\u00e9\u201d \u2013 \uff21\uff22\uff23\u3000wide', E'caf\u00e9 abc wide'),
      (E'\u65e5\u672c\u8a9e\u3001\u3067\u3059\u3002', E'\u65e5\u672c\u8a9e \u3067\u3059'),
    (E'\u0645\u0631\u062d\u0628\u0627\u061f', E'\u0645\u0631\u062d\u0628\u0627'), ('don''t / won''t', 'don t won t'), ('!!!', '!!!'),
      ('a_b|c`d', 'a b c d')) cases (text, expected);
select is(throughline.content_key('Plays the  cello.'), throughline.content_key('plays the cello'), 'two spellings have one key');
select isnt(throughline.content_key('Likes C#'), throughline.content_key('Likes C++'), 'two languages have two');

insert into public.chats (id, user_id) select pg_temp.id(name), pg_temp.id('A') from unnest(array['one', 'two', 'three']) name;
create procedure pg_temp.say(chat text, name text, content text, role text default 'user') language sql as $$
  insert into public.messages (id, chat_id, role, content) values (pg_temp.id(name), pg_temp.id(chat), role, content)
$$;

-- As the extraction does it.
create procedure pg_temp.remember(name text, content text) language plpgsql as $$
begin
  perform pg_temp.become('job A');
  perform throughline.touch_memories(pg_temp.id('A')), throughline.note_change('ADD', 'the model''s reason: ' || content, 'model', 'm', 'consolidate@1');
  insert into throughline.own_memories (id, user_id, content, source_session_id) values (pg_temp.id(name), pg_temp.id('A'), content, pg_temp.id('one'));
  reset role;
end
$$;
create procedure pg_temp.source(memory text, message text, fact text) language plpgsql as $$
begin
  perform pg_temp.become('job A');
  insert into throughline.own_memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
  select pg_temp.id(memory), m.id, m.user_id, m.chat_id, m.seq, $3, left(m.content, 200), '2026-03-01'::timestamptz + m.seq * interval '1 minute'
    from throughline.own_messages m where m.id = pg_temp.id(message);
  reset role;
end
$$;
create procedure pg_temp.change(memory text, content text, action text default 'UPDATE') language plpgsql as $$
begin
  perform pg_temp.become('job A');
  perform throughline.touch_memories(pg_temp.id('A')), throughline.note_change(action, 'the model''s reason: ' || $2, 'model', 'm', 'consolidate@1');
  update throughline.own_memories m set content = $2 where id = pg_temp.id(memory);
  reset role;
end
$$;
-- The rest of a memory: its content and status.
create function pg_temp.memory(name text) returns text language sql stable as $$
  select format('%s (%s)', content, status) from public.memories where id = pg_temp.id(name)
$$;
create function pg_temp.history(name text) returns text language sql stable as $$
  select string_agg(concat_ws(' ', version, actor, action, coalesce(content, '-')), ', ' order by version) from public.memory_revisions
    where memory_id = pg_temp.id(name)
$$;
create function pg_temp.sources(name text) returns text language sql stable as $$
  select string_agg(coalesce(fact, '-'), ', ' order by said_at) from public.memory_sources where memory_id = pg_temp.id(name)
$$;
create function pg_temp.user_version() returns bigint language sql stable as $$
  select version from public.memory_users where user_id = pg_temp.id('A')
$$;
create function pg_temp.without(messages text[], question text) returns text language sql as $$
  select pg_temp.after(pg_temp.deletion(messages), 'select ' || question)
$$;

-- Revisions and versions.
call pg_temp.remember('cello', 'Plays the cello');
select is(pg_temp.history('cello'), '1 model ADD Plays the cello', 'a new memory is a revision');
select is(pg_temp.user_version(), 1::bigint, 'and the first version of the user''s memories');
call pg_temp.change('cello', 'Plays the cello and the viola');
select is(pg_temp.history('cello'), '1 model ADD Plays the cello, 2 model UPDATE Plays the cello and the viola', 'so is a change');
call pg_temp.change('cello', 'Plays the cello and the viola', 'NOOP');
select is(pg_temp.history('cello'), '1 model ADD Plays the cello, 2 model UPDATE Plays the cello and the viola, 3 model NOOP Plays the cello and the viola',
  'and being said again');
update public.memories set last_accessed = now(), access_count = 1 where id = pg_temp.id('cello');
select is((select version from public.memories where id = pg_temp.id('cello')), 3, 'being used is none');
select is(pg_temp.user_version(), 1::bigint, 'one transaction raises the user''s version once');
select is(pg_temp.after($$select set_config('throughline.raised_memory_versions', '', true); select set_config('throughline.change', '', true);
    update public.memories set content = 'Plays' where id = pg_temp.id('cello')$$,
  $$select format('%s, %s', pg_temp.user_version(), (select actor || action from public.memory_revisions
    where memory_id = pg_temp.id('cello') and version = 4))$$),
  '2, userEDIT', 'a change that says nothing of itself is an edit by the user, and raises the version as well');
select is(pg_temp.attempt(who, $$select throughline.touch_memories(pg_temp.id('B'))$$), 'denied', who || ' does not raise another user''s version')
  from unnest(array['app A', 'job none']) who;
update public.memories set embedding = ('[' || repeat('0,', 511) || '1]')::throughline.embedding, embedding_model = 'm' where id = pg_temp.id('cello');
update public.memories set status = 'archived' where id = pg_temp.id('cello');
select ok((select embedding is not null from public.memories where id = pg_temp.id('cello')), 'a vector stays with its content');
update public.memories set status = 'active', content = 'Plays the drums' where id = pg_temp.id('cello');
select ok((select embedding is null and embedding_model is null from public.memories where id = pg_temp.id('cello')), 'and goes with it');
select is((select tsv @@ to_tsquery('throughline.words', 'drum') and content_key = throughline.content_key('plays the drums!') from public.memories
  where id = pg_temp.id('cello')), true,
  'words and key are those of the content');

-- What can be stored.
select is(pg_temp.attempt('app A', statement), outcome, what) from (values
  ($$insert into public.memories (content) values ('plays  the drums.')$$, '23505', 'no memory twice'),
  ($$insert into public.memories (content, status) values ('plays the drums.', 'superseded')$$, '1', 'but an old truth may come again'),
  ($$insert into public.memories (content) values ('')$$, '23514', 'nothing is no memory'),
  ($$insert into public.memories (content) values (E' \n ')$$, '23514', 'nor is white space'),
  ($$insert into public.memories (content) values (repeat('x', 501))$$, '23514', 'nor a text of more than 500 characters'),
  ($$insert into public.memories (content) values (repeat(E'\u00e9', 500))$$, '1', '500 are enough'),
  ($$insert into public.memories (content, confidence) values ('x', 1.1)$$, '23514', 'no memory is more than certain'),
  ($$insert into public.memories (content, valid_from) values ('x', 'infinity')$$, '23514', 'dates have a day'),
  ($$insert into public.memories (content, memory_type) values ('x', 'secret')$$, '23514', 'types are known'),
  ($$update public.memory_users set excluded = array(select 'subject ' || n from generate_series(1, 50) n)$$, '1', 'fifty subjects may be excluded'),
  ($$update public.memory_users set excluded = array(select 'subject ' || n from generate_series(1, 51) n)$$, '23514', 'no more'),
  ($$update public.memory_users set excluded = array[repeat('x', 100)]$$, '1', 'of 100 characters'),
  ($$update public.memory_users set excluded = array['x', repeat('x', 101)]$$, '23514', 'no longer'),
  ($$update public.memory_users set excluded = array[null]$$, '23514', 'and each is one'),
  ($$insert into public.memory_extractions (chat_id, user_id, seq_from, seq_to, result) values (pg_temp.id('one'), pg_temp.id('A'), 1, 2, 'done')$$, 'denied',
    'only jobs write the ledger')
  ) cases (statement, outcome, what);
select is(pg_temp.attempt('job A',
  $$insert into throughline.own_memory_extractions (chat_id, user_id, seq_from, seq_to, result) values (pg_temp.id('one'), pg_temp.id('A'), 2, 1, 'done')$$),
  '23514',
  'a range of the ledger has a message');

-- Erasure.
delete from public.memories;
call pg_temp.say('one', 'said', 'I play the cello, my sister Mira the harp');
call pg_temp.say('one', 'again', 'The cello, as I said');
call pg_temp.say('two', 'elsewhere', 'Cello lesson today');
call pg_temp.say('two', 'viola', 'I also play the viola');
call pg_temp.remember('alone', 'Has a sister named Mira');
call pg_temp.source('alone', 'said', 'Has a sister named Mira');
select is(pg_temp.after(change, $$select pg_temp.memory('alone')$$), left_over, what) from (values
  (pg_temp.deletion('{said}'), 'nothing', 'a memory goes with its only source'),
  (pg_temp.edit('said', $$content = 'I play'$$), 'nothing', 'or when that is edited'),
  (pg_temp.edit('said', $$role = 'assistant'$$), 'nothing', 'or turns out to be another''s'),
  (pg_temp.edit('said', $$metadata = '{"x": 1}', pinned = true, importance = 1, content = content$$), 'Has a sister named Mira (active)',
    'nothing else of a message matters'),
  (pg_temp.deletion('{again}'), 'Has a sister named Mira (active)', 'other messages do not matter'),
  ($$delete from public.chats where id = pg_temp.id('one')$$, 'nothing', 'or when the chat is deleted')) changes (change, left_over, what);
select is(pg_temp.after($$delete from auth.users where id = pg_temp.id('A')$$, 'select count(*) from public.memory_users'), '0', 'or the account');
call pg_temp.remember('mine', 'Lives in Lyon');
update public.memories set origin = 'user' where id = pg_temp.id('mine');
call pg_temp.source('mine', 'said', 'Plays the cello');
select is(pg_temp.without('{said}', $$pg_temp.memory('mine') || ' ' || coalesce(pg_temp.sources('mine'), 'without a source')$$),
  'Lives in Lyon (active) without a source', 'what the user wrote stays');

call pg_temp.remember('music', 'Plays the cello');
call pg_temp.source('music', 'said', 'Plays the cello');
call pg_temp.change('music', 'Plays the cello and the viola');
call pg_temp.source('music', 'viola', 'Plays the viola');
select is(pg_temp.without(gone::text[], question), answer, what) from (values
  ('{said}', $$pg_temp.memory('music')$$, 'Plays the viola (active)', 'a memory falls back to what the other source says'),
  ('{said}', $$pg_temp.history('music')$$, '1 model ADD -, 2 model UPDATE -, 3 erasure UPDATE Plays the viola', 'and its history forgets the words'),
  ('{said}', $$count(*) from public.memory_revisions where reason is not null and memory_id = pg_temp.id('music')$$, '0',
    'and the reasons that a model gave'),
  ('{viola}', $$pg_temp.history('music')$$, '1 model ADD Plays the cello, 2 model UPDATE -, 3 erasure UPDATE Plays the cello',
    'but not those of the source that is left'),
  ('{said,viola}', $$pg_temp.memory('music')$$, 'nothing', 'without any source it goes')) deletions (gone, question, answer, what);
select is(pg_temp.after($$delete from public.chats where id = pg_temp.id('one')$$,
  $$select source_session_id is null or source_session_id <> pg_temp.id('one') from public.memories where id = pg_temp.id('music')$$), 'true',
  'it is no longer of a chat that is gone');
select is(pg_temp.after($$delete from public.chats where user_id = pg_temp.id('A')$$,
  $$select string_agg(pg_temp.memory(n), ', ') from unnest(array['alone', 'mine', 'music']) n$$),
  'Lives in Lyon (active)', 'also when both go with their chats');
select is(pg_temp.after($$update public.memories set valid_from = '2020-01-01', valid_precision = 'year' where id = pg_temp.id('music');$$
    || pg_temp.deletion('{said}'), $$select valid_from is null and valid_precision is null from public.memories where id = pg_temp.id('music')$$), 'true',
  'since when it was true may have been said there, too');
call pg_temp.source('music', 'again', null);
call pg_temp.source('music', 'elsewhere', 'plays the cello!');
select is(pg_temp.without('{said,viola,elsewhere}', $$pg_temp.memory('music')$$), 'nothing',
  'a source that cannot carry the memory alone does not keep it');
select is(pg_temp.without('{said}', $$pg_temp.sources('music')$$), 'plays the cello!, Plays the viola, -', 'the other sources stay');

-- The fallback meets a twin.
call pg_temp.remember('twin', 'Plays the viola');
call pg_temp.source('twin', 'elsewhere', 'Plays the viola');
update public.memories set status = 'inbox', confidence = .3 where id = pg_temp.id('twin');
update public.memories set pinned = true where id = pg_temp.id('music');
insert into public.memories (id, user_id, content, status, superseded_by)
  values (pg_temp.id('old'), pg_temp.id('A'), 'Plays nothing', 'superseded', pg_temp.id('music'));
select is(pg_temp.without('{said,again}',
  $$concat_ws('; ', coalesce(pg_temp.memory('music'), 'nothing'), pg_temp.memory('twin'), pg_temp.sources('twin'), (select format('%s %s', confidence, pinned)
  from public.memories where id = pg_temp.id('twin')))$$),
  'nothing; Plays the viola (active); Plays the viola, Plays the viola; 1 t', 'a memory that falls back to another one gives it its sources');
select is(pg_temp.without('{said}', $$superseded_by = pg_temp.id('twin') from public.memories where id = pg_temp.id('old')$$), 'true',
  'and takes its place for what came before');
select is(pg_temp.after($$delete from public.memories where id = pg_temp.id('music')$$,
  $$select superseded_by is null and status = 'superseded' from public.memories where id = pg_temp.id('old')$$), 'true',
  'nothing names a memory that is gone, and what it replaced stays closed');
select is(pg_temp.after($$update public.memories set status = 'archived' where id = pg_temp.id('music');$$ || pg_temp.deletion('{said}'),
  $$select concat_ws('; ', pg_temp.memory('music'), pg_temp.memory('twin'))$$), 'Plays the viola (archived); Plays the viola (inbox)',
  'one that is not shown meets no user');

-- The graph goes with its memories.
insert into public.memory_entities (id, user_id, name) values (pg_temp.id('Mira'), pg_temp.id('A'), 'Mira'),
  (pg_temp.id('cello'), pg_temp.id('A'), 'the Cello');
insert into public.memory_mentions (memory_id, entity_id, user_id) values (pg_temp.id('alone'), pg_temp.id('Mira'), pg_temp.id('A')),
  (pg_temp.id('alone'), pg_temp.id('cello'), pg_temp.id('A')), (pg_temp.id('music'), pg_temp.id('cello'), pg_temp.id('A'));
insert into public.memory_relationships (user_id, source_entity_id, target_entity_id, relationship, memory_id)
values (pg_temp.id('A'), pg_temp.id('Mira'), pg_temp.id('cello'), 'gave_away', pg_temp.id('alone'));
create function pg_temp.graph() returns text language sql stable as $$
  select concat_ws('; ', (select string_agg(format('%s %s', name_key, mentions), ', ' order by name_key) from public.memory_entities),
    (select string_agg(relationship || case when valid then '' else ' once' end, ', ') from public.memory_relationships))
$$;
select is(pg_temp.graph(), 'mira 1, the cello 2; gave_away', 'mentions are counted');
select is(pg_temp.after($$delete from public.memories where id = pg_temp.id('alone')$$, $$select pg_temp.graph()$$), 'the cello 1',
  'an entity goes with its last mention');
select is(pg_temp.without('{said}', $$count(*) from public.memory_entities where name = 'Mira'$$), '0', 'and with the message of its only memory');
select is(pg_temp.after($$update public.memory_relationships set valid_to = now()$$, $$select pg_temp.graph()$$), 'mira 1, the cello 2; gave_away once',
  'a closed one is not valid');

-- What the chat's memories are worth without it.
select is(pg_temp.after($$select pg_temp.become('app A'); select throughline.keep_memories(pg_temp.id('one')); reset role; delete from public.chats
  where id = pg_temp.id('one')$$,
  $$select concat_ws('; ', pg_temp.memory('alone'), pg_temp.memory('music'), (select origin from public.memories
    where id = pg_temp.id('alone')), pg_temp.sources('music'))$$),
  'Has a sister named Mira (active); Plays the cello and the viola (active); user; plays the cello!, Plays the viola',
    'a chat''s memories can be kept when it is deleted');
select is(pg_temp.attempt('app B', $$select from throughline.keep_memories(pg_temp.id('one')) kept where kept = 0$$), '1', 'but not by another user');

-- Evidence.
create function pg_temp.held(who text) returns text language plpgsql as $$
declare
  held text;
begin
  perform pg_temp.become(who);
  select string_agg(coalesce(n.name, '?'), ', ' order by n.name) into held
    from throughline.hold_evidence(array[pg_temp.id('said'), pg_temp.id('again'), pg_temp.id('gone')],
      array[md5('I play the cello, my sister Mira the harp'), md5('else'), md5('')]) h
    left join unnest(array['said', 'again']) n (name) on pg_temp.id(n.name) = h;
  reset role;
  return held;
end
$$;
select is(pg_temp.held('job A'), 'said', 'evidence is what still says the same');
select is(pg_temp.held('job B'), null, 'and one''s own');

-- Skipped messages.
create function pg_temp.ledger(chat text) returns text language sql stable as $$
  select string_agg(format('%s %s-%s of %s turns', e.result, e.seq_from, e.seq_to, e.turns), ', ' order by e.seq_from) || format(', read to %s%s',
    b.extracted_seq, ', due ' || b.extract_due_at)
    from public.memory_extractions e join public.conversation_briefs b using (chat_id) where e.chat_id = pg_temp.id(chat) group by b.extracted_seq,
      b.extract_due_at
$$;
update public.conversation_briefs set extract_due_at = '-infinity';
select is(pg_temp.after(change, $$select pg_temp.ledger('one')$$), ledger, what) from (values
  ($$select pg_temp.become('job A'); select throughline.skip_extraction(pg_temp.id('one')); reset role$$, 'skipped 1-2 of 2 turns, read to 2',
    'skipped messages are in the ledger'),
  ($$select throughline.skip_rest(pg_temp.id('one')); select throughline.skip_rest(pg_temp.id('one'))$$, 'skipped 1-2 of 2 turns, read to 2', 'once'),
  ($$select pg_temp.become('job B'); select throughline.skip_extraction(pg_temp.id('one')); reset role$$, 'nothing', 'no user skips another user''s chat'),
  ($$update public.chats set remember = false where id = pg_temp.id('one')$$, 'nothing', 'a chat that is no longer remembered may be so again'),
  ($$update public.chats set remember = false where id = pg_temp.id('one'); call pg_temp.say('one', 'q', 'psst');
    update public.chats set remember = true where id = pg_temp.id('one')$$, 'skipped 1-3 of 3 turns, read to 3', 'without the messages of the pause'),
  ($$update public.memory_users set enabled = false; select set_config('request.jwt.claims', '', true); update public.memory_users set enabled = true$$,
    'skipped 1-2 of 2 turns, read to 2', 'the same when somebody switches a user''s memories on again'),
  ($$update public.conversation_briefs set extract_due_at = null; update public.chats set last_message_at = now() - interval '1 hour';
    update public.memory_users set enabled = false; update public.memory_users set enabled = true$$, 'nothing',
    'chats in which nothing was said meanwhile, such as imported ones, can still be read')) changes (change, ledger, what);
select is(pg_temp.after($$select pg_temp.become('A'); update public.memory_users set enabled = false; reset role; select pg_temp.become('A');
  update public.memory_users set enabled = true, language = 'en'; reset role$$,
  $$select concat_ws('; ', pg_temp.ledger('one'), pg_temp.ledger('two'), pg_temp.ledger('three'))$$),
  'skipped 1-2 of 2 turns, read to 2; skipped 1-2 of 2 turns, read to 2', 'for all chats, and by the user from a phone');
select is(pg_temp.after($$select throughline.skip_rest(pg_temp.id('three'))$$,
  $$select extract_due_at is null from public.conversation_briefs where chat_id = pg_temp.id('three')$$), 'true', 'an empty chat has nothing to skip');
select is(pg_temp.after($$select pg_temp.become('A');
  insert into public.memory_users as u (enabled) values (false) on conflict (user_id) do update set enabled = excluded.enabled; reset role$$,
  $$select paused_at is not null from public.memory_users where user_id = pg_temp.id('A')$$), 'true', 'a phone may switch them off');

select * from finish();
rollback;
