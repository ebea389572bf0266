-- The rules of the database after any kill. Each query gives the rows that break its sentence; none
-- is good. "always" holds at any moment, in one snapshot; "quiet" once everything runs again and no one talks;
-- "greeted" after one more message in every chat. The queries that read heard_messages and heard_replies (what clients
-- sent and heard), crash.places (which place every message was seen at), crash.pauses (when memories were off), topic_rows (what topics have), or traces (where
-- words of deleted messages are), heard_answers (what servers took as the answers to calls), or tool_runs (which tools ran)
-- need the harness. The others need only a project, and may be run by hand:
-- the five numbers of due_folds are the server's MEMORY_ settings.

-- check: acknowledged, always
-- A message that a server acknowledged is stored once, in its chat, with its text.
select h.message_id, h.chat_id, h.content from heard_messages h
 where h.acknowledged and h.deletion = 0
   and (select count(*) from public.messages m where m.id = h.message_id and m.chat_id = h.chat_id and m.user_id = h.user_id
           and m.client_message_id = h.client_id and m.role = 'user' and m.content = h.content) <> 1;

-- check: sent_once, always
-- What a client sent is stored at most once, however often it sent it.
select m.user_id, m.content, array_agg(m.id) from public.messages m
 where m.role = 'user' group by m.user_id, m.content having count(*) > 1;

-- check: nothing_invented, always
-- Every user message is one that its user sent.
select m.id, m.user_id, m.content from public.messages m
 where m.role = 'user' and not exists (
   select from heard_messages h where h.client_id = m.client_message_id and h.user_id = m.user_id and h.content = m.content);

-- check: answer_fits, always
-- A reply holds the beginning of what the model said to its question, and all of it where it is complete.
select a.id, a.status, a.content from public.messages a
  left join public.messages q on q.id = a.reply_to
  left join heard_messages h on h.client_id = q.client_message_id or q.id is null and h.message_id = a.reply_to
 where a.role = 'assistant'
   and (h.client_id is null or not starts_with(h.answer, a.content) or a.status = 'complete' and a.content <> h.answer);

-- check: reply_kept, always
-- A reply that a client saw begin is stored.
select h.reply_id, h.text from heard_replies h
 where h.deletion = 0 and not exists (select from public.messages a where a.id = h.reply_id and a.role = 'assistant');

-- check: heard_is_stored, always
-- What a client heard of a reply that ended is the beginning of its stored text; only of one that was broken off may it have heard more.
select a.id, a.status, a.content, h.text from heard_replies h join public.messages a on a.id = h.reply_id
 where a.status <> 'streaming' and not starts_with(a.content, h.text)
   and not (a.status in ('interrupted', 'cancelled') and starts_with(h.text, a.content));

-- check: last_moment_only, always
-- A reply without tools that was broken off holds all that was heard of it but the last moment, unless Postgres was away or its server frozen.
select a.id, a.status, length(a.content) as stored, h.certain, length(h.text) as heard
  from heard_replies h join public.messages a on a.id = h.reply_id
 where a.status in ('interrupted', 'cancelled') and length(a.content) < h.certain and a.parts is null;

-- check: end_is_true, always
-- A reply whose completion was seen is complete with exactly that text, and one that was seen cancelled is cancelled.
select a.id, a.status, a.content, h.ended, h.text from heard_replies h join public.messages a on a.id = h.reply_id
 where h.ended = 'completion' and (a.status <> 'complete' or a.content <> h.text)
    or h.ended = 'message.cancelled' and a.status <> 'cancelled';

-- check: one_result_a_call, always
-- A call of a tool comes before what belongs to it; it has one result at most, and exactly one when its reply is complete or cancelled.
with calls as (
  select m.id, m.status, p.part ->> 'call_id' as call_id, array_agg(p.part ->> 'type' order by p.n) as types
    from public.messages m cross join lateral jsonb_array_elements(m.parts) with ordinality p (part, n)
   where p.part ? 'call_id' group by m.id, p.part ->> 'call_id')
select c.* from calls c cross join lateral (select cardinality(array_positions(c.types, 'tool_result')) as results) r
 where array_positions(c.types, 'tool_call') <> '{1}' or r.results > 1 or c.status in ('complete', 'cancelled') and r.results = 0;

