-- The chunk buffer's counters, and the brief that goes back, for every way a message can change.
begin;
\ir helpers.psql
select plan(49);

insert into public.chats (id, user_id) values (pg_temp.id('chat of A'), pg_temp.id('A')), (pg_temp.id('other'), pg_temp.id('A'));
select is(pg_temp.counters('chat of A'), '0 tokens, 0 turns, 0 edits', 'a new chat has an empty buffer');
-- Makes a change, and returns the answer that a question has after it.
create function pg_temp.made(change text, question text) returns text language plpgsql as $$
declare
  answer text;
begin
  execute change;
  execute 'select ' || question into answer;
  return answer;
end
$$;
create function pg_temp.edited(chat text, message text, change text) returns text language sql as $$
  select pg_temp.made(pg_temp.edit(message, change), format('pg_temp.counters(%L)', chat))
$$;

-- Has the brief cover a chat up to a message.
create function pg_temp.cover(chat text, upto bigint) returns void language sql as $$
  update public.conversation_briefs b
     set covered_seq = upto, version = b.version + 1, pending_tokens = rest.tokens, pending_turns = rest.turns
    from (select coalesce(sum(token_count), 0) as tokens, count(*) filter (where role = 'user' and token_count > 0) as turns
            from public.messages where chat_id = pg_temp.id(chat) and seq > upto) rest
   where b.chat_id = pg_temp.id(chat)
$$;

-- Inserts.
insert into public.messages (id, chat_id, role, content, token_count) values
  (pg_temp.id('1'), pg_temp.id('chat of A'), 'user', 'one', 10), (pg_temp.id('2'), pg_temp.id('chat of A'), 'assistant', 'two', 20);
select is(pg_temp.counters('chat of A'), '30 tokens, 1 turns, 0 edits', 'messages count, user messages are turns');
insert into public.messages (id, chat_id, role, content) values (pg_temp.id('3'), pg_temp.id('chat of A'), 'user', repeat('word ', 8));
select is((select token_count from public.messages where id = pg_temp.id('3')), 10, 'a message without a count is estimated');
select is(pg_temp.counters('chat of A'), '40 tokens, 2 turns, 0 edits', 'and counts as estimated');
insert into public.messages (chat_id, role, content) values (pg_temp.id('other'), 'user', ''), (pg_temp.id('other'), 'user', 'é');
select is((select array_agg(token_count order by seq) from public.messages where chat_id = pg_temp.id('other')), array[0, 1],
          'an empty text has no token, any other has at least one');
insert into public.messages (chat_id, role, content, token_count) values
  (pg_temp.id('other'), 'user', 'x', 5), (pg_temp.id('chat of A'), 'tool', 'x', 5), (pg_temp.id('chat of A'), 'system', 'x', 1);
select is(pg_temp.counters('chat of A'), '46 tokens, 2 turns, 0 edits', 'rows of tools and of the app count, and are no turns');
select is(pg_temp.counters('other'), '6 tokens, 2 turns, 0 edits', 'one statement may write to two chats');
insert into public.messages (chat_id, role, content, client_message_id, token_count) values (pg_temp.id('other'), 'user', 'x', pg_temp.id('sent'), 1);
insert into public.messages (chat_id, role, content, client_message_id, token_count) values (pg_temp.id('other'), 'user', 'x', pg_temp.id('sent'), 1)
  on conflict do nothing;
select is(pg_temp.counters('other'), '7 tokens, 3 turns, 0 edits', 'an unwritten message does not count');

-- A reply while it runs and when it ends: new text, not an edit.
insert into public.messages (id, chat_id, role, status) values (pg_temp.id('reply'), pg_temp.id('chat of A'), 'assistant', 'streaming');
select is(pg_temp.counters('chat of A'), '46 tokens, 2 turns, 0 edits', 'a reply that has just begun has no tokens');
select is(pg_temp.edited('chat of A', message, change), counters, what) from (values
  ('reply', 'lease_until = now(), cancel_requested = true', '46 tokens, 2 turns, 0 edits', 'renewing its lease is no edit'),
  ('reply', $$content = 'the reply', token_count = 4, status = 'complete'$$, '50 tokens, 2 turns, 0 edits', 'when it ends its text is in the buffer'),
  -- Edits in the buffer.
  ('2', $$metadata = '{"liked": true}'$$, '50 tokens, 2 turns, 0 edits', 'changing metadata is no edit'),
  ('2', $$content = 'two, again', token_count = 30$$, '60 tokens, 2 turns, 1 edits', 'an edit in the buffer is counted again and takes nothing back'),
  ('2', $$content = repeat('x', 80)$$, '50 tokens, 2 turns, 2 edits', 'an edit without a count is estimated'),
  ('3', $$role = 'system'$$, '50 tokens, 1 turns, 3 edits', 'a change of role changes the turns')) edits (message, change, counters, what);
update public.messages set role = 'user' where id = pg_temp.id('3');

