-- Briefs go back where words go: in the statement that edits, deletes or supersedes a message, or brings it back.
begin;
\ir helpers.psql
select plan(55);

-- A chat of four turns of 10 tokens a message, of which a brief covers three, a fold each.
create procedure pg_temp.fold(chat text, upto bigint, summary text) language sql as $$
  with folded as (
    update public.conversation_briefs b
       set brief = jsonb_build_object('global_summary', summary, 'last_summarized_message_id', (
             select id from public.messages where chat_id = b.chat_id and seq <= upto and role = 'assistant' and token_count > 0 order by seq desc limit 1)),
           brief_tokens = 7, version = b.version + 1, covered_seq = upto, pending_tokens = rest.tokens, pending_turns = rest.turns
      from (select coalesce(sum(token_count), 0) as tokens, count(*) filter (where role = 'user' and token_count > 0) as turns
              from public.messages where chat_id = pg_temp.id(chat) and seq > upto) rest,
           (select covered_seq from public.conversation_briefs where chat_id = pg_temp.id(chat)) before
     where b.chat_id = pg_temp.id(chat)
    returning b.chat_id, b.user_id, b.version, before.covered_seq)
  insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens,
    prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
  select chat_id, user_id, version, 'fold', covered_seq + 1, upto, 1, summary, 1, 1, 'inline', 'summary@1', 'm', 1, '', '{"tokens_after": 7}' from folded
$$;
-- As ClearBrief does.
create procedure pg_temp.clear(chat text) language sql as $$
  with cleared as (
    update public.conversation_briefs b
       set brief = '{"global_summary": "", "last_summarized_message_id": null}', brief_tokens = 0, version = b.version + 1, covered_seq = c.last_seq,
           cleared_seq = c.last_seq, cleared_turns = c.turn_count, pending_tokens = 0, pending_turns = 0
      from public.chats c, (select covered_seq from public.conversation_briefs where chat_id = pg_temp.id(chat)) before
     where b.chat_id = pg_temp.id(chat) and c.id = b.chat_id
    returning b.chat_id, b.user_id, b.version, before.covered_seq, b.cleared_seq)
  insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens,
    prompt_mode, prompt_ref, model, duration_ms, input_sha256)
  select chat_id, user_id, version, 'clear', covered_seq + 1, cleared_seq, 0, '', 0, 0, 'none', 'none', '', 0, '' from cleared
$$;
create procedure pg_temp.talk(chat text) language plpgsql as $$
begin
  call pg_temp.chat(chat);
  insert into public.messages (id, chat_id, role, content, token_count)
  select pg_temp.id(chat || ' ' || n), pg_temp.id(chat), case n % 2 when 1 then 'user' else 'assistant' end, 'word' || n, 10 from generate_series(1, 8) n;
  for turn in 1 .. 3 loop
    call pg_temp.fold(chat, turn * 2, 'S' || turn);
  end loop;
end
$$;
-- The brief with its tokens, its place and its last message; the buffer; the revisions.
create function pg_temp.told(chat text) returns text language sql stable as $$
  select format('"%s"/%s up to %s(%s), %s tokens, %s turns; ', b.brief ->> 'global_summary', b.brief_tokens, b.covered_seq,
           (select m.seq from public.messages m where m.id = (b.brief ->> 'last_summarized_message_id')::uuid), b.pending_tokens, b.pending_turns)
         || (select string_agg(format('%s %s-%s%s%s', r.kind, r.seq_from, r.seq_to, coalesce('=' || r.global_summary, ''),
                      coalesce('/' || r.undone_by, '')) || case when r.kind = 'rollback' then format('(%s)', r.turns) else '' end, ' ' order by r.version)
               from public.conversation_brief_revisions r where r.chat_id = b.chat_id)
    from public.conversation_briefs b where b.chat_id = pg_temp.id(chat)
$$;
create function pg_temp.told_after(chat text, variadic changes text[]) returns text language sql as $$
  select pg_temp.after(string_agg(change, '; ' order by n), format('select pg_temp.told(%L)', chat)) from unnest(changes) with ordinality c (change, n)
$$;
-- A message leaves the path, or comes back.
create function pg_temp.leaves(variadic messages text[]) returns text language sql as $$
  select format('update public.messages set superseded_by = gen_random_uuid() where id = any (%L)', array(select pg_temp.id(m) from unnest(messages) m))
$$;
create function pg_temp.returns(variadic messages text[]) returns text language sql as $$
  select format('update public.messages set superseded_by = null where id = any (%L)', array(select pg_temp.id(m) from unnest(messages) m))