-- check: parts_in_place, always
-- The places of a reply's parts grow, and lie in its text.
select m.id, m.status, m.content, m.parts from public.messages m
 where exists (select from (select (p.part ->> 'at')::int as at, lag((p.part ->> 'at')::int, 1, 0) over (order by p.n) as before
                              from jsonb_array_elements(m.parts) with ordinality p (part, n)) place
                where place.at not between place.before and length(m.content));

-- check: answers_kept, always
-- An answer to a call that a server took is in the reply.
select h.*, a.status, a.parts from heard_answers h join public.messages a on a.id = h.reply_id
 where not exists (select from jsonb_array_elements(a.parts) p (part)
                    where p.part ->> 'call_id' = h.call_id and h.value = coalesce(p.part -> 'approved', p.part -> 'output'));

-- check: only_calls_run, always
-- A tool ran only for calls that were stored before, each time with the arguments of the call.
select r.*, a.status, a.parts from tool_runs r join public.messages a on a.id = r.reply_id
 where not exists (select from jsonb_array_elements(a.parts) p (part)
                    where p.part ->> 'type' = 'tool_call' and p.part ->> 'call_id' = r.call_id and p.part -> 'arguments' = r.arguments);

-- check: no_state_of_the_ended, always
-- No state of its tools is kept of a reply that is complete or cancelled.
select d.message_id, m.status from public.message_deltas d join public.messages m on m.id = d.message_id
 where d.start_char = -1 and m.status in ('complete', 'cancelled');

-- check: deleted_stays_deleted, always
-- A message whose deletion was acknowledged is gone.
select m.id, m.content from public.messages m
 where m.id in (select h.message_id from heard_messages h where h.deletion = 2 union all select h.reply_id from heard_replies h where h.deletion = 2);

-- check: deleted_leaves_no_word, always
-- Nothing of a message whose deletion was acknowledged is in any column; the records of running replies are let pass, which follow.
select t.place, t.mark from traces t where t.deleted and t.place not like 'public.message\_deltas%';

-- check: superseded_leaves_no_word, always
-- Nothing of a message that is off the path is in any column but its own.
select t.place, t.mark from traces t where t.superseded and t.place not like 'public.message%';

-- check: path_as_chosen, always
-- What the last answer to a client put on the path is there, and what it took away is not; while an answer is due, all or nothing of it.
select m.id, m.seq, m.superseded_by, h.path from heard_messages h join public.messages m on m.id = h.message_id
 where h.path = 0 and m.superseded_by is null or h.path = 2 and m.superseded_by is not null
union all
select m.id, m.seq, m.superseded_by, h.path from heard_replies h join public.messages m on m.id = h.reply_id where h.path = 0 and m.superseded_by is null;

-- check: path_is_a_line, always
-- A message on the path follows the one before it there; one off the path follows an earlier one of its chat, or none.
select m.id, m.chat_id, m.seq, m.parent_id, m.before
  from (select o.*, lag(o.id) over (partition by o.chat_id order by o.seq) as before from public.messages o where o.superseded_by is null) m
 where m.parent_id is distinct from m.before
union all
select m.id, m.chat_id, m.seq, m.parent_id, null from public.messages m left join public.messages p on p.id = m.parent_id
 where m.superseded_by is not null and m.parent_id is not null and (p.chat_id is distinct from m.chat_id or p.seq >= m.seq);

-- check: one_winner, always
-- Of the messages that follow the same one, one at most is on the path.
select m.chat_id, m.parent_id, array_agg(m.id) from public.messages m where m.superseded_by is null group by m.chat_id, m.parent_id having count(*) > 1;

-- check: superseded_by_another, always
-- A message off the path counts no tokens, and names another one of its chat, unless that was deleted.
select a.id, a.status, a.superseded_by, a.token_count from public.messages a
  join public.chats c on c.id = a.chat_id
  left join public.messages b on b.id = a.superseded_by
 where a.superseded_by is not null
   and (a.token_count <> 0 or a.superseded_by = a.id or b.chat_id <> a.chat_id or b.id is null and c.last_seq = c.message_count);

