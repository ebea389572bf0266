-- What a turn is for recall, and that its row follows every change of its messages in the same transaction.
begin;
\ir helpers.psql
select plan(39);

-- Says something, a minute later than before; answers is the message that a reply answers.
create procedure pg_temp.say(chat text, name text, role text, content text, answers text default null, minutes int default 1) language sql as $$
  insert into public.messages (id, chat_id, role, content, reply_to, created_at)
  select pg_temp.id(name), pg_temp.id(chat), role, content, pg_temp.id(answers),
         coalesce((select max(created_at) from public.messages where chat_id = pg_temp.id(chat)), '2026-03-01') + make_interval(mins => minutes)
$$;
create function pg_temp.index(chat text, upto bigint default null) returns boolean language sql as $$
  select throughline.index_chat(pg_temp.id(chat), upto)
$$;
-- The words with some weights, in order.
create function pg_temp.words(tsv tsvector, weights "char"[]) returns text language sql stable as $$
  select coalesce(string_agg(lexeme, ' ' order by positions[1]), '') from unnest(ts_filter(tsv, weights)) where positions is not null
$$;
-- A chat's rows: the turn's messages, its segment, its own words, and those of the question before it after a bar.
create function pg_temp.turns(chat text) returns text language sql stable as $$
  select string_agg(format('%s-%s/%s: %s%s', seq, last_seq, segment, pg_temp.words(tsv, '{a,b,c}'), nullif(' | ' || pg_temp.words(tsv, '{d}'), ' | ')), ', '
    order by seq)
    from public.turn_index where chat_id = pg_temp.id(chat)
$$;

-- What a turn is.
call pg_temp.chat('plain');
call pg_temp.say('plain', 'greeting', 'assistant', 'Welcome');
call pg_temp.say('plain', 'q1', 'user', 'Where is Anna?');
call pg_temp.say('plain', 't1', 'tool', 'Lisbon');
call pg_temp.say('plain', 'a1', 'assistant', 'In Portugal.', 'q1');
call pg_temp.say('plain', 's1', 'system', 'Be brief.');
call pg_temp.say('plain', 'q2', 'user', 'Since when?', null, 61);
call pg_temp.say('plain', 'a2', 'assistant', 'March.', 'q2');
call pg_temp.say('plain', 'q3', 'user', '  ');
call pg_temp.say('plain', 'a3', 'assistant', 'Again.');
call pg_temp.say('plain', 'a4', 'assistant', 'Sorry.', 'q1');
select is(pg_temp.index('plain'), true, 'a chat is indexed');
select is(pg_temp.turns('plain'),
  '1-1/1: welcom, 2-4/1: where is anna in portug lisbon, 6-9/2: sinc when march again | where is anna, 10-10/2: sorri | sinc when',
  'a turn is a question and what follows, a late reply is one of its own, and an hour without a word begins a segment');
select is((select to_index from public.conversation_briefs where chat_id = pg_temp.id('plain')), false, 'nothing is left to index');
select is(pg_temp.index('plain'), false, 'once is enough');
select is((select array_agg(lexemes order by seq) from public.turn_index where chat_id = pg_temp.id('plain')), '{1,6,4,1}', 'the words are counted');
select is((select sum(tokens) from public.turn_index where chat_id = pg_temp.id('plain')),
          (select sum(token_count) from public.messages where chat_id = pg_temp.id('plain') and role <> 'system'), 'and the tokens');
select is((select said_at from public.turn_index where chat_id = pg_temp.id('plain') and seq = 6), '2026-03-01 01:06Z', 'a turn has its first message''s time');
select is((select array_agg(seq) from public.turn_index where tsv @@ quote_literal('chat ' || pg_temp.id('plain'))::tsquery
  and tsv @@ quote_literal('user ' || pg_temp.id('A'))::tsquery
             and tsv @@ to_tsquery('throughline.words', 'Lissabon | Lisbon')), '{2}', 'it is found by chat, user and word');

