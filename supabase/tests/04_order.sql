-- The order of messages, and what a chat records about them, for every way of writing them.
begin;
\ir helpers.psql
select plan(63);

insert into public.chats (id, user_id) values (pg_temp.id('chat of A'), pg_temp.id('A')), (pg_temp.id('other'), pg_temp.id('A'));
create function pg_temp.seqs(chat text) returns text language sql stable as $$
  select string_agg(content || seq, ' ' order by seq) from public.messages where chat_id = pg_temp.id(chat)
$$;
create function pg_temp.counted(chat text) returns text language sql stable as $$
  select format('%s messages, last %s', message_count, last_seq) from public.chats where id = pg_temp.id(chat)
$$;

insert into public.messages (chat_id, role, content) values (pg_temp.id('chat of A'), 'user', 'a');
insert into public.messages (chat_id, role, content, seq) values (pg_temp.id('chat of A'), 'user', 'b', 77);
select is(pg_temp.seqs('chat of A'), 'a1 b2', 'messages are numbered from 1, for any number of the writer');
insert into public.messages (chat_id, role, content) values
  (pg_temp.id('chat of A'), 'user', 'c'), (pg_temp.id('other'), 'user', 'x'), (pg_temp.id('chat of A'), 'assistant', 'd');
select is(pg_temp.seqs('chat of A'), 'a1 b2 c3 d4', 'several rows in one statement are numbered in their order');
select is(pg_temp.seqs('other'), 'x1', 'each chat has numbers of its own');
select is((select user_id from public.messages where chat_id = pg_temp.id('other')), pg_temp.id('A'), 'a message belongs to the chat''s owner');
select is(pg_temp.counted('chat of A'), '4 messages, last 4', 'the chat counts them');

-- A row that is not written leaves no gap.
select is(pg_temp.attempt('service_role', $$insert into public.messages (chat_id, role, content) values (pg_temp.id('chat of A'), 'nobody', 'e')$$),
          '23514', 'a message of an unknown role is refused');
insert into public.messages (chat_id, role, content, client_message_id) values (pg_temp.id('chat of A'), 'user', 'e', pg_temp.id('sent once'));
insert into public.messages (chat_id, role, content, client_message_id) values (pg_temp.id('chat of A'), 'user', 'f', pg_temp.id('sent once'))
  on conflict do nothing;
select is(pg_temp.counted('chat of A'), '5 messages, last 5', 'a message that is sent twice is one message');
insert into public.messages (chat_id, role, content, client_message_id) values
  (pg_temp.id('chat of A'), 'user', 'f', pg_temp.id('sent once')), (pg_temp.id('chat of A'), 'user', 'f', pg_temp.id('sent first'))
  on conflict do nothing;
insert into public.messages (id, chat_id, user_id, role, content, seq, token_count)
  select id, chat_id, user_id, role, 'E', seq, 0 from public.messages where client_message_id = pg_temp.id('sent once')
  on conflict (id) do update set content = excluded.content;
insert into public.messages (chat_id, role, content) values (pg_temp.id('chat of A'), 'user', 'g');
select is(pg_temp.seqs('chat of A'), 'a1 b2 c3 d4 E5 f6 g7', 'neither an upsert nor a row that it skips leaves a gap');
select is(pg_temp.counted('chat of A'), '7 messages, last 7', 'nor does the chat count the missing ones');

-- A seq is never assigned again, because the brief may cover it.
delete from public.messages where chat_id = pg_temp.id('chat of A') and content in ('c', 'g');
select is(pg_temp.counted('chat of A'), '5 messages, last 7', 'deleted messages are not counted any more');
insert into public.messages (chat_id, role, content) values (pg_temp.id('chat of A'), 'user', 'h');
select is(pg_temp.seqs('chat of A'), 'a1 b2 d4 E5 f6 h8', 'the seq of a deleted message is not assigned again');

-- Times.
insert into public.messages (chat_id, role, created_at) values
  (pg_temp.id('other'), 'user', now() + interval '1 hour'), (pg_temp.id('other'), 'user', now() - interval '1 year');
select is((select last_message_at from public.chats where id = pg_temp.id('other')), now() + interval '1 hour', 'the chat has the time of its latest message');
update public.messages set updated_at = '2000-01-01', metadata = '{"a": 1}' where chat_id = pg_temp.id('other');
select is((select count(*) from public.messages where chat_id = pg_temp.id('other') and updated_at = now()), 3::bigint,
  'an update of a message sets updated_at');