$$;

call pg_temp.talk('t');
select is(pg_temp.told('t'), '"S3"/7 up to 6(6), 20 tokens, 1 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6=S3', 'three folds');
select is(pg_temp.told_after('t', variadic changes), told, what) from (values
  (array[pg_temp.edit('t 6', $$content = 'other'$$)],
   '"S2"/7 up to 4(4), 31 tokens, 2 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6/4 rollback 5-4=S2(1)', 'an edit: the summary before the message'),
  (array[pg_temp.edit('t 5', $$content = 'other'$$)],
   '"S2"/7 up to 4(4), 31 tokens, 2 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6/4 rollback 5-4=S2(1)', 'the first message of a fold'),
  (array[pg_temp.deletion('{t 4}')],
   '"S1"/7 up to 2(2), 50 tokens, 3 turns; fold 1-2=S1 fold 3-4/4 fold 5-6/4 rollback 3-2=S1(2)', 'a deletion: all later changes are undone'),
  (array[pg_temp.deletion('{t 6,t 3,t 8}')],
   '"S1"/7 up to 2(2), 30 tokens, 2 turns; fold 1-2=S1 fold 3-4/4 fold 5-6/4 rollback 3-2=S1(1)', 'of several, the first counts'),
  (array[pg_temp.deletion('{t 1}')],
   '""/0 up to 0(), 70 tokens, 3 turns; fold 1-2/4 fold 3-4/4 fold 5-6/4 rollback 1-0=(2)', 'without a summary before it: an empty one'),
  (array[pg_temp.leaves('t 6')],
   '"S2"/7 up to 4(4), 30 tokens, 2 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6/4 rollback 5-4=S2(1)', 'a message that leaves the path'),
  (array[pg_temp.leaves('t 3', 't 4', 't 5', 't 6', 't 7', 't 8')],
   '"S1"/7 up to 2(2), 0 tokens, 0 turns; fold 1-2=S1 fold 3-4/4 fold 5-6/4 rollback 3-2=S1(0)', 'the tail'),
  (array[pg_temp.leaves('t 6'), $$call pg_temp.fold('t', 6, 'S3b')$$, pg_temp.returns('t 6')],
   '"S2"/7 up to 4(4), 31 tokens, 2 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6/4 rollback 5-4=S2(1) fold 5-6/6 rollback 5-4=S2(1)',
   'one that comes back, with an estimate of its tokens'),
  (array[pg_temp.edit('t 8', $$content = 'other'$$), pg_temp.leaves('t 7')],
   '"S3"/7 up to 6(6), 1 tokens, 0 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6=S3', 'what comes after the brief takes nothing back'),
  (array[pg_temp.edit('t 6', $$metadata = '{"a": 1}', pinned = true, rating = 1$$), pg_temp.edit('t 6', $$status = 'failed'$$)],
   '"S3"/7 up to 6(6), 20 tokens, 1 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6=S3', 'nor does what is no word'),
  (array[pg_temp.edit('t 6', $$content = 'b'$$), pg_temp.edit('t 3', $$content = 'b'$$)],
   '"S1"/7 up to 2(2), 42 tokens, 3 turns; fold 1-2=S1 fold 3-4/5 fold 5-6/4 rollback 5-4/5(1) rollback 3-2=S1(1)', 'a second one, further back'),
  (array[pg_temp.edit('t 6', $$content = 'b'$$), $$call pg_temp.fold('t', 6, 'S3b')$$,
         pg_temp.edit('t 6', $$content = 'c'$$)],
   '"S2"/7 up to 4(4), 31 tokens, 2 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6/4 rollback 5-4=S2(1) fold 5-6/6 rollback 5-4=S2(1)',
   'it is folded again from there, and a rollback''s summary can be restored'),
  (array[$$call pg_temp.clear('t')$$, pg_temp.edit('t 4', $$content = 'b'$$)],
   '""/0 up to 8(), 0 tokens, 0 turns; fold 1-2=S1 fold 3-4 fold 5-6 clear 7-8=', 'a cleared message: only summaries that may hold it lose their text'),
  (array[$$call pg_temp.clear('t')$$, $$insert into public.messages (chat_id, role, content, token_count) values (pg_temp.id('t'), 'user', 'word9', 10)$$,
         $$call pg_temp.fold('t', 9, 'S9')$$, pg_temp.edit('t 1', $$content = 'b'$$)],
   '"S9"/7 up to 9(8), 0 tokens, 0 turns; fold 1-2 fold 3-4 fold 5-6 clear 7-8= fold 9-9=S9', 'a summary from after the clear stays'),
  (array[$$call pg_temp.fold('t', 8, 'S4')$$, $$call pg_temp.clear('t')$$, $$insert into public.messages (id, chat_id, role, content, token_count)
           select pg_temp.id('t 9'), pg_temp.id('t'), 'user', 'word9', 10$$, $$call pg_temp.fold('t', 9, 'S9')$$, pg_temp.deletion('{t 9}')],
   '""/0 up to 8(), 0 tokens, 0 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6=S3 fold 7-8=S4 clear 9-8= fold 9-9/7 rollback 9-8=(0)',
   'a summary from before the clear is not restored'),
  (array[pg_temp.edit('t 4', $$role = 'tool'$$), $$call pg_temp.fold('t', 4, 'S2b')$$, $$call pg_temp.fold('t', 6, 'S3b')$$, pg_temp.deletion('{t 6}')],
   '"S2b"/7 up to 4(3), 30 tokens, 2 turns; fold 1-2=S1 fold 3-4/4 fold 5-6/4 rollback 3-2=S1(2) fold 3-4=S2b fold 5-6/7 rollback 5-4=S2b(1)',
   'the last message is one of the conversation'),
  (array[pg_temp.edit('t 4', $$content = ''$$), $$call pg_temp.fold('t', 4, 'S2b')$$, $$call pg_temp.fold('t', 6, 'S3b')$$, pg_temp.deletion('{t 6}')],
   '"S2b"/7 up to 4(3), 30 tokens, 2 turns; fold 1-2=S1 fold 3-4/4 fold 5-6/4 rollback 3-2=S1(2) fold 3-4=S2b fold 5-6/7 rollback 5-4=S2b(1)',
   'with words'),
  (array[$$call pg_temp.clear('t')$$, $$insert into public.messages (id, chat_id, role, content, token_count)
           select pg_temp.id('t 9'), pg_temp.id('t'), 'user', 'word9', 10$$, $$call pg_temp.fold('t', 9, 'S9')$$,
         pg_temp.edit('t 9', $$content = 'b'$$)],
   '""/0 up to 8(), 1 tokens, 1 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6=S3 clear 7-8= fold 9-9/6 rollback 9-8=(1)',
   'one after the clear: nothing from before it comes back'),
  (array[$$call pg_temp.clear('t')$$, $$insert into public.messages (id, chat_id, role, content, token_count)
           select pg_temp.id('t 9'), pg_temp.id('t'), 'user', 'word9', 10$$, $$call pg_temp.fold('t', 9, 'S9')$$, pg_temp.deletion('{t 1,t 9}')],
   '""/0 up to 8(), 0 tokens, 0 turns; fold 1-2 fold 3-4 fold 5-6 clear 7-8= fold 9-9/6 rollback 9-8=(0)', 'both at once'),
  (array[$$update public.conversation_brief_revisions set details = '{}' where chat_id = pg_temp.id('t')$$, pg_temp.deletion('{t 6}')],
   '"S2"/0 up to 4(4), 30 tokens, 2 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6/4 rollback 5-4=S2(1)', 'its tokens are estimated where no revision says'),
  (array[$$update public.conversation_briefs set version = 1 where chat_id = pg_temp.id('t')$$, pg_temp.deletion('{t 6}')],
   '"S2"/7 up to 4(4), 30 tokens, 2 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6/4 rollback 5-4=S2(1)', 'a version set by hand does not keep words'),
  (array[$$update public.conversation_brief_revisions set global_summary = null where chat_id = pg_temp.id('t') and version = 2$$, pg_temp.deletion('{t 6}')],
   '"S1"/7 up to 2(2), 50 tokens, 3 turns; fold 1-2=S1 fold 3-4/4 fold 5-6/4 rollback 3-2=S1(2)', 'a summary whose text is gone is none'))
  changes (changes, told, what);

