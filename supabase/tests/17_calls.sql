-- Replies that call tools: what ends them while they wait for their user, what they count, and what is kept to go on with them.
begin;
\ir helpers.psql
select plan(44);

insert into public.chats (id, user_id) select pg_temp.id(name), pg_temp.id('A') from unnest(array['chat of A', 'other']) name;

-- The parts: calls, and results with an output; of each the id alone.
create function pg_temp.parts(calls text[], results text[] default '{}') returns jsonb language sql as $$
  select coalesce(jsonb_agg(p.part), '[]')
    from (select jsonb_build_object('type', 'tool_call', 'at', 0, 'call_id', c, 'name', 'look_up', 'arguments', '{}'::jsonb,
                                    'run', 'client', 'approval', false) from unnest(calls) c
          union all
          select jsonb_build_object('type', 'tool_result', 'at', 0, 'call_id', r, 'status', 'done', 'output', 1) from unnest(results) r) p (part)
$$;
-- A reply of that status after a question, which has recorded what it takes to go on.
create function pg_temp.reply(name text, status text, chat text default 'chat of A') returns void language sql as $$
  insert into public.messages (id, chat_id, role, content) values (pg_temp.id(name || '?'), pg_temp.id(chat), 'user', 'Who?');
  insert into public.messages (id, chat_id, role, content, status, reply_to, lease_until, parts)
  values (pg_temp.id(name), pg_temp.id(chat), 'assistant', 'Es läuft.', status, pg_temp.id(name || '?'), now() + interval '1 day',
          pg_temp.parts('{a,b,c}', '{b}'));
  insert into public.message_deltas (message_id, user_id, start_char, delta, data) values (pg_temp.id(name), pg_temp.id('A'), -1, '', '{"steps": []}');
$$;
-- Its status, its results, and whether what it takes to go on is there.
create function pg_temp.state(reply text) returns text language sql stable as $$
  select concat_ws(' ', m.status, (
           select string_agg(p ->> 'call_id' || ':' || (p ->> 'status') || '@' || (p ->> 'at'), ',' order by n)
             from jsonb_array_elements(m.parts) with ordinality s (p, n) where p ->> 'type' = 'tool_result'),
         case when exists (select from public.message_deltas d where d.message_id = m.id and d.start_char = -1) then 'kept' end,
         case when num_nonnulls(m.server_id, m.lease_until) > 0 then 'leased' end)
    from public.messages m where m.id = pg_temp.id(reply)
$$;
-- What a statement makes of the reply that waits; it is undone.
create function pg_temp.then_is(statement text) returns text language sql as $$
  select pg_temp.after(statement, $q$select pg_temp.state('waits')$q$)
$$;

select pg_temp.reply('waits', 'awaiting');
select is(pg_temp.state('waits'), 'awaiting b:done@0 kept leased', 'a reply waits with what it takes to go on');
select is(pg_temp.then_is(change), state, what) from (values
  ($$insert into public.messages (chat_id, role, content) values (pg_temp.id('chat of A'), 'user', 'Next.')$$,
   'cancelled b:done@0,a:skipped@9,c:skipped@9', 'the next message ends it: calls without a result have one'),
  ($$insert into public.messages (chat_id, role, status) values (pg_temp.id('chat of A'), 'assistant', 'streaming')$$,
   'cancelled b:done@0,a:skipped@9,c:skipped@9', 'and so does another reply'),
  ($$insert into public.messages (chat_id, role, content) values (pg_temp.id('other'), 'user', 'Next.')$$,
   'awaiting b:done@0 kept leased', 'what is said in another chat does not'),
  ($$insert into public.messages (chat_id, role, content, superseded_by) values (pg_temp.id('chat of A'), 'user', 'Old.', gen_random_uuid())$$,
   'awaiting b:done@0 kept leased', 'nor what is not on the path'),
  ($$update public.messages set superseded_by = gen_random_uuid() where id = pg_temp.id('waits')$$,
   'cancelled b:done@0,a:skipped@9,c:skipped@9', 'leaving the path ends it'),
  ($$select throughline.end_calls(pg_temp.id('waits'))$$, 'cancelled b:done@0,a:skipped@9,c:skipped@9', 'and so does its user'),
  ($$select throughline.interrupt_replies(null)$$, 'awaiting b:done@0 kept leased', 'its time has not come'),
  ($$update public.messages set lease_until = now() - interval '1 second' where id = pg_temp.id('waits');
     select throughline.interrupt_replies(null)$$, 'cancelled b:done@0,a:expired@9,c:expired@9', 'or has'),
  ($$update public.messages set rating = 1 where id = pg_temp.id('waits')$$, 'awaiting b:done@0 kept leased', 'a rating changes nothing'),
  ($$delete from public.messages where id = pg_temp.id('waits')$$, 'nothing', 'deleting is deleting')) changes (change, state, what);