select is_empty($$select tgname from pg_trigger where tgrelid = 'public.turn_index'::regclass and not tgisinternal and tgtype & 5 = 5$$,
  'no trigger is fired for each row that is inserted: a fold writes many');

-- Words that come later.
call pg_temp.say('plain', 'a5', 'assistant', 'Later.', 'q1');
select is((select to_index from public.conversation_briefs where chat_id = pg_temp.id('plain')), true, 'new words are to be indexed');
call pg_temp.say('plain', 't5', 'tool', 'Porto');
select is(pg_temp.index('plain', 11), true, 'up to a message');
select is((select indexed_seq from public.conversation_briefs where chat_id = pg_temp.id('plain')), 11::bigint, 'and no further');
select ok(pg_temp.turns('plain') like '%, 11-11/2: later | sinc when', 'without what comes then');
select is(pg_temp.index('plain'), true, 'the rest of a turn');
select ok(pg_temp.turns('plain') like '%, 11-12/2: later porto | sinc when', 'joins its row');
insert into public.messages (id, chat_id, role, content, status, reply_to)
  values (pg_temp.id('running'), pg_temp.id('plain'), 'assistant', '', 'streaming', pg_temp.id('q2'));
select pg_temp.index('plain');
select is((select (indexed_seq, to_index)::text from public.conversation_briefs where chat_id = pg_temp.id('plain')), '(12,t)',
  'a running reply is waited for');
update public.messages set content = 'Done', status = 'complete' where id = pg_temp.id('running');
select is(pg_temp.index('plain'), true, 'until it ends');
select ok(pg_temp.turns('plain') like '%, 11-13/2: later done porto | sinc when', 'then it is indexed');

-- Edits and deletions, each undone.
create function pg_temp.turns_after(change text) returns text language sql as $$
  select pg_temp.after(change, $q$select pg_temp.turns('short')$q$)
$$;
call pg_temp.chat('short');
call pg_temp.say('short', 'h1', 'user', 'one');
call pg_temp.say('short', 'b1', 'assistant', 'uno', 'h1');
call pg_temp.say('short', 'h2', 'user', 'two', null, 40);
call pg_temp.say('short', 'b2', 'assistant', 'due', 'h2');
call pg_temp.say('short', 'h3', 'user', 'three', null, 40);
call pg_temp.say('short', 'b3', 'assistant', 'tre', 'h3');
select pg_temp.index('short');
select is(pg_temp.turns('short'), '1-2/1: one uno, 3-4/1: two due | one, 5-6/1: three tre | two', 'three turns');
select is(pg_temp.turns_after(pg_temp.edit(message, change)), turns, what) from (values
  ('b2', $$content = 'deux'$$, '1-2/1: one uno, 3-4/1: two deux | one, 5-6/1: three tre | two', 'an edited reply'),
  ('h2', $$content = 'deux'$$, '1-2/1: one uno, 3-4/1: deux due | one, 5-6/1: three tre | deux', 'an edited question is in two rows'),
  ('h2', $$content = ' '$$, '1-2/1: one uno, 4-4/1: due | one, 5-6/1: three tre | one', 'an emptied question leaves its reply as a turn'),
  ('h2', $$role = 'assistant'$$, '1-3/1: one uno two, 4-4/1: due | one, 5-6/1: three tre | one', 'a question that becomes an answer'),
  ('b2', $$role = 'user'$$, '1-2/1: one uno, 3-3/1: two | one, 4-4/1: due | two, 5-6/1: three tre | due', 'an answer that becomes a question'),
  ('h3', $$role = 'system'$$, '1-2/1: one uno, 3-4/1: two due | one, 6-6/1: tre | two', 'a message of the system'),
  ('b2', $$superseded_by = pg_temp.id('b3'), token_count = 0$$, '1-2/1: one uno, 3-3/1: two | one, 5-6/1: three tre | two', 'a superseded reply'),
  ('h2', $$metadata = '{"x": 1}', pinned = true, importance = 1, tool_name = 'x'$$, pg_temp.turns('short'), 'other columns change nothing')
  ) edits (message, change, turns, what);