-- Below, the brief covers the first two messages.
select pg_temp.cover('chat of A', 2);
select is(pg_temp.edited('chat of A', '2', $$status = 'failed'$$), '20 tokens, 1 turns, 4 edits', 'the status of a covered message is no edit of it');
select is(pg_temp.edited('chat of A', '3', $$content = 'later'$$), '11 tokens, 1 turns, 5 edits', 'an edit after the brief leaves it as it is');
select is(pg_temp.made(pg_temp.deletion('{reply}'), $$pg_temp.counters('chat of A')$$), '7 tokens, 1 turns, 6 edits', 'so does a deletion');
select is(pg_temp.edited('chat of A', '1', $$content = 'other words'$$), '29 tokens, 2 turns, 7 edits, 1 back',
  'an edit of a covered message takes the brief back');
select pg_temp.cover('chat of A', 2);
select is(pg_temp.edited('chat of A', '2', $$reply_to = pg_temp.id('1')$$), '29 tokens, 2 turns, 8 edits, 2 back', 'so does a change of reply_to');
select pg_temp.cover('chat of A', 2);
select is(pg_temp.made(pg_temp.deletion('{2}'), $$pg_temp.counters('chat of A')$$), '9 tokens, 2 turns, 9 edits, 3 back',
  'so does a deletion, and the counters are those of the buffer');
update public.messages set content = '' where id = pg_temp.id('1');
select pg_temp.cover('chat of A', 2);
delete from public.messages where id = pg_temp.id('1');
select is(pg_temp.counters('chat of A'), '7 tokens, 1 turns, 11 edits, 3 back', 'deleting a covered message without text takes nothing back');

-- Wrong counters must not prevent a deletion.
update public.conversation_briefs set pending_tokens = 1, pending_turns = 0 where chat_id = pg_temp.id('chat of A');
select lives_ok($$delete from public.messages where chat_id = pg_temp.id('chat of A')$$, 'messages can be deleted with any counters');
select is(pg_temp.counters('chat of A'), '0 tokens, 0 turns, 12 edits, 3 back', 'and the counters end at zero');
select is((select message_count from public.chats where id = pg_temp.id('chat of A')), 0::bigint, 'as does the chat''s');

-- What a prompt shows beside content counts as well, for any number of the writer, and a change of it is an edit.
insert into public.chats (id, user_id) values (pg_temp.id('tools'), pg_temp.id('A'));
insert into public.messages (id, chat_id, role, content, token_count, tool_calls)
values (pg_temp.id('call'), pg_temp.id('tools'), 'assistant', '', 0, jsonb_build_array(jsonb_build_object('name', 'f', 'arguments', repeat('x', 20000))));
select cmp_ok((select pending_tokens from public.conversation_briefs where chat_id = pg_temp.id('tools')), '>', 6000, 'tool calls count, for any number given');
select is((select token_count from public.messages where id = pg_temp.id('call')),
          (select pending_tokens from public.conversation_briefs where chat_id = pg_temp.id('tools')), 'and are counted in it');
select is(pg_temp.edited('tools', 'call', $$tool_calls = '[{"name": "f"}]'$$), '6 tokens, 0 turns, 1 edits', 'changing them is an edit and is counted');
select pg_temp.cover('tools', 1);
select is(pg_temp.edited('tools', 'call', $$tool_calls = '[{"name": "g"}]'$$), '6 tokens, 0 turns, 2 edits, 1 back',
  'which takes a brief back that holds them');
select pg_temp.cover('tools', 1);
insert into public.messages (id, chat_id, role, content, token_count, name) values (pg_temp.id('result'), pg_temp.id('tools'), 'tool', '42', 1, 'calculator');
select is(pg_temp.counters('tools'), '6 tokens, 0 turns, 2 edits, 1 back', 'a tool''s name weighs, because it is shown');
select is(pg_temp.edited('tools', 'result', $$name = 'adder'$$), '4 tokens, 0 turns, 3 edits, 1 back', 'and changing it is an edit');
select is(pg_temp.edited('tools', 'result', $$superseded_by = gen_random_uuid(), tool_calls = '[{"name": "h"}]'$$), '0 tokens, 0 turns, 4 edits, 1 back',
  'a superseded reply weighs nothing, with its calls');
delete from public.messages where chat_id = pg_temp.id('tools');
insert into public.messages (id, chat_id, role, content, token_count) values (pg_temp.id('lie'), pg_temp.id('tools'), 'user', repeat('word ', 4000), 0);
select is((select token_count from public.messages where id = pg_temp.id('lie')), 626, 'no text weighs less than any text can');

-- Blank messages are no turns and weigh nothing. One that gets words becomes a turn, and back.
insert into public.chats (id, user_id) values (pg_temp.id('blank'), pg_temp.id('A'));
create function pg_temp.all_turns() returns text language sql stable as $$
  select format('%s of %s, %s cleared', pg_temp.counters('blank'), c.turn_count, b.cleared_turns)
    from public.chats c join public.conversation_briefs b on b.chat_id = c.id where c.id = pg_temp.id('blank')
$$;
insert into public.messages (id, chat_id, role, content, token_count) values
  (pg_temp.id('b1'), pg_temp.id('blank'), 'user', E' \n\t\u00a0\u3000', 9), (pg_temp.id('b2'), pg_temp.id('blank'), 'user', '', null),
  (pg_temp.id('b3'), pg_temp.id('blank'), 'assistant', E'\u2003', 9);