select is(pg_temp.after($$delete from public.messages where id = pg_temp.id('waits')$$, 'select count(*) from public.message_deltas'), '0',
  'with all that was recorded');
select is(pg_temp.after($$select throughline.end_calls(pg_temp.id('waits'))$$, $$select throughline.end_calls(pg_temp.id('waits'))$$),
  'false', 'it ends once');
select throws_ok($$insert into public.messages (chat_id, role, status) values (pg_temp.id('other'), 'assistant', 'streaming'),
  (pg_temp.id('other'), 'assistant', 'awaiting')$$, '23505', null, 'a chat has one open reply');
select pg_temp.reply('stopped', 'streaming', 'other');
select is(pg_temp.after($$update public.messages set cancel_requested = true, lease_until = now() - interval '1 second' where id = pg_temp.id('stopped');
  select throughline.interrupt_replies(null)$$, $$select pg_temp.state('stopped')$$), 'cancelled b:done@0,a:skipped@9,c:skipped@9',
  'a reply that was stopped and whose server died has a result of each call');
select is(pg_temp.after($$update public.messages set status = 'interrupted' where id = pg_temp.id('stopped')$$, $$select pg_temp.state('stopped')$$),
  'interrupted b:done@0 kept leased', 'one that may go on has not');
delete from public.messages where id in (pg_temp.id('stopped'), pg_temp.id('stopped?'));
select is(throughline.close_parts(null, 'x', 'skipped'), null, 'a reply without parts gets none');

-- What it counts: from when it waits on, as text and not as an edit; and for the index from when it has ended.
select is(pg_temp.counters('chat of A'), (select sum(token_count) || ' tokens, 1 turns, 0 edits' from public.messages where chat_id = pg_temp.id('chat of A')),
  'it counts in the buffer');
select throughline.index_chat(pg_temp.id('chat of A'), null);
select is((select (indexed_seq, to_index) from public.conversation_briefs where chat_id = pg_temp.id('chat of A')), (1::bigint, true),
  'the index stops before it');
create function pg_temp.life() returns text language sql stable as $$
  select concat_ws(', ', m.token_count, b.pending_tokens - q.token_count, b.edit_count, b.indexed_seq, (select max(i.last_seq) from public.turn_index i
           where i.chat_id = b.chat_id and i.tsv @@ 'fertig'::tsquery))
    from public.messages m join public.conversation_briefs b using (chat_id) join public.messages q on q.id = m.reply_to where m.id = pg_temp.id('waits')
$$;
select is(pg_temp.after(change, 'select pg_temp.life()'), life, what) from (values
  ($$update public.messages set parts = parts || pg_temp.parts('{}', '{a}') where id = pg_temp.id('waits')$$, '21, 21, 0, 1', 'a result counts'),
  ($$update public.messages set status = 'streaming' where id = pg_temp.id('waits');
     update public.messages set status = 'awaiting', content = 'Es läuft noch.', token_count = 50 where id = pg_temp.id('waits');
     update public.messages set status = 'streaming' where id = pg_temp.id('waits');
     update public.messages set status = 'complete', content = 'Es läuft. Fertig.', token_count = 60 where id = pg_temp.id('waits');
     select throughline.index_chat(pg_temp.id('chat of A'), null)$$, '60, 60, 0, 2, 2', 'all of it counts once, and is indexed once'),
  ($$update public.messages set status = 'failed' where id = pg_temp.id('waits');
     select throughline.index_chat(pg_temp.id('chat of A'), null);
     update public.messages set status = 'streaming' where id = pg_temp.id('waits');
     update public.messages set status = 'complete', content = 'Es läuft. Fertig.', token_count = 60 where id = pg_temp.id('waits')$$,
   '60, 60, 1, 2, 2', 'one that goes on after it was indexed is indexed again, and a fold that was planned before fails')) lives (change, life, what);