-- A fold that is at work when words change loses its draft and its plan, wherever the brief ends.
create function pg_temp.loses(change text) returns text language sql as $loses$
  select pg_temp.after(format($f$
    insert into public.conversation_brief_drafts (chat_id, user_id, plan_sha256, pieces_done, pieces, global_summary, tokens, stats, duration_ms)
    values (pg_temp.id('t'), pg_temp.id('A'), '', 1, 3, 'so far', 2, '{}', 1); %s$f$, change),
    $$select concat_ws(' ', b.edit_count, exists (select from public.conversation_brief_drafts d where d.chat_id = b.chat_id))
        from public.conversation_briefs b where b.chat_id = pg_temp.id('t')$$)
$loses$;
select is(pg_temp.loses(change), outcome, 'a draft, and ' || what) from (values
  ($$insert into public.messages (chat_id, role, content) values (pg_temp.id('t'), 'user', 'more')$$, '0 t', 'a new message'),
  (pg_temp.edit('t 8', $$content = 'other'$$), '1 f', 'an edit'), (pg_temp.leaves('t 8'), '1 f', 'a message that leaves the path'),
  (pg_temp.leaves('t 8') || ';' || pg_temp.returns('t 8'), '2 f', 'one that returns'), (pg_temp.deletion('{t 8}'), '1 f', 'a deletion'))
  changes (change, outcome, what);

