-- What topics say of the turns they have, who may change them, and that nothing in them outlives its message.
begin;
\ir helpers.psql
select plan(74);

-- A question and its answer, a minute after the last; indexed.
create procedure pg_temp.turn(chat text, name text, question text, answer text) language sql as $$
  insert into public.messages (id, chat_id, role, content, reply_to, created_at)
  select pg_temp.id(t.name), pg_temp.id(chat), t.role, t.content, case when t.role = 'assistant' then pg_temp.id('q' || $2) end,
         coalesce((select max(created_at) from public.messages where chat_id = pg_temp.id(chat)), '2026-03-01') + make_interval(mins => t.place)
    from (values (1, 'q' || $2, 'user', question), (2, 'a' || $2, 'assistant', answer)) t (place, name, role, content)
   where t.content is not null order by t.place;
  select throughline.index_chat(pg_temp.id(chat), null);
$$;
-- A vector that points along one axis.
create function pg_temp.along(axis int) returns throughline.embedding language sql as $$
  select ('[' || string_agg((i = axis)::int::text, ',' order by i) || ']')::throughline.embedding from generate_series(1, 512) i
$$;
-- Gives turns of a chat to a topic, as assign_topics does.
create procedure pg_temp.topic(chat text, topic text, number int, seqs bigint[], axis int default null) language plpgsql as $$
begin
  update public.turn_index set topic_id = pg_temp.id(topic), topic_model = 'm', embedding = coalesce(pg_temp.along(axis), embedding), embedding_model = case
    when axis is not null then 'm' end
   where chat_id = pg_temp.id(chat) and seq = any (seqs);
  insert into public.topics (id, chat_id, user_id, number, title, title_seq, message_count, centroid, embedding_model, centroid_turns, created_at,
    last_active_at, first_seq, last_seq)
  select pg_temp.id(topic), pg_temp.id(chat), pg_temp.id('A'), number,
         (select content from public.messages where chat_id = pg_temp.id(chat) and seq = seqs[1]), seqs[1],
         (select count(*) from throughline.messages_of_topics m where m.topic_id = pg_temp.id(topic)),
         pg_temp.along(axis), case when axis is not null then 'm' end, case when axis is not null then cardinality(seqs) else 0 end, min(said_at),
           max(said_at), min(seq), max(last_seq)
    from public.turn_index where topic_id = pg_temp.id(topic);
end
$$;
-- Packs what a topic has up to a message.
create procedure pg_temp.pack(topic text, upto bigint, state text default 'active') language plpgsql as $$
begin
  update public.topics t set summary = 'about ' || title, summary_tokens = 2, summary_seq = upto, compacted_seq = upto,
    compacted_messages = (select count(*) from throughline.messages_of_topics m where m.topic_id = t.id and m.seq <= upto), state = pack.state
    where id = pg_temp.id(topic);
  if state = 'archived' then
    update public.turn_index set embedding = null, embedding_model = null, resting = true where topic_id = pg_temp.id(topic);
  end if;
end
$$;
-- A topic in one line.
create function pg_temp.told(topic text) returns text language sql stable as $$
  select coalesce((select format('%s/%s: %s messages in %s-%s, %s%s%s%s', title, coalesce(title_seq::text, 'renamed'), message_count, first_seq, last_seq,
      coalesce(summary || ' up to ' || summary_seq, 'no summary'), coalesce(', ' || nullif(compacted_messages, 0) || ' packed up to ' || compacted_seq, ''),
      case when stale then ', stale' else '' end, case when state <> 'active' then ', ' || state else '' end)
    from public.topics where id = pg_temp.id(topic)), 'gone')
$$;
-- A topic in one line after a statement.
create function pg_temp.told_after(change text, topic text) returns text language sql as $$
  select pg_temp.after(change, format('select pg_temp.told(%L)', topic))
$$;

-- The messages of a topic: not those of tools or the system, and nothing without words.
call pg_temp.chat('parts');
call pg_temp.turn('parts', 'p1', 'first', 'premier');
insert into public.messages (id, chat_id, role, content, reply_to) values
  (pg_temp.id('tool'), pg_temp.id('parts'), 'tool', 'found', null), (pg_temp.id('system'), pg_temp.id('parts'), 'system', 'be brief', null),
  (pg_temp.id('blank'), pg_temp.id('parts'), 'assistant', '  ', pg_temp.id('qp1')),
    (pg_temp.id('more'), pg_temp.id('parts'), 'assistant', 'more', pg_temp.id('qp1'));