-- check: one_reply_stands, always
-- Every message on the path has one reply there, and one off the path has none.
select q.id, count(a.id) as standing from public.messages q
  left join public.messages a on a.reply_to = q.id and a.role = 'assistant' and a.superseded_by is null
 where q.role = 'user'
   and not exists (select from heard_replies h join heard_messages s using (client_id) where s.message_id = q.id and h.deletion <> 0)
 group by q.id having count(a.id) <> (q.superseded_by is null)::int;

-- check: reply_after_question, always
-- A reply stands in its question's chat, after it.
select a.id, a.seq, q.seq from public.messages a join public.messages q on q.id = a.reply_to
 where a.chat_id <> q.chat_id or a.seq <= q.seq;

-- check: order_of_sending, always
-- Messages that a client sent one after the other are stored in that order.
select first.id, first.seq, second.id, second.seq
  from heard_messages h join public.messages first on first.id = h.message_id
  join heard_messages later on later.chat_id = h.chat_id and later.place > h.place
  join public.messages second on second.id = later.message_id
 where second.seq <= first.seq;

-- check: place_for_good, always
-- A place in a chat is never another message's, also after the message there was deleted.
with seen as (select chat_id, seq, message_id from crash.places union select m.chat_id, m.seq, m.id from public.messages m)
select chat_id, seq, array_agg(message_id) from seen group by chat_id, seq having count(*) > 1
union all
select chat_id, min(seq), array_agg(message_id) from seen group by chat_id, message_id having count(*) > 1;

-- check: no_gaps, always
-- The places of a chat are 1, 2, 3 … but for the messages that were deleted.
with deleted as (
  select h.chat_id, h.deletion = 2 as certain from heard_messages h where h.deletion <> 0
  union all
  select s.chat_id, h.deletion = 2 from heard_replies h join heard_messages s using (client_id) where h.deletion <> 0)
select c.id, c.last_seq, count(m.id) as messages from public.chats c left join public.messages m on m.chat_id = c.id
 group by c.id
having c.last_seq - count(m.id) not between
         (select count(*) from deleted d where d.chat_id = c.id and d.certain) and (select count(*) from deleted d where d.chat_id = c.id);

-- check: chat_counters, always
-- A chat's counters are what a count of its messages gives.
select c.id, c.message_count, counted.messages, c.turn_count, counted.turns, c.last_seq, counted.last_seq as greatest_seq
  from public.chats c
 cross join lateral (select count(*) as messages, count(*) filter (where m.role = 'user' and m.token_count > 0) as turns, coalesce(max(m.seq), 0) as last_seq,
   max(m.created_at) as last_at
                       from public.messages m where m.chat_id = c.id) counted
 where (c.message_count, c.turn_count) <> (counted.messages, counted.turns) or c.last_seq < counted.last_seq or c.last_message_at < counted.last_at;

-- check: token_counts, always
-- A message counts tokens when it has text that stands, and none otherwise.
select m.id, m.status, m.token_count, length(m.content) from public.messages m
 where (m.token_count > 0) <> (m.content <> '' and m.superseded_by is null);

-- check: brief_counters, always
-- A brief's counters are what a count of the messages behind its place gives.
select b.chat_id, b.pending_tokens, counted.tokens, b.pending_turns, counted.turns, b.cleared_turns, counted.cleared
  from public.conversation_briefs b
 cross join lateral (select coalesce(sum(m.token_count) filter (where m.seq > b.covered_seq), 0) as tokens,
                            count(*) filter (where m.role = 'user' and m.token_count > 0 and m.seq > b.covered_seq) as turns,
                            count(*) filter (where m.role = 'user' and m.token_count > 0 and m.seq <= b.cleared_seq) as cleared
                       from public.messages m where m.chat_id = b.chat_id) counted
 where (b.pending_tokens, b.pending_turns, b.cleared_turns) <> (counted.tokens, counted.turns, counted.cleared);

-- check: ledger_versions, always
-- A brief's version is the number of its revisions, which are numbered 1, 2, 3 …
select b.chat_id, b.version, count(r.version), min(r.version), max(r.version)
  from public.conversation_briefs b left join public.conversation_brief_revisions r on r.chat_id = b.chat_id
 group by b.chat_id having b.version <> count(r.version) or count(r.version) > 0 and (min(r.version) <> 1 or max(r.version) <> count(r.version));

