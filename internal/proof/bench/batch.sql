-- Chats of a kind. Messages are written by seq, because in a real table those of a chat do not lie side by side either.
insert into public.messages (id, chat_id, user_id, seq, role, content, reply_to, token_count, created_at)
select md5(@kind || '-' || c || '-' || s)::uuid, md5(@kind || '-' || c)::uuid, md5('user-' || c % @users)::uuid, s,
       case when s % 2 = 1 then 'user' else 'assistant' end, (@texts::text[])[n],
       case when s % 2 = 0 then md5(@kind || '-' || c || '-' || s - 1)::uuid end, (@tokens::int[])[n],
       now() - make_interval(hours => @turns::int - (s - 1) / 2)
  from generate_series(1, 2 * @turns::int) s cross join generate_series(0, @chats::int - 1) c
 cross join lateral (select 1 + (c * 31 + s) % cardinality(@tokens::int[]) as n) t order by s;

insert into public.chats (id, user_id, title, last_seq, message_count, turn_count, last_message_at)
select md5(@kind || '-' || c)::uuid, md5('user-' || c % @users)::uuid, 'Chat ' || c, 2 * @turns::int, 2 * @turns::int, @turns::int, now()
  from generate_series(0, @chats::int - 1) c;

insert into public.conversation_briefs (chat_id, user_id, to_index, brief, brief_tokens, version, covered_seq, extracted_seq, pending_tokens, pending_turns)
select c.id, c.user_id, false,
       jsonb_build_object('global_summary', @summary::text, 'last_summarized_message_id',
         (select m.id from public.messages m where m.chat_id = c.id and m.seq = @covered)),
       @summary_tokens, @version, @covered, c.last_seq, rest.tokens, rest.turns
  from generate_series(0, @chats::int - 1) n
  join public.chats c on c.id = md5(@kind || '-' || n)::uuid
 cross join lateral (
       select coalesce(sum(m.token_count), 0) as tokens, count(*) filter (where m.role = 'user') as turns
         from public.messages m where m.chat_id = c.id and m.seq > @covered) rest;