-- In two chats at once, and at the wish of who owns one.
call pg_temp.talk('u');
select is(pg_temp.after(pg_temp.deletion('{t 6,u 4}'), $$select left(pg_temp.told('t'), 5) || left(pg_temp.told('u'), 5)$$), '"S2"/"S1"/',
  'each chat has its own place');
select is(pg_temp.after(pg_temp.deletion('{t 6}') || $$; delete from public.chats where id = pg_temp.id('t')$$,
  $$select count(*) from public.conversation_brief_revisions where chat_id = pg_temp.id('t')$$), '0', 'a chat takes all of it along');
select is(pg_temp.after(format($$select pg_temp.become(%L); select throughline.roll_back(pg_temp.id('t'), '{%s}'); reset role$$, who, seqs),
  $$select pg_temp.told('t')$$), told, who || ' asks for ' || seqs) from (values
  ('app A', '5,3', '"S1"/7 up to 2(2), 60 tokens, 3 turns; fold 1-2=S1 fold 3-4/4 fold 5-6/4 rollback 3-2=S1(2)'),
  ('app A', '7', '"S3"/7 up to 6(6), 20 tokens, 1 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6=S3'),
  ('app B', '3', '"S3"/7 up to 6(6), 20 tokens, 1 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6=S3')) asked (who, seqs, told);

-- A brief that cannot be read, as only SQL by hand makes one.
alter table public.conversation_briefs drop constraint conversation_briefs_valid;
select is(pg_temp.after($q$update public.conversation_briefs set brief = '{}' where chat_id = pg_temp.id('t');
    do $$ begin assert (select throughline.restore_briefs()) = 1; end $$$q$, $$select pg_temp.told('t')$$),
  '"S3"/7 up to 6(6), 20 tokens, 1 turns; fold 1-2=S1 fold 3-4=S2 fold 5-6=S3 rollback 7-6=S3(0)', 'it is restored as it was recorded');
select is(throughline.restore_briefs(), 0::bigint, 'and no other is touched');

-- Children of a deleted message are its parent's, and remember the first that they lost.
create function pg_temp.family() returns text language sql stable as $$
  select string_agg(format('%s<%s%s', m.seq, p.seq, coalesce('/' || (select n from generate_series(1, 8) n where pg_temp.id('t ' || n) = m.moved_from), '')),
                    ' ' order by m.seq)
    from public.messages m left join public.messages p on p.id = m.parent_id where m.chat_id = pg_temp.id('t')
$$;
select is(pg_temp.family(), '1< 2<1 3<2 4<3 5<4 6<5 7<6 8<7', 'each message follows the one before it');
select is(pg_temp.after(change, 'select pg_temp.family()'), family, what) from (values
  (pg_temp.deletion('{t 3}'), '1< 2<1 4<2/3 5<4 6<5 7<6 8<7', 'a deletion hands a child up'),
  (pg_temp.deletion('{t 3,t 4,t 5}'), '1< 2<1 6<2/5 7<6 8<7', 'of several generations in one statement'),
  (pg_temp.deletion('{t 3}') || ';' || pg_temp.deletion('{t 2}'), '1< 4<1/3 5<4 6<5 7<6 8<7', 'one after the other'),
  (pg_temp.deletion('{t 1,t 3,t 6}'), '2</1 4<2/3 5<4 7<5/6 8<7', 'in several places'),
  (pg_temp.deletion('{t 1,t 2,t 3,t 4,t 5,t 6,t 7}'), '8</7', 'up to none'),
  (pg_temp.leaves('t 4', 't 5') || ';' || pg_temp.deletion('{t 4}'), '1< 2<1 3<2 5<3/4 6<5 7<6 8<7', 'versions as well')) deletions (change, family, what);