-- check: ledger_ranges, always
-- The ranges of a chat's revisions that stand follow each other without a hole and without an overlap; one that was undone has no text.
with steps as (
  select r.*, lag(r.seq_to, 1, 0::bigint) over (partition by r.chat_id, r.undone_by is null order by r.version) as covered
    from public.conversation_brief_revisions r)
select chat_id, version, kind, seq_from, seq_to, covered, undone_by from steps
 where case when undone_by is null then seq_from <> covered + 1 else global_summary is not null or undone_by <= version end;

-- check: brief_is_its_last_revision, always
-- A brief says what its last revision says, and covers what its revisions cover.
select b.chat_id, b.version, b.covered_seq, ledger.covered, b.cleared_seq, ledger.cleared
  from public.conversation_briefs b
 cross join lateral (select coalesce(max(r.seq_to) filter (where r.undone_by is null), 0) as covered,
                            coalesce(max(r.seq_to) filter (where r.kind = 'clear'), 0) as cleared,
                            coalesce((array_agg(r.global_summary order by r.version desc))[1], '') as summary
                       from public.conversation_brief_revisions r where r.chat_id = b.chat_id) ledger
 where (b.covered_seq, b.cleared_seq) <> (ledger.covered, ledger.cleared) or b.brief ->> 'global_summary' <> ledger.summary;

-- check: ledger_turns, always
-- A fold that stands names as many turns as its range has, in chats of which nothing was deleted.
select r.chat_id, r.version, r.turns, counted.turns
  from public.conversation_brief_revisions r join public.chats c on c.id = r.chat_id and c.last_seq = c.message_count
 cross join lateral (select count(*) as turns from public.messages m
                      where m.chat_id = r.chat_id and m.role = 'user' and m.token_count > 0 and m.seq between r.seq_from and r.seq_to) counted
 where r.kind = 'fold' and r.undone_by is null and r.turns <> counted.turns;

-- check: folded_once, always
-- A summary, of a brief or of a revision since the last clear, holds each message of the path up to its place exactly once, and no other.
with summaries as (
  select b.chat_id, b.version, b.cleared_seq, b.covered_seq, b.brief ->> 'global_summary' as text from public.conversation_briefs b
  union all
  select b.chat_id, -r.version, b.cleared_seq, r.seq_to, r.global_summary
    from public.conversation_briefs b
    join public.conversation_brief_revisions r on r.chat_id = b.chat_id and r.global_summary <> '' and r.seq_to > b.cleared_seq),
held as (
  select s.chat_id, s.version, found.mark[1] as mark, count(*) as times from summaries s
   cross join lateral regexp_matches(s.text, '(?:ask|said)\d+', 'g') as found (mark) group by 1, 2, 3),
due as (
  select s.chat_id, s.version, substring(m.content from '^(?:ask|said)\d+') as mark from summaries s
    join public.messages m on m.chat_id = s.chat_id and m.seq > s.cleared_seq and m.seq <= s.covered_seq
   where m.superseded_by is null and m.status <> 'streaming' and m.content <> '')
select chat_id, version, mark, coalesce(held.times, 0) as times, due.mark is not null as covered
  from held full join due using (chat_id, version, mark) where due.mark is null or held.times is distinct from 1;

-- check: covered_is_indexed, always
-- What a brief covers since the last clear can be recalled: each message is in one row of the index.
select b.chat_id, m.seq, b.covered_seq, b.indexed_seq, count(i.seq) as rows
  from public.conversation_briefs b
  join public.messages m on m.chat_id = b.chat_id and m.token_count > 0 and m.seq > b.cleared_seq and m.seq <= b.covered_seq
  left join public.turn_index i on i.chat_id = m.chat_id and m.seq between i.seq and i.last_seq
 group by b.chat_id, m.seq, b.covered_seq, b.indexed_seq having count(i.seq) <> 1;