call pg_temp.turn('parts', 'p2', 'second', 'deuxieme');
call pg_temp.topic('parts', 'of parts', 1, '{1}');
select pg_temp.become('app A');
select is((select string_agg(seq || ' ' || role || ' ' || content, ', ' order by seq) from throughline.topic_messages(pg_temp.id('of parts'))),
  '1 user first, 2 assistant premier, 6 assistant more', 'the messages of a topic');
reset role;
select is(pg_temp.attempt(who, $$select from throughline.topic_messages(pg_temp.id('of parts'))$$), seen, format('%s reads %s', who, seen))
  from (values ('job A', '3'), ('app B', '0'), ('app none', '0')) others (who, seen);

-- Who changes a topic.
select is(pg_temp.attempt('A', $$update public.topics set title = ' Longbows  of yew ', tags = '{bows}', importance = 0.4$$), '1',
  'a phone may change title, tags and importance');
select is(pg_temp.attempt(who, $$update public.topics set title = 'x'$$), reached, who || ' reaches ' || reached)
  from (values ('B', '0'), ('app B', '0'), ('anon', 'denied'), ('job A', 'denied')) others (who, reached);
select is(pg_temp.attempt('A', format('update public.topics set %s', change)), '23514', 'refused: ' || left(change, 40)) from unnest(array[
  $$title = ' '$$, $$title = ''$$, $$title = repeat('x', 81)$$, 'importance = 1.1', 'importance = -0.1', $$importance = 'NaN'$$,
    $$tags = array_fill('x'::text, array[21])$$, 'tags = array[null::text]']) change;
create function pg_temp.as_who(who text, change text) returns text language sql as $$
  select pg_temp.after(format('select pg_temp.become(%L); %s; reset role', who, change),
    $q$select format('%s/%s, %s%s, version %s', title, coalesce(title_seq::text, 'renamed'), importance, case when importance_rated then ' rated' end, version)
         from public.topics where id = pg_temp.id('of parts')$q$)
$$;
select is(pg_temp.as_who('A', $$update public.topics set title = E' Longbows \n of yew '$$), 'Longbows of yew/renamed, 1, version 2',
  'who sets a title renames the topic');
select is(pg_temp.as_who('app A', $$update public.topics set title = 'Bows', importance = 0.5$$), 'Bows/renamed, 0.5 rated, version 2',
  'and so does the server');
select is(pg_temp.as_who('app A', $$update public.topics set title = title, tags = '{x}'$$), 'first/1, 1, version 1', 'the same title is no change');
select is(pg_temp.as_who('job A', $$update throughline.own_topics set title = 'Bows', importance = 0.5$$), 'Bows/1, 0.5, version 2',
  'a job says itself what it does');
select is(pg_temp.as_who('job A', format('update throughline.own_topics set %s', change)), 'first/1, 1, version ' || version, 'a job: ' || change) from (values
  ($$summary = 'x', summary_seq = 2$$, 2), ('stale = true', 2), ($$compacted_messages = 1, compacted_seq = 1$$, 2), ($$state = 'archived'$$, 2),
  ('message_count = 3, access_count = 2, last_active_at = now()', 1), ('version = 5, stale = true', 5)) changes (change, version);

-- Pins and ratings of messages.
select is(pg_temp.as_who('app A', 'update public.topics set importance = 0.3; ' || pg_temp.edit(message, change)),
  format('first/1, %s rated, version 1', importance), change || ' of ' || message) from (values
  ('pinned = true', 'ap1', 0.9), ('pinned = true', 'tool', 0.9), ('pinned = true', 'qp2', 0.3), ('pinned = false', 'ap1', 0.3),
  ('importance = 0.2', 'qp1', 0.2), ('importance = 0.2, pinned = true', 'qp1', 0.9), ('importance = null', 'qp1', 0.3), ('rating = 1', 'qp1', 0.3))
  changes (change, message, importance);