-- Memories of a message that leaves the path go with the commit, unless another message says the same.
insert into public.memory_users (user_id) values (pg_temp.id('A')) on conflict do nothing;
insert into public.memories (id, user_id, content) select pg_temp.id(m), pg_temp.id('A'), m from unnest(array['Said once', 'Said twice']) m;
insert into public.memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, said_at)
select pg_temp.id(s.memory), pg_temp.id('t ' || s.seq), pg_temp.id('A'), pg_temp.id('t'), s.seq, s.memory || ' in ' || s.seq, now()
  from (values ('Said once', 3), ('Said twice', 3), ('Said twice', 1), ('Said twice', 5)) s (memory, seq);
create function pg_temp.remembered() returns text language sql stable as $$
  select string_agg(m.content || (select ' ' || string_agg(s.seq::text, ',' order by s.seq) from public.memory_sources s where s.memory_id = m.id),
                    '; ' order by m.content) from public.memories m where m.user_id = pg_temp.id('A')
$$;
select is(pg_temp.after(change, 'select pg_temp.remembered()'), remembered, what) from (values
  (pg_temp.leaves('t 3'), 'Said twice in 5 1,5', 'one memory goes, another falls back'),
  (pg_temp.leaves('t 3', 't 5'), 'Said twice in 1 1', 'never to what leaves with it'),
  (pg_temp.leaves('t 3', 't 5', 't 1'), 'nothing', 'and goes with the last'),
  (pg_temp.leaves('t 2', 't 4'), 'Said once 3; Said twice 1,3,5', 'what others said is nothing to it')) changes (change, remembered, what);
select is(pg_temp.after(pg_temp.leaves('t 3', 't 5'), $$select string_agg(content, '; ') from public.memory_revisions where content like '% in 5'$$),
  'nothing', 'nor does a version of the memory say so');
select pg_temp.become('job A');
select is((select count(*) from throughline.hold_evidence(array[pg_temp.id('t 3')], array[md5('word3')])), 1::bigint, 'a message of the path is evidence');
reset role;
select is(pg_temp.after(pg_temp.leaves('t 3') || $$; select pg_temp.become('job A')$$,
  $$select count(*) from throughline.hold_evidence(array[pg_temp.id('t 3')], array[md5('word3')])$$), '0', 'one that has left is none');

-- What comes back is read for memories again, and nothing that was not to be read.
create function pg_temp.ledger(result text) returns text language sql as $$
  select format($f$
    update public.conversation_briefs set extracted_seq = 8 where chat_id = pg_temp.id('t');
    insert into public.memory_extractions (chat_id, user_id, seq_from, seq_to, turns, result) values
      (pg_temp.id('t'), pg_temp.id('A'), 1, 4, 2, %L), (pg_temp.id('t'), pg_temp.id('A'), 5, 8, 2, 'done')$f$, result)
$$;
select is(pg_temp.after(pg_temp.ledger(result) || ';' || change, $$select (select extracted_seq from public.conversation_briefs where chat_id = pg_temp.id('t'))
    || ': ' || coalesce((select string_agg(format('%s-%s/%s', seq_from, seq_to, turns), ' ' order by seq_from)
                           from public.memory_extractions where chat_id = pg_temp.id('t')), '')$$), ledger, what) from (values
  ('done', pg_temp.leaves('t 6'), '8: 1-4/2 5-8/2', 'what leaves is not read again'),
  ('done', pg_temp.leaves('t 6') || ';' || pg_temp.returns('t 6'), '5: 1-4/2 5-5/1', 'from what comes back on'),
  ('done', pg_temp.leaves('t 5', 't 6') || ';' || pg_temp.returns('t 5'), '4: 1-4/2', 'the ledger ends there'),
  ('done', $$update public.conversation_briefs set extracted_seq = 4 where chat_id = pg_temp.id('t');
     delete from public.memory_extractions where chat_id = pg_temp.id('t') and seq_from = 5; $$ || pg_temp.leaves('t 7') || ';' || pg_temp.returns('t 7'),
   '4: 1-4/2', 'what was not read yet is read in its turn'),
  ('skipped', pg_temp.leaves('t 2', 't 6') || ';' || pg_temp.returns('t 2', 't 6'), '4: 1-4/2', 'but never before what was skipped'),
  ('done', pg_temp.leaves('t 8') || ';' || pg_temp.returns('t 8') || $$; insert into public.messages (chat_id, role, content)
     values (pg_temp.id('t'), 'user', 'more')$$, '7: 1-4/2 5-7/2', 'a new message changes nothing')) changes (result, change, ledger, what);

select * from finish();
rollback;
