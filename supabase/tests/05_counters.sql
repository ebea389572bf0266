-- The chunk buffer's counters and the staleness of the brief, for every way a message can change.
begin;
\ir helpers.psql
select plan(25);

insert into public.chats (id, user_id) values (pg_temp.id('chat of A'), pg_temp.id('A')), (pg_temp.id('other'), pg_temp.id('A'));
select is(pg_temp.counters('chat of A'), '0 tokens, 0 turns, 0 edits', 'a new chat has an empty buffer');

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
select is(pg_temp.counters('other'), '6 tokens, 3 turns, 0 edits', 'one statement may write to two chats');
insert into public.messages (chat_id, role, content, client_message_id, token_count) values (pg_temp.id('other'), 'user', 'x', pg_temp.id('sent'), 1);
insert into public.messages (chat_id, role, content, client_message_id, token_count) values (pg_temp.id('other'), 'user', 'x', pg_temp.id('sent'), 1)
  on conflict do nothing;
select is(pg_temp.counters('other'), '7 tokens, 4 turns, 0 edits', 'what is not written does not count');

-- A reply while it runs and when it ends: new text, not an edit.
insert into public.messages (id, chat_id, role, status) values (pg_temp.id('reply'), pg_temp.id('chat of A'), 'assistant', 'streaming');
select is(pg_temp.counters('chat of A'), '46 tokens, 2 turns, 0 edits', 'a reply that has just begun has no tokens');
update public.messages set lease_until = now(), cancel_requested = true where id = pg_temp.id('reply');
select is(pg_temp.counters('chat of A'), '46 tokens, 2 turns, 0 edits', 'renewing its lease is no edit');
update public.messages set content = 'the reply', token_count = 4, status = 'complete' where id = pg_temp.id('reply');
select is(pg_temp.counters('chat of A'), '50 tokens, 2 turns, 0 edits', 'when it ends its text is in the buffer');

-- Edits in the buffer.
update public.messages set metadata = '{"liked": true}' where id = pg_temp.id('2');
select is(pg_temp.counters('chat of A'), '50 tokens, 2 turns, 0 edits', 'changing metadata is no edit');
update public.messages set content = 'two, again', token_count = 30 where id = pg_temp.id('2');
select is(pg_temp.counters('chat of A'), '60 tokens, 2 turns, 1 edits', 'an edit in the buffer is counted again and makes nothing stale');
update public.messages set content = repeat('x', 80) where id = pg_temp.id('2');
select is(pg_temp.counters('chat of A'), '50 tokens, 2 turns, 2 edits', 'an edit without a count is estimated');
update public.messages set role = 'system' where id = pg_temp.id('3');
select is(pg_temp.counters('chat of A'), '50 tokens, 1 turns, 3 edits', 'a change of role changes the turns');
update public.messages set role = 'user' where id = pg_temp.id('3');

-- Below, the brief covers the first two messages.
update public.conversation_briefs set covered_seq = 2, pending_tokens = 20, pending_turns = 1, version = 1 where chat_id = pg_temp.id('chat of A');
update public.messages set status = 'failed' where id = pg_temp.id('2');
select is(pg_temp.counters('chat of A'), '20 tokens, 1 turns, 4 edits', 'the status of a covered message is no edit of it');
update public.messages set content = 'later' where id = pg_temp.id('3');
select is(pg_temp.counters('chat of A'), '11 tokens, 1 turns, 5 edits', 'an edit after the brief leaves it fresh');
delete from public.messages where id = pg_temp.id('reply');
select is(pg_temp.counters('chat of A'), '7 tokens, 1 turns, 6 edits', 'so does a deletion');
update public.messages set content = 'other words' where id = pg_temp.id('1');
select is(pg_temp.counters('chat of A'), '7 tokens, 1 turns, 7 edits, stale', 'an edit of a covered message makes the brief stale');

update public.conversation_briefs set stale = false where chat_id = pg_temp.id('chat of A');
update public.messages set reply_to = pg_temp.id('1') where id = pg_temp.id('2');
select is(pg_temp.counters('chat of A'), '7 tokens, 1 turns, 8 edits, stale', 'so does a change of reply_to');
update public.conversation_briefs set stale = false where chat_id = pg_temp.id('chat of A');
delete from public.messages where id = pg_temp.id('2');
select is(pg_temp.counters('chat of A'), '7 tokens, 1 turns, 9 edits, stale', 'so does a deletion, and the counters are still those of the buffer');
update public.conversation_briefs set stale = false where chat_id = pg_temp.id('chat of A');
update public.messages set content = '' where id = pg_temp.id('1');
update public.conversation_briefs set stale = false where chat_id = pg_temp.id('chat of A');
delete from public.messages where id = pg_temp.id('1');
select is(pg_temp.counters('chat of A'), '7 tokens, 1 turns, 11 edits', 'deleting a covered message without text makes nothing stale');

-- Wrong counters must not prevent a deletion.
update public.conversation_briefs set pending_tokens = 1, pending_turns = 0 where chat_id = pg_temp.id('chat of A');
select lives_ok($$delete from public.messages where chat_id = pg_temp.id('chat of A')$$, 'messages can be deleted whatever the counters say');
select is(pg_temp.counters('chat of A'), '0 tokens, 0 turns, 12 edits', 'and the counters end at zero');
select is((select message_count from public.chats where id = pg_temp.id('chat of A')), 0::bigint, 'as does the chat''s');

select * from finish();
rollback;