select is(pg_temp.all_turns(), '0 tokens, 0 turns, 0 edits of 0, 0 cleared', 'blank messages count nowhere');
select is((select title from public.chats where id = pg_temp.id('blank')), '', 'and give no title');
select is(pg_temp.made(pg_temp.edit('b1', change), 'pg_temp.all_turns()'), counters || ', 0 cleared', what) from (values
  ($$content = 'words', token_count = 1$$, '1 tokens, 1 turns, 1 edits of 1', 'one that gets words is a turn'),
  ($$content = ' ', token_count = 1$$, '0 tokens, 0 turns, 2 edits of 0', 'and none when it loses them'),
  ($$tool_calls = '[]'$$, '0 tokens, 0 turns, 3 edits of 0', 'no call is still blank'),
  ($$tool_calls = '[{"name": "f"}]'$$, '6 tokens, 1 turns, 4 edits of 1', 'a call is not')) edits (change, counters, what);
update public.messages set tool_calls = null where id = pg_temp.id('b1');
update public.conversation_briefs set covered_seq = 3, cleared_seq = 3 where chat_id = pg_temp.id('blank');
select is(pg_temp.made(pg_temp.edit('b2', $$content = 'words'$$), 'pg_temp.all_turns()'), '0 tokens, 0 turns, 6 edits of 1, 1 cleared',
  'before a clear it is a cleared turn');
select is(pg_temp.made(pg_temp.deletion('{b1,b2}'), 'pg_temp.all_turns()'), '0 tokens, 0 turns, 7 edits of 0, 0 cleared',
  'and deleting it moves both counts');

-- In no view either.
insert into public.chats (id, user_id) values (pg_temp.id('viewed'), pg_temp.id('A'));
insert into public.messages (id, chat_id, role, content, reply_to) values
  (pg_temp.id('v1'), pg_temp.id('viewed'), 'user', ' ', null), (pg_temp.id('v2'), pg_temp.id('viewed'), 'assistant', 'A reply.', pg_temp.id('v1')),
  (pg_temp.id('v3'), pg_temp.id('viewed'), 'user', 'Words.', null);
select results_eq($$select user_seq, reply_seq from inspect.turns where chat_id = pg_temp.id('viewed') order by turn$$,
  $$values (null::bigint, 2::bigint), (3, null)$$, 'a blank message is no turn of inspect.turns, its reply one of its own');
select results_eq($$select counted_turns, counters_agree from inspect.buffers where chat_id = pg_temp.id('viewed')$$, $$values (1::bigint, true)$$,
  'inspect.buffers agrees');
update public.conversation_briefs set covered_seq = 3, version = 1, pending_tokens = 0, pending_turns = 0 where chat_id = pg_temp.id('viewed');
select is((select covered_turns from inspect.briefs where chat_id = pg_temp.id('viewed')), 1::bigint, 'inspect.briefs does');
update public.chats set max_turns = 1 where id = pg_temp.id('blank');
insert into public.messages (chat_id, role, content) values (pg_temp.id('blank'), 'user', ' '), (pg_temp.id('blank'), 'user', '');
select is_empty($$select from inspect.due_folds() where chat_id = pg_temp.id('blank')$$, 'blank messages make no chat due');

-- Replies that end and edits, of two chats, in one statement.
insert into public.chats (id, user_id) values (pg_temp.id('left'), pg_temp.id('A')), (pg_temp.id('right'), pg_temp.id('A'));
insert into public.messages (id, chat_id, role, content, token_count, status) values
  (pg_temp.id('l1'), pg_temp.id('left'), 'user', 'one', 10, 'complete'), (pg_temp.id('r1'), pg_temp.id('right'), 'user', 'one', 20, 'complete'),
  (pg_temp.id('l2'), pg_temp.id('left'), 'assistant', '', 0, 'streaming'), (pg_temp.id('r2'), pg_temp.id('right'), 'assistant', '', 0, 'streaming');
update public.messages set content = content || ' more', token_count = token_count + 5, status = 'complete'
  where id in (pg_temp.id('l1'), pg_temp.id('l2'), pg_temp.id('r2'));
select is(pg_temp.counters('left'), '20 tokens, 1 turns, 1 edits', 'a reply that ends beside an edit is no edit');
select is(pg_temp.counters('right'), '25 tokens, 1 turns, 0 edits', 'nor is that of another chat');
-- Only by hand.
insert into public.messages (id, chat_id, role, status) values (pg_temp.id('l3'), pg_temp.id('left'), 'user', 'streaming');
select is(pg_temp.edited('left', 'l3', $$content = 'three', token_count = 5$$), '25 tokens, 2 turns, 1 edits',
  'a message of the user that gets words while it is marked as running is a turn');
select is(pg_temp.edited('left', 'l3', $$content = '', status = 'failed'$$), '20 tokens, 1 turns, 1 edits', 'and none when it loses them');

select * from finish();
rollback;
