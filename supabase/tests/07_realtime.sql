-- Broadcasts contain ids and positions, never text, and only the chat's owner may listen.
begin;
\ir helpers.psql
select plan(15);

insert into public.chats (id, user_id, title) values (pg_temp.id('chat of A'), pg_temp.id('A'), 'hers'), (pg_temp.id('chat of B'), pg_temp.id('B'), '');
-- The broadcasts about the chat of A since the last call.
create temp table received_before (id uuid);
create function pg_temp.received() returns text language sql as $$
  with news as (
    insert into received_before select m.id from realtime.messages m where m.id not in (select h.id from received_before h) returning id)
  select string_agg(event || ' ' || (payload - 'id')::text, '; ' order by event, payload ->> 'seq')
    from realtime.messages join news using (id) where topic = 'chat:' || pg_temp.id('chat of A')
$$;
create function pg_temp.event(event text, message text default null, seq int default null, status text default null) returns text language sql as $$
  select event || ' ' || jsonb_strip_nulls(jsonb_build_object(
    'chat_id', pg_temp.id('chat of A'), 'message_id', pg_temp.id(message), 'seq', seq, 'status', status))::text
$$;

insert into public.messages (id, chat_id, role, content) values
  (pg_temp.id('1'), pg_temp.id('chat of A'), 'user', 'secret words'), (pg_temp.id('2'), pg_temp.id('chat of A'), 'assistant', 'secret words');
select is((select count(*) from realtime.messages where not private or extension <> 'broadcast'), 0::bigint, 'every broadcast is private');
select is((select count(*) from realtime.messages where payload::text ~ 'secret'), 0::bigint, 'no broadcast contains text');
select is(pg_temp.received(), pg_temp.event('message_created', '2', 2), 'messages of one statement are announced together, with the seq of the last');

insert into public.messages (id, chat_id, role, status) values (pg_temp.id('3'), pg_temp.id('chat of A'), 'assistant', 'streaming');
select is(pg_temp.received(), pg_temp.event('message_created', '3', 3), 'also a reply that has just begun');
update public.messages set lease_until = now() where id = pg_temp.id('3');
select is(pg_temp.received(), null, 'a renewed lease is not announced');
update public.messages set content = 'secret words', status = 'complete' where id = pg_temp.id('3');
select is(pg_temp.received(), pg_temp.event('chat_updated', '3', 3, 'complete'), 'the end of a reply is announced');
update public.chats set title = 'secret words' where id = pg_temp.id('chat of A');
select is(pg_temp.received(), pg_temp.event('chat_updated'), 'a change of title is announced, without the title');
select is(pg_temp.attempt('A', $$update public.chats set title = 'x'$$), '1', 'a phone may cause broadcasts without a right to send any');
insert into public.messages (chat_id, role, content) values (pg_temp.id('chat of B'), 'user', 'x');
select is(pg_temp.received(), null, 'another chat has another topic');

-- Who may listen. Realtime sets realtime.topic to the topic that the client wants to join.
create function pg_temp.may_listen(who text, topic text) returns text language sql as $$
  select pg_temp.attempt(who, format('select set_config(''realtime.topic'', %1$L, true); select from realtime.messages where topic = %1$L limit 1', topic))
$$;
select is(pg_temp.may_listen('A', 'chat:' || pg_temp.id('chat of A')), '1', 'A may listen to A''s chat');
select is(pg_temp.may_listen('B', 'chat:' || pg_temp.id('chat of A')), '0', 'B may not');
select is(pg_temp.may_listen('anon', 'chat:' || pg_temp.id('chat of A')), '0', 'nor may anon');
select is(pg_temp.may_listen('A', 'chat:' || gen_random_uuid()), '0', 'no one may listen to a chat that does not exist');
select is(pg_temp.attempt('A', 'select from realtime.messages'), '0', 'without a topic there is nothing to receive');
select is(pg_temp.attempt('A',
  format($$insert into realtime.messages (topic, extension, private) values ('chat:' || %L, 'broadcast', true)$$, pg_temp.id('chat of A'))),
          'denied', 'a phone may not send broadcasts');

select * from finish();
rollback;