-- check: indexed_words_are_there, always
-- A row of the index has the words of its messages and of the question before them, and no word that is gone.
with held as (
  select i.chat_id, i.seq, array(select word from unnest(tsvector_to_array(i.tsv)) word where word !~ '^(chat|user) ' order by word) as words,
         array(select word from public.messages m
                cross join lateral unnest(tsvector_to_array(to_tsvector('throughline.words', throughline.searchable(m.content)))) word
                where m.chat_id = i.chat_id and m.token_count > 0 and (m.seq between i.seq and i.last_seq or m.seq = i.words_from)
                group by word order by word) as said
    from public.turn_index i)
select chat_id, seq, words, said from held where words <> said;

-- check: extraction_ranges, always
-- The ranges of a chat's extractions follow each other from its first message on, without a hole and without an overlap, up to where its brief says.
with ranges as (
  select e.*, lag(e.seq_to, 1, 0::bigint) over (partition by e.chat_id order by e.seq_from) as before from public.memory_extractions e)
select r.chat_id, r.before, r.seq_from, r.seq_to, r.result from ranges r where r.seq_from <> r.before + 1 or r.seq_to < r.seq_from
union all
select b.chat_id, b.extracted_seq, null, coalesce(max(e.seq_to), 0), 'brief'
  from public.conversation_briefs b left join public.memory_extractions e on e.chat_id = b.chat_id
 group by b.chat_id having b.extracted_seq <> coalesce(max(e.seq_to), 0);

-- check: extracted_once, always
-- What a user said is in the evidence of exactly one memory, once its range was read: the model makes one of every message on the path.
select m.id, m.chat_id, m.seq, m.content, e.result, count(s.memory_id) as times
  from public.messages m
  join public.memory_extractions e on e.chat_id = m.chat_id and m.seq between e.seq_from and e.seq_to
  left join public.memory_sources s on s.message_id = m.id
 where m.role = 'user' and m.superseded_by is null and e.result <> 'skipped'
   -- What came back to the path is read again, but not behind what is not to be.
   and not exists (select from public.memory_extractions s where s.chat_id = m.chat_id and s.seq_from > m.seq and s.result = 'skipped')
 group by m.id, m.chat_id, m.seq, m.content, e.result having count(s.memory_id) <> 1;

-- check: only_what_users_said, always
-- No memory has what the assistant said, or an assistant's message as its only evidence.
select y.id, y.content from public.memories y
 where y.content ~ '\msaid\d' or exists (
   select from public.memory_sources s where s.memory_id = y.id having count(*) > 0 and bool_and(
     exists (select from public.messages m where m.id = s.message_id and m.role <> 'user')));

-- check: memory_has_source, always
-- A memory that a user did not write has a message that says it.
select y.id, y.status, y.content from public.memories y
 where y.origin = 'extracted' and not exists (select from public.memory_sources s where s.memory_id = y.id);

-- check: source_is_true, always
-- The words that a memory quotes are in the message that it names, on the path of that chat, of that user.
select s.memory_id, s.message_id, s.quote, m.content from public.memory_sources s left join public.messages m on m.id = s.message_id
 where m.id is null or m.user_id <> s.user_id or m.chat_id <> s.chat_id or m.seq <> s.seq or m.superseded_by is not null or position(s.quote in m.content) = 0;

-- check: one_of_a_key, always
-- No two memories of a user that are shown say the same.
select y.user_id, min(y.content), count(*) from public.memories y where y.status in ('active', 'inbox') group by y.user_id, y.content_key having count(*) > 1;

-- check: closed_has_successor, always
-- A memory that something took the place of is closed, and one that is shown is not.
select y.id, y.status, y.superseded_by, y.retracted_at, y.content from public.memories y
 where y.status = 'superseded' and y.retracted_at is null or y.status in ('active', 'inbox') and (y.superseded_by is not null or y.retracted_at is not null);

-- check: memory_revisions, always
-- Every change of a memory has its revision: they are numbered 1, 2, 3 … up to the memory's version.
select y.id, y.version, count(r.version), min(r.version), max(r.version)
  from public.memories y left join public.memory_revisions r on r.memory_id = y.id
 group by y.id, y.version having count(r.version) <> y.version or min(r.version) <> 1 or max(r.version) <> y.version;