-- Erasure.
call pg_temp.chat('talk');
call pg_temp.turn('talk', '1', 'bows of yew', 'are strong');
call pg_temp.turn('talk', '2', 'oaks', 'are old');
call pg_temp.turn('talk', '3', 'bows of ash', 'are light');
call pg_temp.turn('talk', '4', 'elms', 'are rare');
call pg_temp.topic('talk', 'bows', 1, '{1,5}', 1);
call pg_temp.topic('talk', 'trees', 2, '{3,7}', 2);
update public.turn_index set embedding = pg_temp.along(3) where chat_id = pg_temp.id('talk') and seq = 5;
call pg_temp.pack('bows', 2);
call pg_temp.pack('trees', 8, 'archived');
create function pg_temp.merge_bows() returns text language sql as $$
  select format('update public.topics set state = ''merged'', merged_into = %1$L, summary = null, centroid = null, embedding_model = null, centroid_turns = 0
    where id = %2$L; update public.turn_index set topic_id = %1$L where topic_id = %2$L;', pg_temp.id('trees'), pg_temp.id('bows'))
$$;
create function pg_temp.moved(seq bigint, topic text) returns text language sql as $$
  select format('update public.turn_index set topic_id = %L where chat_id = %L and seq = %s; select throughline.settle_topics(%2$L, %4$L)',
    pg_temp.id(topic), pg_temp.id('talk'), seq, array[pg_temp.id('bows'), pg_temp.id('trees')])
$$;
select is(pg_temp.told('bows'), 'bows of yew/1: 4 messages in 1-6, about bows of yew up to 2, 2 packed up to 2', 'a packed topic');
select is(pg_temp.told_after(change, topic), told, what) from (values
  (pg_temp.deletion('{q1}'), 'bows', '…/0: 3 messages in 2-6, no summary, stale', 'its first question is deleted: the answer stays, and a job makes a title'),
  (pg_temp.deletion('{a1}'), 'bows', 'bows of yew/1: 3 messages in 1-6, no summary, stale', 'an answer is deleted'),
  (pg_temp.edit('q1', $$content = 'crossbows'$$), 'bows', '…/0: 4 messages in 1-6, no summary, stale', 'its first question is edited'),
  (pg_temp.edit('q1', $$content = 'bows of yew!'$$), 'bows', '…/0: 4 messages in 1-6, no summary, stale', 'by a character that is no word'),
  (pg_temp.edit('q3', $$content = ' '$$), 'bows', 'bows of yew/1: 3 messages in 1-6, no summary, stale', 'a question is emptied'),
  (pg_temp.edit('q3', $$role = 'assistant'$$), 'trees', 'oaks/3: 5 messages in 3-8, about oaks up to 8, stale',
    'a question becomes an answer of the turn before: that is to be packed again'),
  (pg_temp.edit('q3', $$role = 'assistant'$$), 'bows', 'bows of yew/1: 3 messages in 1-6, no summary, stale', 'and leaves its topic to its own answer'),
  (pg_temp.edit('a1', $$role = 'user'$$), 'bows', 'bows of yew/1: 4 messages in 1-6, no summary, stale', 'an answer becomes a question'),
  (pg_temp.edit('a1', $$superseded_by = pg_temp.id('a3'), token_count = 0$$), 'bows', 'bows of yew/1: 3 messages in 1-6, no summary, stale',
    'an answer is superseded'),
  (pg_temp.deletion('{q1,a1,a3}'), 'bows', '…/0: 1 messages in 5-5, no summary, stale', 'several'),
  (pg_temp.deletion('{q1,a1,q3,a3}'), 'bows', 'gone', 'all of its messages'),
  (pg_temp.deletion('{q1,a1,q3,a3}'), 'trees', 'oaks/3: 4 messages in 3-8, about oaks up to 8, 4 packed up to 8, archived', 'and not the others'''),
  (pg_temp.deletion('{a4}'), 'trees', 'oaks/3: 3 messages in 3-7, no summary, stale', 'an archived topic is active again'),
  ($$delete from public.chats where id = pg_temp.id('talk')$$, 'bows', 'gone', 'the chat'),
  ($$update public.messages set pinned = true, metadata = '{"x": 1}', tool_name = 'x' where chat_id = pg_temp.id('talk')$$, 'bows',
    pg_temp.told('bows'), 'other columns change nothing of it'),
  ($$update public.topics set title = 'Archery', tags = '{mine}' where id = pg_temp.id('bows');$$ || pg_temp.deletion('{q1}'), 'bows',
    'Archery/renamed: 3 messages in 2-6, no summary, stale', 'a title of the user''s stays'),
  (pg_temp.merge_bows() || $$delete from public.messages where chat_id = pg_temp.id('talk')$$, 'bows', 'gone', 'nothing outlives what it was merged into'),
  (pg_temp.moved(3, 'bows'), 'trees', '…/0: 2 messages in 7-8, no summary, stale', 'a turn that leaves a topic takes its title and summary along'),
  (pg_temp.moved(5, 'trees'), 'trees', 'oaks/3: 6 messages in 3-8, about oaks up to 8, stale', 'one that comes between is to be packed'),
  ($$insert into public.messages (chat_id, role, content, reply_to) values (pg_temp.id('talk'), 'assistant', 'and tall', pg_temp.id('q4'));
    select throughline.index_chat(pg_temp.id('talk'), null)$$, 'trees', 'oaks/3: 5 messages in 3-9, about oaks up to 8, 4 packed up to 8, archived',
    'a turn grows')) changes (change, topic, told, what);
select is(pg_temp.after(change, 'select ' || question), answer, what) from (values
  (pg_temp.deletion('{a4}'), $$string_agg(format('%s %s %s', seq, resting, topic_model), ', ' order by seq) from public.turn_index
    where topic_id = pg_temp.id('trees')$$, '3 f m, 7 f ', 'its turns get their vectors again, and the one that changed is chosen again'),
  (pg_temp.deletion('{a4}'), $$(centroid is null)::text || centroid_turns from public.topics where id = pg_temp.id('trees')$$, 'true0',
    'the mean of vectors that are gone goes'),
  (pg_temp.deletion('{a1}'), $$(centroid = pg_temp.along(3))::text || centroid_turns || embedding_model from public.topics where id = pg_temp.id('bows')$$,
    'true1m', 'the rest is the mean of what remains'),
  (pg_temp.deletion('{a1}'), $$version::text from public.topics where id = pg_temp.id('bows')$$,
    (select (version + 1)::text from public.topics where id = pg_temp.id('bows')), 'a job that is at work is told'),
  (pg_temp.merge_bows() || pg_temp.deletion('{q1}'), $$title from public.topics where id = pg_temp.id('bows')$$, '…',
    'a merged topic keeps no title of a message that is gone')) changes (change, question, answer, what);
select is(pg_temp.after(pg_temp.edit(message, change),
  $$select string_agg(concat(seq, ' ', case topic_model when '' then 'never' else coalesce(topic_model, 'later') end), ', ' order by seq)
      from public.turn_index where topic_id = pg_temp.id('bows')$$), chosen, format('chosen again: %s of %s', change, message))
  from (values ('a1', $$role = 'user'$$, '1 later, 2 later, 5 m'), ('q1', $$content = ' '$$, '2 never, 5 m')) changes (message, change, chosen);
-- A title that was made with a summary is of all of its messages.
update public.topics set title = 'Yew and ash', title_seq = 0 where id = pg_temp.id('bows');
select is(pg_temp.told_after(pg_temp.deletion('{a1}'), 'bows'), '…/0: 3 messages in 1-6, no summary, stale', 'it goes with each of them');
select is(pg_temp.told_after(pg_temp.deletion('{a4}'), 'bows'), 'Yew and ash/0: 4 messages in 1-6, about bows of yew up to 2, 2 packed up to 2',
  'and with no other');
select is(pg_temp.after(pg_temp.merge_bows() || pg_temp.deletion('{a1}'), $$select title from public.topics where id = pg_temp.id('bows')$$), '…',
  'also where they are another topic''s by now');

-- What people with psql see: the table of S0, and both curves.
select is((select string_agg(format('%s: %s, %s', accesses, round(extract(epoch from life) / 86400),
  round((extract(epoch from inspect.topic_fades_after(1, life)) / 86400)::numeric, 1)), '; ' order by accesses)
             from unnest(array[0, 4, 5, 9, 10, 15, 20, 25, 1000, 2147483647]) accesses, inspect.topic_half_life(accesses) life),
  '0: 1, 4.3; 4: 1, 4.3; 5: 2, 8.6; 9: 2, 8.6; 10: 4, 17.3; 15: 8, 34.6; 20: 16, 69.2; 25: 30, 129.7; 1000: 30, 129.7; 2147483647: 30, 129.7',
    'half-lives in days, and days until 5 %')
  from (values (1)) once;
select is((select string_agg(inspect.topic_priority(1, make_interval(days => days * life), make_interval(days => life))::text, ' ' order by days)
  from generate_series(0, 5) days), '1 0.5 0.25 0.125 0.0625 0.03125',
  'a half-life of ' || life || ' days') from unnest(array[1, 16]) life;
select is(inspect.topic_priority(0.5, '-1 day', '1 day'), 0.5::float8, 'the future has not faded');
select is(inspect.topic_half_life(3, '12 hours', '1 hour', 0), '12 hours'::interval, 'odd settings divide by nothing');
select is((select format('%s %s %s %s %s %s %s', title, state, active_messages, compressed_messages, turns, vectors, counters_agree) from inspect.topics
  where topic_id = pg_temp.id('trees')),
  'oaks archived 0 4 2 0 t', 'a topic');
select is((select string_agg(format('%s: %s', seq, reason), ', ' order by seq) from inspect.unassigned_turns where chat_id = pg_temp.id('parts')),
  '7: no job: the next sweep inserts one, unless TOPICS or RECALL is off', 'why a turn has no topic');
update public.chats set topics = 'off' where id = pg_temp.id('parts');
select is((select reason from inspect.unassigned_turns where chat_id = pg_temp.id('parts')), 'the chat has no topics', 'or not any more');

select * from finish();
rollback;