select is(pg_temp.turns_after(pg_temp.deletion(messages::text[])), turns, what) from (values
  ('{h2}', '1-2/1: one uno, 4-4/1: due | one, 5-6/1: three tre | one', 'a deleted question leaves it too, and the gap begins no segment'),
  ('{b2}', '1-2/1: one uno, 3-3/1: two | one, 5-6/1: three tre | two', 'a deleted reply'),
  ('{h1,b1,h3}', '3-4/1: two due, 6-6/1: tre | two', 'several at once'),
  ('{h1,b1,h2,b2,h3,b3}', 'nothing', 'all of them')) deletions (messages, turns, what);
select is(pg_temp.turns_after($$delete from public.chats where id = pg_temp.id('short')$$), 'nothing', 'the chat');
select is(pg_temp.turns_after(pg_temp.edit('b2', 'reply_to = null') || ';' || pg_temp.deletion('{h2}')),
  '1-4/1: one uno due, 5-6/1: three tre | one', 'a reply to nothing belongs to the turn before it');

-- Turns that are not indexed yet are left to their indexer.
call pg_temp.say('short', 'h4', 'user', 'four');
select is(pg_temp.turns_after(pg_temp.edit('h4', $$content = 'vier'$$)), pg_temp.turns('short'), 'an edit before a turn is indexed');
select is(pg_temp.turns_after(concat_ws(';', pg_temp.edit('h4', $$content = 'vier'$$), pg_temp.deletion('{b1}'), $$select pg_temp.index('short')$$)),
  '1-1/1: one, 3-4/1: two due | one, 5-6/1: three tre | two, 7-7/1: vier | three', 'and one of an indexed turn beside it');

-- Nothing that was said keeps a turn from being indexed: a tsvector holds 1 MiB, and positions up to 16383.
create function pg_temp.noise(n int, letters int, first int) returns text language sql immutable as $$
  -- Words that all differ, in letters of four bytes; hyphens make three lexemes of one word.
  select string_agg(chr(131072 + (n * 7 + i) % 40000) || chr(131072 + (i / 200) % 40000) || '-' || chr(135000 + i % 30000) || chr(131072 + n), ' ')
    from generate_series(first, first + letters) i
$$;
call pg_temp.chat('huge');
call pg_temp.say('huge', 'g1', 'user', pg_temp.noise(1, 9000, 1));
call pg_temp.say('huge', 'g2', 'assistant', pg_temp.noise(2, 9000, 10000), 'g1');
call pg_temp.say('huge', 'g3', 'tool', pg_temp.noise(3, 9000, 20000));
call pg_temp.say('huge', 'g4', 'tool', repeat('again ', 50000));
call pg_temp.say('huge', 'g5', 'assistant', pg_temp.noise(7, 9000, 60000), 'g1');
call pg_temp.say('huge', 'g6', 'user', pg_temp.noise(4, 9000, 30000));
call pg_temp.say('huge', 'g7', 'assistant', pg_temp.noise(5, 9000, 40000), 'g6');
call pg_temp.say('huge', 'g8', 'tool', pg_temp.noise(6, 9000, 50000));
call pg_temp.say('huge', 'g9', 'user', repeat('x', 100000) || ' short ' || repeat(E'\u4e00', 50000));
select is(pg_temp.index('huge'), true, 'messages without measure are indexed');
select is((select array_agg(seq || '-' || last_seq order by seq) from public.turn_index where chat_id = pg_temp.id('huge')), '{1-5,6-8,9-9}', 'each turn');
select ok((select max(lexemes) > 10000 from public.turn_index where chat_id = pg_temp.id('huge')), 'with many of their words');
update public.messages set content = content || ' more' where chat_id = pg_temp.id('huge');
select is((select count(*) from public.turn_index where chat_id = pg_temp.id('huge')), 3::bigint, 'and may be edited');

select * from finish();
rollback;