-- check: hands_off, always
-- What a user wrote or edited is not changed by a model afterwards, but for how sure it is.
select r.memory_id, r.version, r.action, y.content from public.memory_revisions r join public.memories y on y.id = r.memory_id
 where r.actor = 'model' and r.action in ('UPDATE', 'DELETE', 'MERGE')
   and exists (select from public.memory_revisions e where e.memory_id = r.memory_id and e.version < r.version and e.actor = 'user' and e.action = 'EDIT');

-- check: memory_versions, always
-- A user's version grows with every extraction that changes a memory, and never shrinks.
select u.user_id, u.version, count(e.id) as changes, max(k.version) as was
  from public.memory_users u
  left join public.memory_extractions e on e.user_id = u.user_id and e.added + e.updated + e.superseded + e.noops > 0
  left join crash.memory_versions k on k.user_id = u.user_id
 group by u.user_id, u.version having u.version < count(e.id) or u.version < max(k.version);

-- check: mentions_are_counted, always
-- A thing that memories are about is mentioned by as many as it says, and by one at least.
select n.user_id, n.name, n.mentions, count(m.memory_id) from public.memory_entities n
  left join public.memory_mentions m on m.entity_id = n.id
 group by n.id having n.mentions <> count(m.memory_id) or count(m.memory_id) = 0;

-- check: topic_of_its_chat, always
-- A turn has at most one topic: one of its own chat and user, which is not merged into another.
select i.chat_id, i.seq, i.topic_id, t.chat_id as of_chat, t.state from public.turn_index i left join public.topics t on t.id = i.topic_id
 where i.topic_id is not null and (t.id is null or t.chat_id <> i.chat_id or t.user_id <> i.user_id or t.state = 'merged');

-- check: topic_counters, always
-- A topic's messages are its turns' messages: it counts as many, says where they begin and end, and has at least one.
select t.id, t.chat_id, t.number, t.state, t.message_count, counted.messages, t.first_seq, turns.first_seq as first, t.last_seq, turns.last_seq as last
  from public.topics t
 cross join lateral (select count(*) as messages from topic_rows r where r.topic_id = t.id) counted
 cross join lateral (select min(i.seq) as first_seq, max(i.last_seq) as last_seq from public.turn_index i where i.chat_id = t.chat_id
   and i.topic_id = t.id) turns
 where t.state <> 'merged'
   and (t.message_count <> counted.messages or counted.messages = 0 or (t.first_seq, t.last_seq) is distinct from (turns.first_seq, turns.last_seq));

-- check: topic_messages_agree, always
-- What our own function calls a topic's messages are those of its turns that stand.
select t.id, coalesce(ours.seq, theirs.seq) as seq
  from public.topics t
   join throughline.messages_of_topics ours on ours.topic_id = t.id
  full join topic_rows theirs on theirs.topic_id = t.id and theirs.seq = ours.seq and theirs.content = ours.content
 where ours.seq is null or theirs.seq is null;

-- check: topic_numbers, always
-- The topics of a chat have numbers of their own, from 1 on.
select t.chat_id, t.number, count(*) from public.topics t group by t.chat_id, t.number having count(*) > 1 or t.number < 1;

-- check: topic_accesses, always
-- A topic was come back to as often as it has turns but the first, and those merged into it; more where messages were deleted, about so where replaced.
with merges as (
  with recursive into_it (id, into_id) as (
    select m.id, m.merged_into from public.topics m where m.merged_into is not null
    union all select i.id, t.merged_into from into_it i join public.topics t on t.id = i.into_id where t.merged_into is not null)
  select into_id, count(*) as topics from into_it group by into_id)
select t.id, t.chat_id, t.number, t.access_count, turns.count as turns, coalesce(merges.topics, 0) as merged, c.last_seq, c.message_count
  from public.topics t join public.chats c on c.id = t.chat_id
  left join merges on merges.into_id = t.id
 cross join lateral (select count(*) from public.turn_index i where i.chat_id = t.chat_id and i.topic_id = t.id) turns
 where t.state <> 'merged'
   and (t.access_count < turns.count - 1 - coalesce(merges.topics, 0)
     or c.last_seq = c.message_count and t.access_count > turns.count - 1 - coalesce(merges.topics, 0))
   and not exists (select from public.messages m where m.chat_id = c.id and m.superseded_by is not null and m.status in ('complete', 'cancelled'));

