-- What each role may do to the rows of user A, by table and command: the number of rows, 'denied', or the error.
begin;
\ir helpers.psql
\ir rows.psql
insert into public.chats (id, user_id, title) values (pg_temp.id('chat without a brief'), pg_temp.id('A'), 'hers, too');
delete from public.conversation_briefs where chat_id = pg_temp.id('chat without a brief');

create temp table matrix (
  statement text, anon text, a text, b text, service text, app_a text, app_b text, app_nobody text);

insert into matrix values
  -- statement                                                                     anon      A         B         service_role app A   app B     app nobody
  ($$select from public.chats$$,                                                  'denied', '2',      '1',      '3',      '2',      '1',      '0'),
  ($$select from public.chats where id = pg_temp.id('chat of A')$$,               'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  ($$insert into public.chats (user_id) values (pg_temp.id('A'))$$,               'denied', '1',      'denied', '1',      '1',      'denied', 'denied'),
  ($$update public.chats set title = 'x' where id = pg_temp.id('chat of A')$$,    'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  ($$update public.chats set title = 'x'$$,                                       'denied', '2',      '1',      '3',      '2',      '1',      '0'),
  ($$update public.chats set user_id = pg_temp.id('B')
      where id = pg_temp.id('chat of A')$$,                                       'denied', 'denied', 'denied', '1',      'denied', '0',      '0'),
  ($$delete from public.chats where id = pg_temp.id('chat of A')$$,               'denied', '1',      '0',      '1',      '1',      '0',      '0'),

  ($$select from public.messages$$,                                               'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$select from public.messages where id = pg_temp.id('message of A')$$,         'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  ($$insert into public.messages (chat_id, user_id, role)
     values (pg_temp.id('chat of A'), pg_temp.id('A'), 'user')$$,                 'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  -- Without a user_id the message gets the chat's, and the policies still apply.
  ($$insert into public.messages (chat_id, role)
     values (pg_temp.id('chat of A'), 'user')$$,                                  'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  -- A message of B in A's chat: for B there is no such chat.
  ($$insert into public.messages (chat_id, user_id, role)
     values (pg_temp.id('chat of A'), pg_temp.id('B'), 'user')$$,                 'denied', 'denied', 'denied', '23503',  '23503',  '23503',  '23503'),
  ($$update public.messages set content = 'x' where id = pg_temp.id('message of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$delete from public.messages where id = pg_temp.id('message of A')$$,         'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),

  ($$select from public.conversation_briefs$$,                                    'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$select from public.conversation_briefs where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$insert into public.conversation_briefs (chat_id, user_id)
     values (pg_temp.id('chat without a brief'), pg_temp.id('A'))$$,              'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$update public.conversation_briefs set brief_tokens = 1 where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$update public.conversation_briefs set user_id = pg_temp.id('B') where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', '0',      '0'),
  ($$delete from public.conversation_briefs where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),

  ($$select from public.conversation_brief_revisions$$,                           'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$select from public.conversation_brief_revisions where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns,
       input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256)
     values (pg_temp.id('chat of A'), pg_temp.id('A'), 2, 'fold', 2, 2, 1, 1, 1, 'inline', 'summary@1', 'm', 1, '')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  -- The server may only redact a revision.
  ($$update public.conversation_brief_revisions set global_summary = null where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$update public.conversation_brief_revisions set turns = 9 where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$delete from public.conversation_brief_revisions where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),

  ($$select from public.conversation_brief_drafts$$,                              'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$insert into public.conversation_brief_drafts (chat_id, user_id, plan_sha256, pieces_done, pieces,
       global_summary, tokens, stats, duration_ms)
     values (pg_temp.id('chat without a brief'), pg_temp.id('A'), '', 1, 2, '', 0, '{}', 1)$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$update public.conversation_brief_drafts set pieces_done = 2, pieces = 3 where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  -- Only a job writes it, and only a change of the brief deletes it.
  ($$delete from public.conversation_brief_drafts where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),

  -- The server inserts deltas as itself, for all users at once; as a user it may read and delete them.
  ($$select from public.message_deltas$$,                                         'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$select from public.message_deltas where message_id = pg_temp.id('message of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$insert into public.message_deltas (message_id, user_id, start_char, delta)
     values (pg_temp.id('message of A'), pg_temp.id('A'), 6, 'x')$$,              'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$update public.message_deltas set delta = 'x' where message_id = pg_temp.id('message of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$delete from public.message_deltas where message_id = pg_temp.id('message of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),

  -- Files are never changed: another content is another row.
  ($$select from public.chat_files$$,                                             'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$select from public.chat_files where chat_id = pg_temp.id('chat of A')$$,     'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  ($$insert into public.chat_files (chat_id, user_id, sha256, content, token_count)
     values (pg_temp.id('chat of A'), pg_temp.id('A'), sha256('y'), 'y', 1)$$,    'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  ($$update public.chat_files set content = 'y' where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$delete from public.chat_files where chat_id = pg_temp.id('chat of A')$$,     'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),

  ($$select from public.message_files$$,                                          'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$select from public.message_files where message_id = pg_temp.id('message of A')$$,
                                                                                  'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  ($$insert into public.message_files (message_id, place, chat_id, user_id, path, sha256)
     values (pg_temp.id('message of A'), 2, pg_temp.id('chat of A'), pg_temp.id('A'), 'y.txt', sha256('x'))$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  ($$update public.message_files set path = 'y.txt' where message_id = pg_temp.id('message of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$delete from public.message_files where message_id = pg_temp.id('message of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),

  -- Only folds, jobs and the triggers on messages write the index.
  ($$select from public.turn_index$$,                                             'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$select from public.turn_index where chat_id = pg_temp.id('chat of A')$$,     'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$insert into public.turn_index (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes)
     values (pg_temp.id('chat of A'), 9, pg_temp.id('A'), 9, 9, 1, now(), 1, '', 0)$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$update public.turn_index set tokens = 9 where chat_id = pg_temp.id('chat of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),
  ($$delete from public.turn_index where chat_id = pg_temp.id('chat of A')$$,     'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),

  -- Memories are written by the server and its jobs; a phone reads them and changes the user's settings.
  ($$select from public.memories$$,                                               'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$select * from public.memories$$,                                             'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$select content from public.memories where id = pg_temp.id('memory of A')$$,  'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  ($$insert into public.memories (user_id, content)
     values (pg_temp.id('A'), 'x')$$,                                             'denied', 'denied', 'denied', '1',      '1',      'denied', 'denied'),
  ($$update public.memories set content = 'x' where id = pg_temp.id('memory of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$update public.memories set user_id = pg_temp.id('B') where id = pg_temp.id('memory of A')$$,
                                                                                  'denied', 'denied', 'denied', '23503',  'denied', '0',      '0'),
  ($$delete from public.memories where id = pg_temp.id('memory of A')$$,          'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),

  ($$select enabled from public.memory_users$$,                                   'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$update public.memory_users set enabled = false where user_id = pg_temp.id('A')$$,
                                                                                  'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  ($$update public.memory_users set version = 9 where user_id = pg_temp.id('A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$insert into public.memory_users (user_id, enabled) values (pg_temp.id('A'), false)
     on conflict (user_id) do update set enabled = excluded.enabled$$,            'denied', '1',      'denied', '1',      '1',      'denied', 'denied'),
  ($$delete from public.memory_users where user_id = pg_temp.id('A')$$,           'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),

  ($$select from public.memory_sources$$,                                         'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$select from public.memory_sources where memory_id = pg_temp.id('memory of A')$$,
                                                                                  'denied', '1',      '0',      '1',      '1',      '0',      '0'),
  -- A source belongs to the user of its memory.
  ($$insert into public.memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, said_at)
     values (pg_temp.id('memory of A'), pg_temp.id('message of B'), pg_temp.id('B'), pg_temp.id('chat of B'), 1, 'x', now())$$,
                                                                                  'denied', 'denied', 'denied', '23503',  'denied', '23503',  'denied'),
  ($$update public.memory_sources set fact = 'x' where memory_id = pg_temp.id('memory of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),
  ($$delete from public.memory_sources where memory_id = pg_temp.id('memory of A')$$,
                                                                                  'denied', 'denied', 'denied', '1',      '1',      '0',      '0'),

  ($$select from public.memory_revisions$$,                                       'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$update public.memory_revisions set content = 'x'$$,                          'denied', 'denied', 'denied', '2',      'denied', 'denied', 'denied'),
  ($$delete from public.memory_revisions$$,                                       'denied', 'denied', 'denied', '2',      'denied', 'denied', 'denied'),
  ($$select from public.memory_extractions$$,                                     'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$insert into public.memory_extractions (chat_id, user_id, seq_from, seq_to, result)
     values (pg_temp.id('chat of A'), pg_temp.id('A'), 2, 2, 'done')$$,           'denied', 'denied', 'denied', '1',      'denied', 'denied', 'denied'),

  ($$select from public.memory_entities$$,                                        'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$update public.memory_entities set name = 'x'$$,                              'denied', 'denied', 'denied', '2',      'denied', 'denied', 'denied'),
  ($$delete from public.memory_entities$$,                                        'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$select from public.memory_relationships$$,                                   'denied', '1',      '1',      '2',      '1',      '1',      '0'),
  ($$update public.memory_relationships set valid_to = now()$$,                   'denied', 'denied', 'denied', '2',      'denied', 'denied', 'denied'),
  ($$select from public.memory_mentions$$,                                        'denied', 'denied', 'denied', '2',      '1',      '1',      '0'),
  ($$delete from public.memory_mentions$$,                                        'denied', 'denied', 'denied', '2',      'denied', 'denied', 'denied'),

  ($$truncate public.chats cascade$$,                                             'denied', 'denied', 'denied', '0',      'denied', 'denied', 'denied');

select plan((select count(*)::int * 7 from matrix));

select is(pg_temp.attempt(e.who, m.statement), e.outcome, e.who || ': ' || regexp_replace(m.statement, '\s+', ' ', 'g'))
  from matrix m
 cross join lateral (values
   ('anon', m.anon), ('A', m.a), ('B', m.b), ('service_role', m.service),
   ('app A', m.app_a), ('app B', m.app_b), ('app nobody', m.app_nobody)) e (who, outcome);

select * from finish();
rollback;
