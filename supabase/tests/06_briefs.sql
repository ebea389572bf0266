-- The constraints of briefs and revisions.
begin;
\ir helpers.psql
select plan(25);

select is(pg_temp.attempt('A', $$with made as (insert into public.chats default values returning id) select from made$$), '1', 'a phone starts a chat');
insert into public.chats (id, user_id) values (pg_temp.id('chat of A'), pg_temp.id('A'));
select results_eq(
  $$select user_id, brief, version, covered_seq, pending_tokens, pending_turns, stale from public.conversation_briefs where chat_id = pg_temp.id('chat of A')$$,
  $$values (pg_temp.id('A'), '{"global_summary": "", "last_summarized_message_id": null}'::jsonb, 0::bigint, 0::bigint, 0, 0, false)$$,
  'a new chat has an empty brief');

-- Exactly two keys.
select is(pg_temp.attempt('service_role', format('update public.conversation_briefs set brief = %L', brief)), '23514', 'refused: ' || brief)
  from unnest(array[
    '{}', '[]', 'null', '["global_summary", "last_summarized_message_id"]',
    '{"global_summary": ""}', '{"last_summarized_message_id": null}',
    '{"global_summary": "", "last_summarized_message_id": null, "topics": []}',
    '{"global_summary": "", "last_summarized_message_id": "0a"}', '{"global_summary": null, "last_summarized_message_id": null}']) brief;
select is(pg_temp.attempt('service_role', $$update public.conversation_briefs set brief = '{"global_summary": "x", "last_summarized_message_id": "0198a1f2-7c13-7aa9-b3c8-6d1e0f9a8b73"}'$$),
          '1', 'a brief with its two keys is accepted');
select is(pg_temp.attempt('service_role', 'update public.conversation_briefs set ' || change), '23514', 'refused: ' || change)
  from unnest(array['pending_tokens = -1', 'pending_turns = -1', 'covered_seq = -1', 'lease_token = gen_random_uuid()', 'lease_until = now()']) change;

-- No message is folded twice.
create function pg_temp.revise(version int, kind text, seq_from int, seq_to int, prompt_mode text default 'inline') returns text language sql as $$
  select pg_temp.attempt('app A', format(
    'insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, input_tokens, output_tokens,
       prompt_mode, prompt_ref, model, duration_ms, input_sha256)
     values (pg_temp.id(''chat of A''), pg_temp.id(''A''), %s, %L, %s, %s, 1, 1, 1, %L, ''summary@1'', ''m'', 1, '''')',
    version, kind, seq_from, seq_to, prompt_mode))
$$;
insert into public.conversation_brief_revisions
  (chat_id, user_id, version, kind, seq_from, seq_to, turns, input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256)
values (pg_temp.id('chat of A'), pg_temp.id('A'), 1, 'fold', 1, 4, 2, 1, 1, 'inline', 'summary@1', 'm', 1, '');
select is(pg_temp.revise(2, 'fold', 5, 6), '1', 'the next fold begins where this one ended');
select is(pg_temp.revise(2, 'fold', 1, 6), '23505', 'no fold begins where another did');
select is(pg_temp.revise(1, 'fold', 5, 6), '23505', 'no version is written twice');
select is(pg_temp.revise(2, 'rebuild', 1, 4), '1', 'a rebuild begins at the first message again');
select is(pg_temp.revise(2, 'clear', 5, 9) || ' ' || pg_temp.revise(2, 'clear', 5, 4) || ' ' || pg_temp.revise(2, 'rebuild', 5, 4), '1 1 1',
          'the range of a clear may be empty, and so may that of a rebuild after it');
select is(pg_temp.revise(2, 'clear', 5, 3) || ' ' || pg_temp.revise(2, 'rollback', 5, 4), '23514 23514', 'but no range may be negative, and that of a rollback not empty');
select is((select cleared_seq from public.conversation_briefs where chat_id = pg_temp.id('chat of A')), 0::bigint, 'a new chat was never cleared');
select is(pg_temp.revise(2, 'guess', 5, 6) || ' ' || pg_temp.revise(2, 'fold', 0, 6) || ' ' || pg_temp.revise(2, 'fold', 6, 5) || ' ' || pg_temp.revise(2, 'fold', 5, 6, 'oral'),
          '23514 23514 23514 23514', 'unknown kinds, impossible ranges and unknown modes are refused');

select * from finish();
rollback;