-- check: packed_are_counted, always
-- A topic has as many packed messages as it says: those up to its place.
select t.id, t.chat_id, t.number, t.state, t.compacted_seq, t.compacted_messages from public.topics t
 where t.compacted_messages <> (select count(*) from topic_rows r where r.topic_id = t.id and r.seq <= t.compacted_seq);

-- check: topic_says_what_is_there, always
-- The title and the summary of a topic have words only of messages that are still there.
select t.id, t.chat_id, t.state, t.stale, t.title, t.summary, said.mark[1] as gone
  from public.topics t
 cross join lateral regexp_matches(lower(t.title) || ' ' || coalesce(t.summary, ''), '(?:ask|said)\d+', 'g') as said (mark)
 where not exists (select from public.messages m where m.chat_id = t.chat_id and m.superseded_by is null
   and substring(m.content from '^(?:ask|said)\d+') = said.mark[1]);

-- check: topic_title, always
-- A title that its user did not choose is of a message of the topic, or was made with its summary.
select t.id, t.chat_id, t.number, t.title, t.title_seq from public.topics t
 where t.state <> 'merged' and t.title_seq is not null and not t.stale
   and case when t.title_seq = 0 then t.summary is null else not exists (select from topic_rows r where r.topic_id = t.id and r.seq = t.title_seq) end;

-- check: summarized_once, always
-- The summary of a topic holds each of its messages up to its place exactly once, and no other; a stale one is let pass, and one that has no room for all.
with held as (
  select t.id, found.mark[1] as mark, count(*) as times from public.topics t
   cross join lateral regexp_matches(t.summary, '(?:ask|said)\d+', 'g') as found (mark)
   where not t.stale and t.state <> 'merged' group by 1, 2),
due as (
  select t.id, substring(r.content from '^(?:ask|said)\d+') as mark from public.topics t join topic_rows r on r.topic_id = t.id and r.seq <= t.summary_seq
   where not t.stale and t.summary is not null),
fits as (select due.id from due group by due.id having count(*) <= @topic_room)
select id, mark, coalesce(held.times, 0) as times, due.mark is not null as due
  from held full join due using (id, mark)
 where (id in (select fits.id from fits) and held.times is distinct from 1) or due.mark is null;

-- check: merged_is_empty, always
-- A topic that was merged says into which one of its chat, and keeps nothing.
select t.id, t.state, t.merged_into, kept.chat_id from public.topics t left join public.topics kept on kept.id = t.merged_into
 where (t.state = 'merged') <> (t.merged_into is not null)
    or t.state = 'merged' and (kept.chat_id is distinct from t.chat_id or t.summary is not null or t.compacted_seq <> 0 or t.centroid is not null);

-- check: resting_without_vector, always
-- The turns of a topic that faded have no vector, and rest; no others do.
select i.chat_id, i.seq, i.resting, i.embedding is not null as has_vector, t.state from public.turn_index i left join public.topics t on t.id = i.topic_id
 where i.resting and i.embedding is not null or i.resting <> (coalesce(t.state, 'active') = 'archived');

-- check: nothing_streaming, quiet
-- No reply is left running.
select m.id, m.chat_id, m.lease_until from public.messages m where m.status = 'streaming';

-- check: awaits_in_time, quiet
-- No reply waits for its user beyond its time.
select m.id, m.chat_id, m.lease_until from public.messages m where m.status = 'awaiting' and (m.lease_until > now()) is not true;

-- check: no_deltas, quiet
-- Nothing is left of the records of running replies, but of what may go on.
select d.message_id, count(*), max(m.status) from public.message_deltas d left join public.messages m on m.id = d.message_id
 where d.start_char >= 0 or coalesce(m.status, '') not in ('awaiting', 'failed', 'interrupted') group by d.message_id;

-- check: nothing_due, quiet
-- No chat waits for a fold.
select d.chat_id, d.reason, d.tokens_total, d.pending_turns, d.job_state, d.job_last_error
  from inspect.due_folds(@threshold, @tail, @bridge, @least, @prompt) d;