select is(pg_temp.after($$update public.messages set superseded_by = gen_random_uuid() where id = pg_temp.id('waits')$$, 'select pg_temp.life()'), '0, 0, 0, 1',
  'off the path it counts nothing');
select is(throughline.tokens_of('', null, pg_temp.parts('{a}'), 'assistant', null, false, 0), 1, 'a call alone is not blank');
select is(throughline.tokens_of('', null, jsonb_build_array(jsonb_build_object('type', 'tool_result', 'output', repeat('x', 9000))), 'assistant', null, false,
  409), 409, 'what was counted of parts is kept, though the estimate is higher');
select is(throughline.tokens_of('', null, '[{"type": "reasoning", "text": "long"}, {"type": "source", "url": "https://"}]', 'assistant', null, false, 9), 0,
  'reasoning and sources are in no prompt');
select is(throughline.tokens_of_parts(jsonb_build_array(jsonb_build_object('type', 'tool_result', 'output', repeat('x', 9000)))), 535,
  'an output counts as it is shown');

-- What it takes to go on: kept while a reply is open, and when it may go on.
select pg_temp.reply('failed', 'streaming', 'other');
select is(pg_temp.after(format($$update public.messages set status = %L where id = pg_temp.id('failed');
     select throughline.delete_deltas(array[pg_temp.id('failed')])$$, status), $$select pg_temp.state('failed')$$), status || ' b:done@0' || rest || ' leased',
  'kept when a reply is ' || status)
  from (values ('failed', ' kept'), ('interrupted', ' kept'), ('awaiting', ' kept'), ('cancelled', ',a:skipped@9,c:skipped@9'), ('complete', ''))
    ends (status, rest);
select is(pg_temp.after($$update public.messages set status = 'failed' where id = pg_temp.id('failed');
     update public.messages set superseded_by = gen_random_uuid() where id = pg_temp.id('failed')$$, $$select pg_temp.state('failed')$$),
  'failed b:done@0 leased', 'not when it has left the path');
select is(pg_temp.after(format($$update public.messages set status = 'interrupted' where id = pg_temp.id('failed');
     update public.messages set status = %L where id = pg_temp.id('failed')$$, status), $$select pg_temp.state('failed')$$),
  status || ' b:done@0' || rest || ' leased',
  'not when a server that was thought dead says it is ' || status)
  from (values ('cancelled', ',a:skipped@9,c:skipped@9'), ('complete', '')) ends (status, rest);
select is(pg_temp.attempt(who, $$select from public.message_deltas where data is not null$$), found, who || ' reads') from (values
  ('anon', 'denied'), ('A', 'denied'), ('app A', '2'), ('app B', '0'), ('job A', 'denied')) readers (who, found);

-- The text of a running reply: what its row holds, and what was recorded since.
insert into public.message_deltas (message_id, user_id, start_char, delta) select pg_temp.id('failed'), pg_temp.id('A'), n, d
  from (values (0, 'Es läuft'), (8, '. Und'), (13, ' wie'), (17, '!')) pieces (n, d);
select is(array(select throughline.recorded_after(pg_temp.id('failed'), n) from unnest(array[0, 9, 13, 14, 18, 40]) n),
  array['Es läuft. Und wie!', ' Und wie!', ' wie!', 'wie!', '', ''], 'what was recorded after a character');
select throughline.record_deltas(array[pg_temp.id('failed')], array[pg_temp.id('A')], array[pg_temp.id('s')], array[18], array['?']);
select throughline.delete_deltas(array[pg_temp.id('failed')]);
select is(throughline.recorded_after(pg_temp.id('failed'), 13), ' wie!?', 'the pieces of a running reply stay');
update public.messages set server_id = pg_temp.id('s') where id = pg_temp.id('failed');
select throughline.record_deltas(array[pg_temp.id('failed')], array[pg_temp.id('A')], array[pg_temp.id('lost')], array[19], array['!']);
select is(throughline.recorded_after(pg_temp.id('failed'), 13), ' wie!?', 'another server has nothing to say');
update public.messages set server_id = null, lease_until = now() - interval '1 millisecond' where id = pg_temp.id('failed');
select throughline.interrupt_replies(null);
select is((select content || ' ' || pg_temp.state('failed') from public.messages where id = pg_temp.id('failed')),
  'Es läuft. Und wie!? interrupted b:done@0 kept', 'the text of a reply whose server is gone is that of its row and what was recorded since');

select * from finish();
rollback;