update public.chats set updated_at = '2000-01-01', title = 'x' where id = pg_temp.id('other');
select is((select updated_at from public.chats where id = pg_temp.id('other')), now(), 'an update of a chat sets updated_at');
update public.conversation_briefs set updated_at = '2000-01-01' where chat_id = pg_temp.id('other');
select is((select updated_at from public.conversation_briefs where chat_id = pg_temp.id('other')), now(), 'an update of a brief sets updated_at');

-- When a chat expires.
create function pg_temp.expires(chat text) returns interval language sql stable as $$
  select expires_at - now() from public.chats where id = pg_temp.id(chat)
$$;
insert into public.chats (id, user_id, ttl_hours) values (pg_temp.id('passing'), pg_temp.id('A'), 3);
select is(pg_temp.expires('passing'), interval '3 hours', 'a chat expires its hours after it was made');
insert into public.messages (chat_id, role, content, created_at) values (pg_temp.id('passing'), 'user', 'x', now() + interval '1 hour');
select is(pg_temp.expires('passing'), interval '4 hours', 'or after its latest message');
update public.chats set ttl_hours = 1, expires_at = 'infinity' where id = pg_temp.id('passing');
select is(pg_temp.expires('passing'), interval '2 hours', 'for any time of the writer');
update public.chats set last_message_at = now() - interval '1 day', created_at = now() - interval '1 day', revived_at = now() - interval '2 hours'
 where id = pg_temp.id('passing');
select is(pg_temp.expires('passing'), interval '-1 hour', 'or after it was last brought back');
update public.chats set ttl_hours = null where id = pg_temp.id('passing');
select is(pg_temp.expires('passing'), null, 'and without hours never');

-- Turns are messages of the user.
create function pg_temp.turns(chat text) returns bigint language sql stable as $$
  select turn_count from public.chats where id = pg_temp.id(chat)
$$;
insert into public.messages (chat_id, role, content) values (pg_temp.id('passing'), 'assistant', 'a'), (pg_temp.id('passing'), 'user', 'b');
select is(pg_temp.turns('passing'), 2::bigint, 'a chat counts its turns');
delete from public.messages where chat_id = pg_temp.id('passing') and content = 'b';
select is(pg_temp.turns('passing'), 1::bigint, 'a deleted one no more');
delete from public.messages where chat_id = pg_temp.id('passing');
select is(pg_temp.turns('passing'), 0::bigint, 'down to none');

-- A chat without a title gets one from its first message, and only from that.
create function pg_temp.title_after(given text, role text, content text) returns text language plpgsql as $$
declare
  chat uuid;
begin
  insert into public.chats (user_id, title) values (pg_temp.id('A'), given) returning id into chat;
  insert into public.messages (chat_id, role, content) values (chat, role, content);
  insert into public.messages (chat_id, role, content) values (chat, 'user', 'another');
  return (select title from public.chats where id = chat);
end
$$;
select is(pg_temp.title_after('', 'user', E' \n A question?\nAnd more.'), 'A question?', 'the title is the first line of the first message');
select is(pg_temp.title_after('', 'user', repeat('word ', 20)), rtrim(repeat('word ', 16)), 'cut at a word''s end');
select is(pg_temp.title_after('mine', 'user', 'A question?'), 'mine', 'a title that was given stays');
select is(pg_temp.title_after('', 'assistant', 'Hello!'), '', 'an assistant''s message is no title');

-- A message keeps its place, even if service_role updates it.
select is(pg_temp.attempt('service_role', format('update public.messages set %s where chat_id = pg_temp.id(''chat of A'') and seq = 1', change)), '23514',
          'refused: ' || change)
  from unnest(array['seq = 9', 'id = gen_random_uuid()', 'chat_id = pg_temp.id(''other'')', 'user_id = pg_temp.id(''B'')']) change;

-- Chats that do not exist, or belong to another user.
select is(pg_temp.attempt('service_role', $$insert into public.messages (chat_id, role) values (gen_random_uuid(), 'user')$$), '23503',
  'there is no such chat');
