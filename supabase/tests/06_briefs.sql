-- The constraints of briefs and revisions.
begin;
\ir helpers.psql
select plan(44);

insert into public.chats (id, user_id) values (pg_temp.id('chat of A'), pg_temp.id('A'));
select results_eq(
  $$select user_id, brief, version, covered_seq, cleared_seq, pending_tokens, pending_turns, stale from public.conversation_briefs$$,
  $$values (pg_temp.id('A'), '{"global_summary": "", "last_summarized_message_id": null}'::jsonb, 0::bigint, 0::bigint, 0::bigint, 0, 0, false)$$,
  'a new chat has an empty brief');
select is(pg_temp.attempt('A', $$with made as (insert into public.chats default values returning id) select from made$$), '1', 'a phone starts a chat');

-- Exactly two keys.
select is(pg_temp.attempt('service_role', format('update public.conversation_briefs set brief = %L', brief)), '23514', 'refused: ' || brief)
  from unnest(array[
    '{}', '[]', 'null', '["global_summary", "last_summarized_message_id"]',
    '{"global_summary": ""}', '{"last_summarized_message_id": null}',
    '{"global_summary": "", "last_summarized_message_id": null, "topics": []}',
    '{"global_summary": "", "last_summarized_message_id": "0a"}', '{"global_summary": null, "last_summarized_message_id": null}']) brief;
select is(pg_temp.attempt('service_role',
  $$update public.conversation_briefs set brief = '{"global_summary": "x", "last_summarized_message_id": "0198a1f2-7c13-7aa9-b3c8-6d1e0f9a8b73"}'$$),
          '1', 'a brief with its two keys is accepted');
select is(pg_temp.attempt('service_role', 'update public.conversation_briefs set ' || change), '23514', 'refused: ' || change)
  from unnest(array['pending_tokens = -1', 'pending_turns = -1', 'covered_seq = -1']) change;