-- check: no_job_left, quiet
-- No memory job is unfinished, stuck as running, or was given up; let pass are periodic ones, which come again, and those of deleted chats.
select j.id, j.kind, j.state, j.attempt, j.args from river.river_job j where j.queue in ('memory', 'memories', 'topics')
  and j.kind <> 'update_memory_graph' and j.state not in ('completed', 'cancelled')
  and not ((j.state = 'scheduled' or j.state in ('available', 'running') and j.scheduled_at > now() - interval '10 seconds')
    and j.args ? 'chat_id' and not exists (select from public.chats c where c.id = (j.args ->> 'chat_id')::uuid));

-- check: no_lease_left, quiet
-- No fold, no extraction and no packing of a topic holds a lease.
select w.kind, w.key, w.user_id, w.lease_until from throughline.work w where w.lease_token is not null;

-- check: owner_is_there, quiet
-- Nothing is left of a deleted chat or account, also where no foreign key sees to it.
select kept.what, kept.key from (
    select 'brief' as what, chat_id as key from public.conversation_briefs
    union all select 'revision', chat_id from public.conversation_brief_revisions
    union all select 'draft', chat_id from public.conversation_brief_drafts
    union all select 'index', chat_id from public.turn_index
    union all select 'topic', chat_id from public.topics
    union all select 'extraction', chat_id from public.memory_extractions) kept
 where not exists (select from public.chats c where c.id = kept.key)
union all
select w.kind, w.key from throughline.work w where not exists (select from throughline.accounts a where a.user_id = w.user_id);

-- check: paused_learns_nothing, always
-- Nothing is learned while the user has switched memories, or the chat's, off.
select e.id, e.chat_id, e.created_at, p.off_at, p.on_at
  from crash.pauses p join public.memory_extractions e on e.user_id = p.user_id and e.chat_id = coalesce(p.chat_id, e.chat_id)
 where e.result <> 'skipped' and e.created_at > p.off_at and e.created_at < coalesce(p.on_at, 'infinity');

-- check: all_extracted, quiet
-- Every turn has been read for memories, for any end of its reply, and no chat is due for it.
select b.chat_id, b.extracted_seq, b.extract_due_at, m.seq from public.conversation_briefs b
  left join public.messages m on m.chat_id = b.chat_id and m.role = 'user' and m.token_count > 0 and m.seq > b.extracted_seq
 where m.id is not null or b.extract_due_at is not null;

-- check: all_assigned, quiet
-- Every indexed turn since the last clear has its topic.
select i.chat_id, i.seq, i.said_at, i.embedding is not null as has_vector from public.turn_index i join public.conversation_briefs b using (chat_id)
 where i.topic_id is null and i.seq > b.cleared_seq and (@topics_from_brief::boolean is not true or b.covered_seq > 0);

-- check: topics_are_repaired, quiet
-- No topic waits for its summary, and none but one that is talked about has more messages unpacked than it may.
select t.id, t.chat_id, t.number, t.state, t.stale, t.rehydrated, t.message_count, t.compacted_seq from public.topics t
 where t.state <> 'merged'
   and (t.stale
     or (select count(*) from topic_rows r where r.topic_id = t.id and r.seq > t.compacted_seq) > @topic_most
        and not (t.rehydrated
          and t.last_seq = (select max(other.last_seq) from public.topics other where other.chat_id = t.chat_id and other.state = 'active')));

-- check: remembered, greeted
-- The prompt of a chat's next message showed each message since the last clear exactly once, from the brief or word for word.
with due as (
  select p.client_id, substring(m.content from '^(?:ask|said)\d+') as mark
    from prompts p join heard_messages h using (client_id)
    join public.messages q on q.id = h.message_id
    join public.conversation_briefs b on b.chat_id = q.chat_id
    join public.messages m on m.chat_id = q.chat_id and m.seq < q.seq and m.seq > b.cleared_seq and m.superseded_by is null and m.content <> ''),
shown as (select p.client_id, one.mark, count(*) as times from prompts p cross join lateral unnest(p.marks) as one (mark) group by 1, 2)
select client_id, mark, coalesce(shown.times, 0) as times from due full join shown using (client_id, mark)
 where due.mark is null or shown.times is distinct from 1;