select is(pg_temp.attempt('service_role', $$insert into public.messages (chat_id, user_id, role) values (pg_temp.id('other'), pg_temp.id('B'), 'user')$$),
          '23503', 'the chat is another user''s');

-- One generation at a time.
insert into public.messages (id, chat_id, role, status) values (pg_temp.id('running'), pg_temp.id('other'), 'assistant', 'streaming');
select is(pg_temp.attempt('service_role', $$insert into public.messages (chat_id, role, status) values (pg_temp.id('other'), 'assistant', 'streaming')$$),
          '23505', 'a chat has one running reply');
select is(pg_temp.attempt('service_role', $$insert into public.messages (chat_id, role, status) values (pg_temp.id('chat of A'), 'assistant', 'streaming')$$),
          '1', 'another chat has its own');
update public.messages set status = 'complete' where id = pg_temp.id('running');
select is(pg_temp.attempt('service_role', $$insert into public.messages (chat_id, role, status) values (pg_temp.id('other'), 'assistant', 'streaming')$$),
          '1', 'after its end there may be another');

-- The rules of rows. An error names the rule.
create temp table refusals (rule text, statement text);
insert into refusals values
  ('messages_status_known', $$insert into public.messages (chat_id, role, status) values (pg_temp.id('other'), 'user', 'lost')$$),
  ('messages_token_count_range', $$insert into public.messages (chat_id, role, content, token_count) values (pg_temp.id('other'), 'user', 'x', 100000001)$$),
  ('messages_metadata_is_object', $$insert into public.messages (chat_id, role, metadata) values (pg_temp.id('other'), 'user', '[]')$$),
  ('messages_importance_range', $$insert into public.messages (chat_id, role, importance) values (pg_temp.id('other'), 'user', 1.5)$$),
  ('messages_importance_range', $$insert into public.messages (chat_id, role, importance) values (pg_temp.id('other'), 'user', 'NaN')$$),
  ('messages_tool_calls_is_array', $$insert into public.messages (chat_id, role, tool_calls) values (pg_temp.id('other'), 'assistant', '{}')$$),
  ('messages_names_length', $$insert into public.messages (chat_id, role, tool_name) values (pg_temp.id('other'), 'user', repeat('x', 65))$$),
  ('messages_role_known', $$insert into public.messages (chat_id, role) values (pg_temp.id('other'), 'nobody')$$),
  ('messages_rating_known', $$insert into public.messages (chat_id, role, rating) values (pg_temp.id('other'), 'user', 2)$$),
  ('messages_dates_storable', $$insert into public.messages (chat_id, role, created_at) values (pg_temp.id('other'), 'user', 'infinity')$$),
  ('messages_dates_storable', $$update public.messages set created_at = '0044-03-15 BC'$$),
  ('chats_dates_storable', $$update public.chats set last_message_at = '-infinity'$$),
  ('chats_dates_storable', $$update public.chats set created_at = '9999-12-31 23:59:59-12'$$),
  ('chats_dates_storable', $$update public.chats set created_at = '0001-01-01 00:00+14'$$),
  ('chats_metadata_is_object', $$update public.chats set metadata = '1'$$),
  ('chats_tags_bounded', $$update public.chats set tags = array_fill('x'::text, array[21])$$),
  ('chats_tags_bounded', $$update public.chats set tags = array[null]$$),
  ('chats_memory_strategy_known', $$update public.chats set memory_strategy = 'forget'$$),
  ('chats_ttl_hours_range', $$update public.chats set ttl_hours = 0$$),
  ('chats_max_turns_range', $$update public.chats set max_turns = 0$$),
  ('chats_tool_name_length', $$update public.chats set tool_name = ''$$),
  ('chats_system_prompt_length', $$update public.chats set system_prompt = repeat('x', 32001)$$),
  ('chats_title_length', $$update public.chats set title = repeat('x', 501)$$),
  ('chats_topics_known', $$update public.chats set topics = 'many'$$),
  ('chats_recall_known', $$update public.chats set recall = 'none'$$),
  ('chats_dates_storable', $$update public.chats set revived_at = '10000-01-01 00:00Z'$$);
select is(pg_temp.attempt('service_role', statement), '23514', 'refused: ' || statement) from refusals;
select is_empty('select rule, statement from refusals where pg_temp.broken_rule(statement) <> rule', 'each by its rule');

select * from finish();
rollback;