-- No message is folded twice.
create function pg_temp.revise(version int, kind text, seq_from int, seq_to int, prompt_mode text) returns text language sql as $$
  select pg_temp.attempt('app A', format(
    'insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, input_tokens, output_tokens,
       prompt_mode, prompt_ref, model, duration_ms, input_sha256)
     values (pg_temp.id(''chat of A''), pg_temp.id(''A''), %s, %L, %s, %s, 1, 1, 1, %L, ''summary@1'', ''m'', 1, '''')',
    version, kind, seq_from, seq_to, prompt_mode))
$$;
insert into public.conversation_brief_revisions
  (chat_id, user_id, version, kind, seq_from, seq_to, turns, input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256)
values (pg_temp.id('chat of A'), pg_temp.id('A'), 1, 'fold', 1, 4, 2, 1, 1, 'inline', 'summary@1', 'm', 1, '');
select is(pg_temp.revise(version, kind, seq_from, seq_to, mode), outcome, what) from (values
  (2, 'fold', 5, 6, 'inline', '1', 'the next fold begins where this one ended'), (2, 'fold', 1, 6, 'inline', '23505', 'no fold begins where another did'),
  (1, 'fold', 5, 6, 'inline', '23505', 'no version is written twice'),
  (2, 'clear', 5, 9, 'inline', '1', 'a clear has a range'), (2, 'clear', 5, 4, 'inline', '1', 'which may be empty'),
  (2, 'rollback', 5, 4, 'none', '1', 'as that of a rollback is'), (2, 'clear', 5, 3, 'inline', '23514', 'but no range may be negative'),
  (2, 'rebuild', 1, 4, 'inline', '23514', 'no brief is made again'), (2, 'guess', 5, 6, 'inline', '23514', 'unknown kinds are refused'),
  (2, 'fold', 0, 6, 'inline', '23514', 'a range before the first message'), (2, 'fold', 6, 5, 'inline', '23514', 'an empty fold'),
  (2, 'fold', 5, 6, 'oral', '23514', 'and unknown modes')) revisions (version, kind, seq_from, seq_to, mode, outcome, what);

update public.conversation_brief_revisions set undone_by = 2 where chat_id = pg_temp.id('chat of A');
select is(pg_temp.revise(3, 'fold', 1, 6, 'inline'), '1', 'what was taken back is folded again');

-- What a fold left behind ends with the state that it was made from.
create function pg_temp.left_behind() returns text language sql as $$
  select concat_ws(' ', w.failures, w.failure, w.retry_at is not null, b.settled_turns, d.global_summary)
    from public.conversation_briefs b left join public.conversation_brief_drafts d using (chat_id)
    left join throughline.work w on w.kind = 'fold' and w.key = b.chat_id where b.chat_id = pg_temp.id('chat of A')
$$;
create function pg_temp.leave_behind() returns void language sql as $$
  update public.conversation_briefs set settled_tokens = 1, settled_turns = 1 where chat_id = pg_temp.id('chat of A');
  insert into throughline.work as w (kind, key, user_id, failures, failure, failing_since, retry_at)
  values ('fold', pg_temp.id('chat of A'), pg_temp.id('A'), 2, 'refused: none', now(), now() + interval '1 hour')
  on conflict (kind, key) do update set failures = 2, failure = excluded.failure, failing_since = now(), retry_at = excluded.retry_at;
  insert into public.conversation_brief_drafts (chat_id, user_id, plan_sha256, pieces_done, pieces, global_summary, tokens, stats, duration_ms)
  values (pg_temp.id('chat of A'), pg_temp.id('A'), '', 1, 3, 'so far', 2, '{}', 1)
  on conflict do nothing
$$;
insert into public.messages (id, chat_id, role, content) values
  (pg_temp.id('first'), pg_temp.id('chat of A'), 'user', 'One.'), (pg_temp.id('second'), pg_temp.id('chat of A'), 'assistant', 'Two.');
select pg_temp.leave_behind();
insert into public.messages (chat_id, role, content) values (pg_temp.id('chat of A'), 'user', 'Three.');
update throughline.work set lease_token = gen_random_uuid(), lease_until = now() where key = pg_temp.id('chat of A');
update public.messages set metadata = '{"starred": true}', pinned = true where id = pg_temp.id('first');
select is(pg_temp.left_behind(), '2 refused: none t 1 so far', 'a new message, a lease and metadata leave it');
update public.messages set content = 'Another.' where id = pg_temp.id('first');
select is(pg_temp.left_behind(), '0 f', 'an edit ends it');
select pg_temp.leave_behind();
delete from public.messages where id = pg_temp.id('second');
select is(pg_temp.left_behind(), '0 f', 'so does a deletion');
select pg_temp.leave_behind();
update public.conversation_briefs set version = version + 1 where chat_id = pg_temp.id('chat of A');
select is(pg_temp.left_behind(), '0 f', 'and a change of the brief');
select throws_ok('update throughline.work set ' || change, '23514', null, 'refused: ' || change)
  from unnest(array['failures = 1', 'failing_since = now()', 'failure = ''x''', 'lease_until = null', 'waiting_job = 1']) change;
select is(pg_temp.broken_rule('update public.conversation_briefs set ' || change), 'conversation_briefs_' || rule, rule || ': ' || change)
  from (values ('two_keys', 'brief = ''{}'''), ('readable', 'brief = ''{"global_summary": 5, "last_summarized_message_id": null}'''),
    ('counters', 'covered_seq = -1'), ('imported_topics_is_array', 'imported_topics = ''{}''')) refused (rule, change);
select is(pg_temp.attempt('service_role', format(
    'insert into public.conversation_brief_drafts (chat_id, user_id, plan_sha256, pieces_done, pieces, global_summary, tokens, stats, duration_ms)
     values (pg_temp.id(''chat of A''), pg_temp.id(''A''), '''', %s, 2, '''', 0, ''{}'', 1)', done)), outcome, format('a draft with %s of 2 pieces', done))
  from (values (0, '23514'), (1, '1'), (2, '23514')) drafts (done, outcome);

select * from finish();
rollback;
